"""The lab's own image, where a container may do nothing: cells in virtual time pass, by `docker run` and by Compose.

Skipped where no engine answers.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.hosts.compose import content, docker, images, lab_image
from lab.model.errors import RoughwaterError
from lab.model.paths import project_root
from lab.model.results import CellResult
from tests.support.compose_versions import composes

MINE = """\
name: my-line
description: a line of my own
link:
  rate: 20 Mbit/s
  rtt: 30 ms
"""
BASE = "localhost/roughwater/base-lab"
CELLS = ("ferry--dsl-20--http1-get-5MiB-at-1MBps", "ferry--dsl-50--h2-put-5MiB-at-2MBps", "ferry--dsl-20--sftp-put-5MiB-at-2MBps")
# Docker's own: /dev/shm may not be executed from, and the default seccomp profile applies.
NOTHING_ALLOWED = ("--rm", "--cap-drop", "ALL", "--user", "1000", "--network", "none", "--read-only")


@pytest.fixture(scope="module")
def image() -> str:
    try:
        docker.engine_version()
    except RoughwaterError as problem:
        pytest.skip(f"no containers here: {problem}")
    return images.build(print, roles=(lab_image.ROLE,))[lab_image.ROLE].name


def run(image: str, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    return docker.docker("run", *NOTHING_ALLOWED, *options, image, *words, timeout_s=500, check=False)


def test_three_cells_pass_where_nothing_is_allowed(image: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir(mode=0o777)
    results.chmod(0o777)
    done = run(image, "run", *CELLS, "--clock", "virtual", options=("--volume", f"{results}:/results"))
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [CellResult.model_validate(json.loads(path.read_text())) for path in results.glob("latest/cells/*.json")]
    assert sorted(cell.id for cell in cells) == sorted(CELLS)
    assert {cell.clock for cell in cells} == {"virtual"}


def test_only_dev_shm_can_be_written(image: str) -> None:
    places = {"ROUGHWATER_RESULTS": "/dev/shm/results", "ROUGHWATER_CACHE": "/proc/nowhere", "TMPDIR": "/dev/shm"}
    read_only = [word for place in ("/results", "/cache", "/tmp") for word in ("--tmpfs", f"{place}:ro")]
    environment = [word for name, value in places.items() for word in ("--env", f"{name}={value}")]
    done = run(image, "run", CELLS[0], "--clock", "virtual", options=(*read_only, *environment))
    assert done.returncode == 0, done.stdout + done.stderr


def test_doctor_says_that_virtual_time_works(image: str) -> None:
    done = run(image, "doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert findings["virtual"]["level"] == "ok"
    assert findings["namespaces"]["level"] == "note"
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["1.29", "2"])
def test_compose_runs_a_cell_on_a_network_of_ones_own(image: str, version: str, tmp_path: Path) -> None:
    words = composes().get(version)
    if words is None:
        pytest.skip(f"there is no Compose {version} on this machine")
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies/my-line.yaml").write_text(MINE)
    argv = [*words, "-p", f"roughwater-test-{version[0]}", "-f", str(project_root() / "docker-compose.yml")]
    # Compose 1.29 makes the networks of real time too: not where `lab` would choose them.
    environment = {"ROUGHWATER_FOLDER": str(tmp_path), "CLIENT_NET": "10.77.251", "SERVER_NET": "10.77.252"}
    cell = "ferry--my-line--http1-get-300kB"
    try:
        done = docker.run([*argv, "run", "--rm", "lab", "run", cell], timeout_s=500, check=False, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert b"PASS" in done.stdout
        (result,) = tmp_path.glob("results/latest/cells/*.json")
        assert CellResult.model_validate(json.loads(result.read_text())).clock == "virtual"
    finally:
        docker.run([*argv, "--profile", "real", "down", "--volumes"], timeout_s=60, env=environment)


def test_a_plain_build_chooses_the_same_files(image: str) -> None:
    """With the checkout as its context, and the base of `lab images build`, which has the Python that this stage needs."""
    if docker.inspect("image", BASE) is None:
        pytest.skip(f"{BASE} is missing: the lab's image is of a registry's Debian")
    file = project_root() / "images/lab/Dockerfile"
    words = ["--target", "tree", "--build-arg", f"BASE={BASE}", "--build-arg", "READY=engine site", "--file", str(file)]
    name = "localhost/roughwater/test-tree"
    docker.docker("build", "--quiet", "--network", "none", *words, "--tag", name, str(project_root()), timeout_s=300)
    try:
        said = docker.ask("run", "--rm", "--network", "none", name, "cat", f"/out/{content.RECIPE}")
    finally:
        docker.docker("image", "rm", name)
    assert said.strip() == content.recipe(lab_image.ROLE)
