"""What is packed for the guest, and what comes back."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO

import pytest

from images.guest import inside, job
from lab.model.errors import LabFault, UsageProblem


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    packages = root / ".venv/lib/python3.11/site-packages"
    for name in ("rich", "scipy/stats/tests", "ruff"):
        (packages / name).mkdir(parents=True)
        (packages / name / "file.py").write_text("x = 1\n")
    (root / ".venv/bin").mkdir()
    (root / ".venv/bin/python3").symlink_to("/root/.pyenv/bin/python3")
    (root / ".venv/bin/lab").write_text("#!python\n")
    (root / "tests").mkdir()
    (root / "tests/test_a.py").write_text("")
    (root / "results").mkdir()
    (root / "results/old").write_text("")
    cache = tmp_path / "cache"
    (cache / "uml-trixie-1").mkdir(parents=True)
    (cache / "guest-1").mkdir()
    monkeypatch.setattr(job, "project_root", lambda: root)
    monkeypatch.setenv("ROUGHWATER_CACHE", str(cache))
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "out"))
    return root


def packed(wanted: job.Job) -> dict[str, tarfile.TarInfo]:
    with tempfile.TemporaryFile() as file:
        job.pack(wanted, file)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            return {member.name: member for member in archive}


@pytest.mark.parametrize("user", [True, False])
def test_pack_takes_the_project_and_its_packages_but_not_its_python(project: Path, user: bool) -> None:
    members = packed(job.Job(("lab",), user=user))
    inside_root = str(project).lstrip("/")
    packages = f"{inside_root}/.venv/lib/python3.11/site-packages"
    assert members[f"{inside_root}/.venv/bin/python3"].linkname == "/usr/bin/python3.11"
    for wanted in (f"{packages}/rich/file.py", f"{inside_root}/tests/test_a.py", f"{inside_root}/.venv/bin/lab"):
        assert members[wanted].uid == (1000 if user else 0)
    for left_out in (f"{packages}/ruff", f"{packages}/scipy/stats/tests", f"{inside_root}/results"):
        assert left_out not in members
    assert any(name.endswith("uml-trixie-1") for name in members)
    assert not any("guest-1" in name for name in members)


def test_pack_refuses_another_python(project: Path) -> None:
    (project / ".venv/lib/python3.11").rename(project / ".venv/lib/python3.13")
    with pytest.raises(UsageProblem, match=r"no packages for Python 3\.11"):
        packed(job.Job(("lab",)))


def test_description_names_user_paths_and_environment(project: Path) -> None:
    found = job.describe(job.Job(("lab", "run"), user=True, environment={"A": "b"}))
    assert (found["uid"], found["user"], found["cwd"]) == (1000, "lab", str(project))
    assert found["environment"]["A"] == "b"
    assert found["environment"]["PATH"].startswith(f"{project}/.venv/bin:")
    assert str(project.parent) in found["passable"]
    assert str(project) not in found["passable"]


def disk(status: dict[str, object] | None, folder: Path | None = None) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the test's
    with tarfile.open(fileobj=file, mode="w") as archive:
        if folder:
            archive.add(folder, "results")
        if status is not None:
            member = tarfile.TarInfo("status.json")
            data = json.dumps(status).encode()
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    file.truncate(1 << 24)
    file.seek(12345)  # wherever QEMU left it
    return file


STATUS: dict[str, object] = {"returncode": 3, "timed_out": False, "seconds": 1.5}


def test_unpack_brings_runs_back_and_overwrites_none(project: Path, tmp_path: Path) -> None:
    results = tmp_path / "out"
    (results / "run-1").mkdir(parents=True)
    (results / "run-1/mine").write_text("host")
    (results / "latest").symlink_to("run-0")
    came = tmp_path / "came"
    for name in ("run-1", "run-2"):
        (came / name).mkdir(parents=True)
        (came / name / "cell.json").write_text("{}")
    (came / "latest").symlink_to("run-2")
    outcome = job.unpack(disk(STATUS, came))
    assert outcome is not None
    assert (outcome.returncode, outcome.timed_out, len(outcome.results)) == (3, False, 2)
    assert (results / "run-1/mine").read_text() == "host"
    assert (results / "latest").readlink() == Path("run-2")
    assert (results / "run-2/cell.json").exists()
    assert sorted(path.name.split("-guest-")[0] for path in results.iterdir()) == ["latest", "run-1", "run-1", "run-2"]


def test_a_missing_or_truncated_outcome_is_refused(project: Path, tmp_path: Path) -> None:
    empty = tempfile.TemporaryFile()  # noqa: SIM115
    empty.truncate(1 << 20)
    assert job.unpack(empty) is None
    folder = tmp_path / "half"
    folder.mkdir()
    assert job.unpack(disk(None, folder)) is None
    assert not list((tmp_path / "out").iterdir())


def test_unpack_of_garbage_is_a_fault(project: Path) -> None:
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(os.urandom(4096))
    file.flush()
    with pytest.raises(LabFault, match="cannot unpack"):
        job.unpack(file)


def test_inside_stops_a_command_that_takes_too_long() -> None:
    """In a process of its own: it reaps every child, as PID 1 does."""
    script = (
        "import os, signal, sys; from images.guest import inside\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os.setsid(); os.execvp('sleep', ['sleep', '60'])\n"
        "status, late = inside.wait(child, 0.3)\n"
        "sys.exit(0 if late and os.waitstatus_to_exitcode(status) == -signal.SIGTERM else 1)\n"
    )
    root = Path(inside.__file__).parents[2]
    subprocess.run(["python3", "-c", script], cwd=root, check=True, timeout=30)
