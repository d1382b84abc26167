"""The scripts of docs/how-to/ci.md and pytest.md in a Debian that has only Python: what they install is installed.

`tests/cells/test_pipelines.py` has their many cases, with stand-ins for pip, pipx and apt-get.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path

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
# What a job reaches instead of an index of packages: the wheels in /wheels.
INDEX = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Debian:
    try:
        made = unpack("bookworm", tmp_path_factory.mktemp("pipelines"))
        # pipx brings its own pip up to date; the example's tests need pytest.
        add_wheels(made, "bookworm", ("pip", "setuptools", "wheel", "pytest"))
    except LackingError as why:
        pytest.skip(str(why))
    return made


def job(debian: Debian, name: str, script: str, variables: Mapping[str, str], *, user: str = "user") -> tuple[int, str, Path]:
    """Run a job's script in a folder with a client to test: exit code, output, and that folder."""
    folder = debian.root / "home" / user / name
    folder.mkdir()
    (folder / "my-client.yaml").write_text(CLIENT + LIMIT)
    if user != "root":
        shutil.chown(folder, USER_ID, USER_ID)
    set_up = "".join(f"export {key}={value}\n" for key, value in {**INDEX, **variables}.items())
    code, said = debian.run(f"{set_up}set -e\ncd {name}\n{script}", user=user)
    return code, said, folder


def small(script: str) -> str:
    """The script with one small row of its suite."""
    assert "--include demo" in script
    return script.replace("--include demo", '--test "DSL 50, H* Put, 16 Mbit/s"')


def test_the_action_installs_the_lab_and_tells_the_job(debian: Debian) -> None:
    """The same environment then has the plugin: the example's tests pass in it."""
    shutil.copy(ROOT / ".ci/action.sh", debian.root / "action.sh")
    files = {name: f"/home/user/action/{name.lower()}" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    command = {"LAB_INSTALL": "roughwater", "LAB_COMMAND": "'run curl--dsl-20--http1-get-300kB'", "RUNNER_TEMP": "/home/user"}
    code, said, folder = job(debian, "action", "sh /action.sh", {**files, **command})
    assert code == 0, said
    assert "verdict=PASS\n" in (folder / "github_output").read_text()
    assert (folder / "github_step_summary").read_text().startswith("## ● **PASS**")
    assert (folder / "github_path").read_text() == "/home/user/roughwater/bin\n"

    example = folder / "example"
    example.mkdir()
    shutil.chown(example, USER_ID, USER_ID)
    for name in ("uploader.py", "test_uploader.py"):
        (example / name).write_text(FILES[name])
    bin_folder = "/home/user/roughwater/bin"
    run = f"{bin_folder}/pip install -q pytest; cd action/example; {bin_folder}/python -m pytest -q -p no:cacheprovider"
    code, said = debian.run("".join(f"export {key}={value}; " for key, value in INDEX.items()) + run)
    assert code == 0, said
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


def test_the_gitlab_job(debian: Debian) -> None:
    found = YAML(typ="safe").load(FILES[".gitlab-ci.yml"])["lab"]
    script = small("\n".join([*found["before_script"], *found["script"]]))
    variables = {"CI_PROJECT_DIR": "$HOME/gitlab", **found["variables"]}
    code, said, folder = job(debian, "gitlab", script, variables, user="root")
    assert code in (0, 1), said
    assert (debian.root / "usr/bin/pipx").exists(), said
    assert list(folder.glob(found["artifacts"]["reports"]["junit"])), said


def test_the_jenkins_stages(debian: Debian) -> None:
    stages = [textwrap.dedent(each) for each in re.findall(r"sh '''\n(.*?)'''", FILES["Jenkinsfile"], re.DOTALL)]
    script = "\n".join(f"(set -e\n{small(each) if '--include' in each else each})" for each in stages)
    code, said, folder = job(debian, "jenkins", script, {"ROUGHWATER_RESULTS": "$HOME/jenkins/results"})
    assert code == 0, said
    assert list(folder.glob("results/*/junit.xml")), said
