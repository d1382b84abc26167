"""The lab's own image, where a container may do nothing: cells in virtual time pass. Skipped where no engine answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.hosts.compose import docker, images, lab_image
from lab.model.errors import ThroughlineError
from lab.model.results import CellResult

CELLS = ("ferry--dsl-20--http1-get-5MiB-at-1MBps", "ferry--dsl-50--h2-put-5MiB-at-2MBps", "ferry--dsl-20--sftp-put-5MiB-at-2MBps")
# Docker's own: /dev/shm may not be executed from, and the default seccomp profile applies.
NOTHING_ALLOWED = ("--rm", "--cap-drop", "ALL", "--user", "1000", "--network", "none", "--read-only")


@pytest.fixture(scope="module")
def image() -> str:
    try:
        docker.engine_version()
    except ThroughlineError as problem:
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
    places = {"THROUGHLINE_RESULTS": "/dev/shm/results", "THROUGHLINE_CACHE": "/proc/nowhere", "TMPDIR": "/dev/shm"}
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
