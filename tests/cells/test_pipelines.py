"""What runs in other people's pipelines: the action's script, and the scripts of docs/how-to/ci.md, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from lab.model.paths import cache_dir
from tests.docs.run_pages import blocks
from tests.support.entry_points import ROOT

ACTION = ROOT / ".ci" / "action.sh"
CLIENT = """\
name: my-client
program: curl
protocols: [http1]
get: curl -s -o {output} {url}
put: curl -s -T {source} {url}
limit: --limit-rate {limit}
"""
PASSES = "run curl--dsl-20--http1-get-300kB"
FAILS = "run my-client--dsl-50--http1-get-2MB-at-2MBps --client ./my-client.yaml"


class Job:
    """A job's working folder, with a `lab` on its PATH that is this tree's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.programs = folder / "bin"
        for each in (self.folder, self.programs):
            each.mkdir()
        self.program("lab", f'exec "{sys.executable}" -m lab.cli.main "$@"')
        (self.folder / "my-client.yaml").write_text(CLIENT)

    def program(self, name: str, body: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("ROUGHWATER_FERRY",) if name in os.environ}
        kept["ROUGHWATER_CACHE"] = str(cache_dir())
        home = os.environ.get("HOME", "/")
        return subprocess.run(
            words,
            cwd=self.folder,
            env={"PATH": f"{self.programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": home, **kept, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
        )


class GitHubJob(Job):
    """With a runner's files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}

    def act(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        names = {name: str(path) for name, path in self.files.items()}
        return self.run("sh", str(ACTION), LAB_COMMAND=command, RUNNER_TEMP=str(self.programs.parent), **names, **variables)

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.files["GITHUB_OUTPUT"].read_text().splitlines())


@pytest.fixture
def job(tmp_path: Path) -> GitHubJob:
    return GitHubJob(tmp_path)


def test_a_pass_ends_in_0_with_a_summary_and_outputs(job: GitHubJob) -> None:
    done = job.act(PASSES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert job.outputs["verdict"] == "PASS"
    assert (job.outputs["pass"], job.outputs["fail"], job.outputs["exit-code"]) == ("1", "0", "0")
    assert Path(job.outputs["report"]).is_file()
    assert Path(job.outputs["junit"]).is_file()
    assert job.files["GITHUB_STEP_SUMMARY"].read_text().startswith("## ● **PASS**")
    assert "::error" not in done.stdout


def test_a_fail_ends_in_1_with_an_annotation_for_the_cell(job: GitHubJob) -> None:
    done = job.act(FAILS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert job.outputs["verdict"] == "FAIL"
    assert job.outputs["exit-code"] == "1"
    (line,) = (each for each in done.stdout.splitlines() if each.startswith("::error"))
    assert line.startswith("::error title=FAIL my-client--dsl-50--http1-get-2MB-at-2MBps::mean +")


def test_a_verdict_that_should_not_fail_the_job_does_not(job: GitHubJob) -> None:
    done = job.act(FAILS, LAB_FAIL_ON="INVALID", LAB_RESULTS=str(job.folder / "elsewhere"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert job.outputs["verdict"] == "FAIL"
    assert Path(job.outputs["folder"]).parent == job.folder / "elsewhere"


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("", 2, "set the action's input"),
        ("run no-such-suite", 2, "left no results (exit code 2)"),
        ("--version", 4, "left no results"),
    ],
)
def test_a_command_without_results_is_an_error(job: GitHubJob, command: str, code: int, said: str) -> None:
    done = job.act(command)
    assert done.returncode == code
    assert said in done.stdout
    assert not job.files["GITHUB_OUTPUT"].exists()


def test_what_is_to_be_installed_is_installed_and_used(job: GitHubJob, tmp_path: Path) -> None:
    wheel = tmp_path / "fake_lab-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr("fake_lab.py", "def main():\n    print('the installed lab')\n")
        info = "fake_lab-1.dist-info"
        out.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: fake-lab\nVersion: 1\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/entry_points.txt", "[console_scripts]\nlab = fake_lab:main\n")
        out.writestr(f"{info}/RECORD", "")
    done = job.act("run throttle", LAB_INSTALL=str(wheel))
    assert "the installed lab" in done.stdout, done.stdout + done.stderr
    assert job.files["GITHUB_PATH"].read_text().strip() == str(tmp_path / "roughwater" / "bin")


# --- docs/how-to/ci.md ------------------------------------------------------------------------------------------------------

FILES = {block.notes["file"]: block.body for block in blocks(ROOT / "docs/how-to/ci.md") if "file" in block.notes}


def small(script: str) -> str:
    """The script with one small row of its suite."""
    assert "--include demo" in script
    return script.replace("--include demo", '--test "DSL 50, H* Put, 16 Mbit/s"')


def test_the_gitlab_job_installs_the_lab_and_ends_with_the_verdict(tmp_path: Path) -> None:
    job = Job(tmp_path)
    for name in ("apt-get", "pipx"):
        job.program(name, f'echo "{name} $@" >>{tmp_path}/installed')
    found = YAML(typ="safe").load(FILES[".gitlab-ci.yml"])["lab"]
    script = small("\n".join(["set -e", *found["before_script"], *found["script"]]))
    done = job.run("sh", "-c", script, ROUGHWATER_RESULTS=str(job.folder / "results"), HOME=str(tmp_path))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "pipx install ./roughwater-" in (tmp_path / "installed").read_text()
    assert list(job.folder.glob(found["artifacts"]["reports"]["junit"]))


def test_the_jenkins_stages_install_the_lab_and_leave_what_the_build_reads(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.program(
        "python3", "mkdir -p .lab/bin; printf '#!/bin/sh\\necho pip \"$@\" >>installed\\n' >.lab/bin/pip; chmod +x .lab/bin/pip"
    )
    results = str(job.folder / "results")
    install, qualify = (textwrap.dedent(each) for each in re.findall(r"sh '''\n(.*?)'''", FILES["Jenkinsfile"], re.DOTALL))
    assert job.run("sh", "-ec", install).returncode == 0
    assert "install --quiet ./roughwater-" in (job.folder / "installed").read_text()
    done = job.run("sh", "-ec", small(qualify), ROUGHWATER_RESULTS=results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(job.folder.glob("results/*/junit.xml"))
