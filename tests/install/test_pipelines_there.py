"""The pipelines of docs/how-to/ci.md as they are printed, and the tests of pytest.md, in a Debian that has only Python.

The lab's wheel is where the page puts it: in the job's project. /wheels stands for the index of packages, and has only the
packages of others: a recipe that asked an index for the lab would fail. Each job ends with its output printed (`pytest -rA`).
`tests/cells/test_pipelines.py` has the scripts' many cases, with stand-ins for pip, pipx and apt-get.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.run_pages import blocks
from tests.support.bare_debian import USER_ID, Debian, LackingError, add_wheels, unpack
from tests.support.entry_points import ROOT

FILES = {
    block.notes["file"]: block.body
    for page in ("ci.md", "pytest.md")
    for block in blocks(ROOT / "docs/how-to" / page)
    if "file" in block.notes
}
CLIENT = "name: my-client\nprogram: curl\nprotocols: [http1]\nget: curl -s -o {output} {url}\nput: curl -s -T {source} {url}\n"
LIMIT = "limit: --limit-rate {limit}\n"
INDEX = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
ACTION = Path("/home/user/_actions/roughwater")

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Debian:
    try:
        made = unpack("bookworm", tmp_path_factory.mktemp("pipelines"))
        # pipx brings its own pip up to date; pip builds the action's checkout with hatchling; the example's tests need pytest.
        add_wheels(made, "bookworm", ("pip", "setuptools", "wheel", "hatchling", "pytest"))
    except LackingError as why:
        pytest.skip(str(why))
    return made


@pytest.fixture(scope="module")
def wheel(debian: Debian, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's wheel, taken out of what stands for the index."""
    (made,) = debian.wheels.glob("roughwater-*.whl")
    return Path(shutil.move(made, tmp_path_factory.mktemp("wheel")))


def read(text: str) -> Any:
    return YAML(typ="safe").load(text)


def job(
    debian: Debian, name: str, script: str, variables: Mapping[str, str], *, user: str = "user", files: tuple[Path, ...] = ()
) -> tuple[int, str, Path]:
    """Run a job's script in a project with a client to test and these files: exit code, output, and that folder."""
    folder = debian.root / "home" / user / name
    folder.mkdir()
    (folder / "my-client.yaml").write_text(CLIENT + LIMIT)
    for file in files:
        shutil.copy(file, folder)
    if user != "root":
        shutil.chown(folder, USER_ID, USER_ID)
    set_up = "".join(f'export {key}="{value}"\n' for key, value in {**INDEX, **variables}.items())
    code, said = debian.run(f"{set_up}set -e\ncd {name}\n{script}", user=user)
    print(said, f"exit code {code}", sep="\n")
    return code, said, folder


def the_run(folder: Path, junit: str) -> dict[str, Any]:
    """run.json of the one run whose junit.xml the pipeline's service finds."""
    (found,) = folder.glob(junit)
    assert found.read_text(encoding="utf-8").count("<testcase ") >= 6
    run: dict[str, Any] = json.loads((found.parent / "run.json").read_text(encoding="utf-8"))
    assert set(run["verdicts"].values()) <= {"PASS", "FAIL", "INCONCLUSIVE"}
    return run


@pytest.fixture(scope="module", autouse=True)
def copy_of_the_repository(debian: Debian) -> None:
    """What GitHub puts into a runner for `uses: OWNER/roughwater@...`: every file of the repository, without its history."""
    listed = subprocess.run(
        ["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    target = debian.root / str(ACTION).lstrip("/")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    for path in (target.parent, *target.parent.rglob("*")):
        os.chown(path, USER_ID, USER_ID, follow_symlinks=False)


def environment_of_the_action(words: Mapping[str, str], workspace: str) -> dict[str, str]:
    """The variables that action.yml gives its script where a workflow calls it with these words."""
    action = read((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = {name: str(words.get(name, each.get("default", ""))) for name, each in action["inputs"].items()}
    known = {"github.action_path": str(ACTION), "github.workspace": workspace}

    def filled(text: str) -> str:
        found = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: inputs[match[1]], text)
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda match: known[match[1]], found)

    step = action["runs"]["steps"][0]
    assert step["run"] == 'sh "$GITHUB_ACTION_PATH/.ci/action.sh"'
    return {"GITHUB_ACTION_PATH": str(ACTION), **{name: filled(value) for name, value in step["env"].items()}}


def test_the_github_job(debian: Debian, wheel: Path) -> None:
    """The same environment then has the plugin: the example's tests pass in it."""
    steps = read(FILES[".github/workflows/nightly.yml"])["jobs"]["lab"]["steps"]
    (call,) = (step["with"] for step in steps if "/roughwater@" in step.get("uses", ""))
    files = {name: f"/home/user/github/{name.lower()}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    variables = {**environment_of_the_action(call, "/home/user/github"), **files, "RUNNER_TEMP": "/home/user/temp"}
    assert not list(debian.wheels.glob(wheel.name))
    code, said, folder = job(debian, "github", 'sh "$GITHUB_ACTION_PATH/.ci/action.sh"', variables)
    run = the_run(folder, "results/20*/junit.xml")
    assert code == (1 if "FAIL" in call["fail-on"] and run["exit_code"] == 1 else 0), said
    outputs = dict(line.split("=", 1) for line in (folder / "github_output").read_text().splitlines())
    assert outputs["exit-code"] == str(run["exit_code"])
    assert set(re.findall(r"steps\.lab\.outputs\.([\w-]+)", FILES[".github/workflows/nightly.yml"])) <= set(outputs)
    assert Path(outputs["junit"]).parent.parent == Path("/home/user/github/results")
    assert f"**{outputs['verdict']}**" in (folder / "github_step_summary").read_text().splitlines()[0]
    assert (folder / "github_path").read_text() == "/home/user/temp/roughwater/bin\n"

    example = folder / "example"
    example.mkdir()
    shutil.chown(example, USER_ID, USER_ID)
    for name in ("uploader.py", "test_uploader.py"):
        (example / name).write_text(FILES[name])
    python = "/home/user/temp/roughwater/bin/python"
    tests = f"{python} -m pip install -q pytest; cd github/example; {python} -m pytest -q -p no:cacheprovider"
    code, said = debian.run("".join(f"export {key}={value}; " for key, value in INDEX.items()) + tests)
    assert code == 0, said
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


def test_the_action_installs_a_wheel_that_its_input_names(debian: Debian, wheel: Path) -> None:
    words = {"command": "run curl--dsl-20--http1-get-300kB", "install": f"./{wheel.name}"}
    variables = {**environment_of_the_action(words, "/home/user/wheel"), "RUNNER_TEMP": "/home/user/wheel/temp"}
    code, said, folder = job(debian, "wheel", 'sh "$GITHUB_ACTION_PATH/.ci/action.sh"', variables, files=(wheel,))
    assert code == 0, said
    assert len(list(folder.glob("results/20*/junit.xml"))) == 1


def test_the_gitlab_job(debian: Debian, wheel: Path) -> None:
    found = read(FILES[".gitlab-ci.yml"])["lab"]
    script = "\n".join([*found["before_script"], *found["script"]])
    variables = {"CI_PROJECT_DIR": "$HOME/gitlab", **found["variables"]}
    code, said, folder = job(debian, "gitlab", script, variables, user="root", files=(wheel,))
    run = the_run(folder, found["artifacts"]["reports"]["junit"])
    assert code == {3: 0}.get(run["exit_code"], run["exit_code"]), said
    assert found["artifacts"]["paths"] == ["results"]
    assert (debian.root / "usr/bin/pipx").exists(), said

    # The page's other way: an address. And what install.md says of more packages in the lab's environment.
    web = "python3 -m http.server --directory gitlab 8000 >/dev/null 2>&1 & sleep 1\n"
    address = f"pipx install --force --pip-args=--no-deps http://127.0.0.1:8000/{wheel.name}\n"
    shutil.copy(next(debian.wheels.glob("iniconfig-*.whl")), folder)
    more = "pipx inject roughwater ./gitlab/iniconfig-*.whl\n"
    set_up = "".join(f"export {key}={value}\n" for key, value in INDEX.items())
    code, said = debian.run(f"{set_up}set -e\n{web}{address}{more}", user="root")
    assert code == 0, said


def test_the_jenkins_stages(debian: Debian, wheel: Path) -> None:
    text = FILES["Jenkinsfile"]
    stages = [textwrap.dedent(each) for each in re.findall(r"sh '''\n(.*?)'''", text, re.DOTALL)]
    variables = {name: value.replace("${WORKSPACE}", "$HOME/jenkins") for name, value in re.findall(r'(\w+) = "(.*?)"', text)}
    # Jenkins calls each with `sh -xe`.
    script = "\n".join(f"(set -xe\n{each})" for each in stages)
    code, said, folder = job(debian, "jenkins", script, variables, files=(wheel,))
    (junit,) = re.findall(r"junit '(.*?)'", text)
    run = the_run(folder, junit)
    assert code == (0 if run["exit_code"] in (0, 1, 3) else run["exit_code"]), said
    assert "archiveArtifacts 'results/**'" in text
