"""What goes into the guest and comes out of it: the working tree, its Python environment, a command; results."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from images.guest.image import GUEST_UID, GUEST_USER
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir, project_root, results_dir

# The guest's Python is Debian 12's; packages with compiled parts fit no other.
PYTHON = "3.11"
_VENV = ".venv"
_PACKAGES = f"{_VENV}/lib/python{PYTHON}/site-packages"
# Parts of the project's folder that are derived, large, or only for developers.
_LEFT_OUT = (
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "build",
    "dist",
    "results",
    "engine/target",
    f"{_VENV}/bin/python",
    f"{_VENV}/bin/python3",
    f"{_VENV}/bin/python{PYTHON}",
    f"{_VENV}/bin/ruff",
    f"{_VENV}/pyvenv.cfg",
    f"{_PACKAGES}/*__mypyc.*",
    f"{_PACKAGES}/*/tests",
    f"{_PACKAGES}/ast_serialize",
    f"{_PACKAGES}/mypy",
    f"{_PACKAGES}/mypyc",
    f"{_PACKAGES}/pip",
    f"{_PACKAGES}/ruff",
)
_VENV_CONFIG = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Job:
    """A command for the guest; `user`: as an ordinary user instead of root."""

    argv: tuple[str, ...]
    user: bool = False
    timeout_s: float = 3600.0
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> int:
        return GUEST_UID if self.user else 0


def describe(job: Job) -> dict[str, Any]:
    """What `inside.py` reads. The project has the same path inside as outside: the environment's scripts name it."""
    root, cache = project_root(), cache_dir()
    name = GUEST_USER if job.user else "root"
    home = f"/home/{name}" if job.user else "/root"
    environment = {
        "PATH": f"{root}/{_VENV}/bin:{_SYSTEM_PATH}",
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONUNBUFFERED": "1",  # standard output is a pipe, and the user is watching
        "ROUGHWATER_CACHE": str(cache),
        **job.environment,
    }
    return {
        "argv": list(job.argv),
        "cwd": str(root),
        "environment": environment,
        "uid": job.uid,
        "user": name,
        "timeout_s": job.timeout_s,
        "results": str(root / "results"),
        # The guest's user must be able to reach a checkout in a home folder.
        "passable": sorted({str(parent) for path in (root, cache) for parent in path.parents}),
    }


def pack(job: Job, target: IO[bytes]) -> None:
    """One tar: first what is made here, then what is on disk, added by tar itself because it is ten times faster.

    Both halves are one archive because the first is not ended.
    """
    root, cache = project_root(), cache_dir()
    if not (root / _PACKAGES).is_dir():
        raise UsageProblem(
            f"{root / _VENV} has no packages for Python {PYTHON}, which is the guest's",
            remedy=f"make setup, with Python {PYTHON}",
        )
    archive = tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115 - never closed: see above
    _add(archive, "lab-job/job.json", json.dumps(describe(job)).encode())
    _add(archive, "lab-job/inside.py", Path(__file__).with_name("inside.py").read_bytes())
    _add(archive, f"{_VENV_of(root)}/pyvenv.cfg", _VENV_CONFIG.encode(), uid=job.uid)
    for name in ("python", "python3", f"python{PYTHON}"):
        _add(archive, f"{_VENV_of(root)}/bin/{name}", link=f"/usr/bin/python{PYTHON}", uid=job.uid)
    _add(archive, _inside(cache), uid=job.uid)
    target.flush()
    routers = [_inside(path) for path in sorted(cache.glob("uml-*"))]
    excludes = [f"--exclude={_inside(root)}/{name}" for name in _LEFT_OUT]
    owner = [f"--owner=:{job.uid}", f"--group=:{job.uid}"]
    command = ["tar", "-c", "--format=gnu", "--anchored", *excludes, *owner, "-C", "/", _inside(root), *routers]
    done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, check=False)
    # 1 means that a file changed while it was read: the tree is being worked on.
    if done.returncode not in (0, 1):
        raise LabFault(f"cannot pack the project: {done.stderr.strip().splitlines()[-1:]}")


def _VENV_of(root: Path) -> str:  # noqa: N802
    return f"{_inside(root)}/{_VENV}"


def _inside(path: Path) -> str:
    return str(path).lstrip("/")


def _add(archive: tarfile.TarFile, name: str, data: bytes | None = None, *, link: str = "", uid: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.uid = member.gid = uid
    member.mode = 0o755
    if link:
        member.type, member.linkname = tarfile.SYMTYPE, link
    elif data is None:
        member.type = tarfile.DIRTYPE
    else:
        member.size, member.mode = len(data), 0o644
    archive.addfile(member, None if data is None else io.BytesIO(data))


@dataclass(frozen=True)
class Outcome:
    returncode: int
    timed_out: bool
    seconds: float
    results: tuple[Path, ...]


def unpack(disk: IO[bytes]) -> Outcome | None:
    """Unpack the results from the disk into the results folder; None when the guest wrote none."""
    descriptor = disk.fileno()  # tar shares its position, which a buffered seek need not move
    if not any(os.pread(descriptor, 512, 0)):
        return None
    os.lseek(descriptor, 0, os.SEEK_SET)
    results = results_dir()
    staged = results / f".guest-{secrets.token_hex(4)}"
    staged.mkdir(parents=True)
    try:
        command = ["tar", "-x", "--no-same-owner", "-C", str(staged)]
        done = subprocess.run(command, stdin=descriptor, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise LabFault(f"cannot unpack the guest's results: {done.stderr.strip()}")
        try:
            status = json.loads((staged / "status.json").read_text())
        except (OSError, ValueError):
            return None
        moved = move_results(staged / "results", results)
        return Outcome(int(status["returncode"]), bool(status["timed_out"]), float(status["seconds"]), tuple(moved))
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def move_results(source: Path, results: Path) -> list[Path]:
    """Everything in `source` to `results`; links (`latest`) replace what is there, nothing else is overwritten."""
    moved = []
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        target = results / path.name
        if path.is_symlink():
            path.replace(target)
            continue
        if target.exists():
            target = results / f"{path.name}-guest-{secrets.token_hex(2)}"
        path.rename(target)
        moved.append(target)
    return moved
