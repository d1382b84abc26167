"""A Debian with Python alone, to install the lab into as a stranger would: made by mmdebstrap, without a container engine.

The root is unpacked from an archive in the cache, and a command runs in it in mount, process and IPC namespaces of its own, as
root or as a user without sudo. Needs root. The wheels are the lab's own, built here, and its locked dependencies.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.assets import store
from lab.model.files import digest
from lab.model.paths import project_root

PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
USER_ID = 1000
_PACKAGES = "python3-venv,ca-certificates"
_MAKE_S = _RUN_S = 600.0

# $0 is the root, $1 how to enter it, $2 the user, $3 the wheels; the script comes on standard input.
_ENTER = """
set -e
mount --make-rprivate /
mount --rbind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --bind -o ro "$3" wheels
if [ "$1" = pivot ]; then
    mkdir -p old
    pivot_root . old
    cd /
    python3 -c "import ctypes; ctypes.CDLL(None).umount2(b'/old', 2)"  # there is no umount; MNT_DETACH
    enter=
else
    enter="chroot $0"
fi
exec $enter env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME=/home/$2 \\
    setpriv --reuid "$2" --regid "$2" --clear-groups --no-new-privs sh -c 'cd; exec sh -s'
"""


class LackingError(Exception):
    """This machine cannot run it: a reason to skip a test."""


@dataclass(frozen=True)
class Debian:
    """An unpacked root, and the folder of wheels that its users see as /wheels."""

    root: Path
    wheels: Path

    def run(self, script: str, *, user: str = "user", chroot: bool = False, timeout_s: float = _RUN_S) -> tuple[int, str]:
        """Exit code and output of a shell script in that user's home.

        With `chroot` the root is entered by chroot(2), after which the kernel refuses new user namespaces.
        """
        enter = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", _ENTER, str(self.root)]
        done = subprocess.run(
            [*enter, "chroot" if chroot else "pivot", user, str(self.wheels)],
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return done.returncode, done.stdout


def unpack(suite: str, into: Path, *, wheels: bool = True) -> Debian:
    """A fresh Debian of this suite, with /wheels or without. Raises LackingError where this machine cannot make or enter one."""
    if os.geteuid():
        raise LackingError("entering another root needs root")
    root = into / suite
    root.mkdir()
    subprocess.run(["tar", "-xpf", archive("bare", suite, _PACKAGES), "-C", root, "--exclude=./dev/*"], check=True)
    for name in ("dev", "proc", "wheels", "old"):
        (root / name).mkdir(exist_ok=True)
    for name, uid in (("root", 0), ("user", USER_ID)):
        home = root / "home" / name
        home.mkdir(parents=True)
        os.chown(home, uid, uid)
    with (root / "etc/passwd").open("a") as file:
        file.write(f"user:x:{USER_ID}:{USER_ID}::/home/user:/bin/sh\n")
    with (root / "etc/group").open("a") as file:
        file.write(f"user:x:{USER_ID}:\n")
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    folder = into / "wheels"
    if wheels:
        return Debian(root, _wheels(PYTHONS[suite], folder))
    folder.mkdir(exist_ok=True)
    return Debian(root, folder)


def add_wheels(debian: Debian, suite: str, names: tuple[str, ...]) -> None:
    """More wheels next to the lab's, with all that they need, in the versions of requirements-test.lock where it has them."""
    lock = (project_root() / "requirements-test.lock").read_text()
    wanted = [found[0] if (found := re.findall(rf"^{name}==[\w.]+", lock, re.MULTILINE)) else name for name in names]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={PYTHONS[suite]}"]
    code, output = store.run([*pip, "--dest", debian.wheels, *wanted], timeout_s=_MAKE_S)
    if code:
        raise LackingError(f"the wheels cannot be downloaded: {store.reason(output)}")


def archive(what: str, suite: str, packages: str, *, timeout_s: float = _MAKE_S) -> Path:
    """A tar of that Debian with these packages, made once into the cache. Raises LackingError."""
    mmdebstrap = shutil.which("mmdebstrap")
    if mmdebstrap is None:
        raise LackingError("there is no mmdebstrap (make setup)")
    name = f"{what}-{suite}-{hashlib.sha256(packages.encode()).hexdigest()[:8]}"
    with store.locked(print, name) as cache:
        path = cache / f"{name}.tar"
        if not path.exists():
            with store.staging(cache, name) as work:
                part = work / path.name
                words = [mmdebstrap, "--quiet", "--variant=apt", f"--include={packages}", suite, str(part)]
                code, output = store.run(words, timeout_s=timeout_s, scratch=work)
                if code:
                    raise LackingError(f"mmdebstrap cannot make {suite}: {store.reason(output)}")
                part.rename(path)
    return path


def _wheels(python: str, into: Path) -> Path:
    """The lab's wheel as it is now and what it needs, as pip would take them from an index."""
    lock = project_root() / "requirements.lock"
    name = f"wheels-{python}-{digest(lock)[:12]}"
    with store.locked(print, name) as cache:
        place = cache / name
        if not place.is_dir():
            with store.staging(cache, name) as work:
                pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--require-hashes"]
                words = [*pip, f"--python-version={python}", "--dest", work / "wheels", "--requirement", lock]
                code, output = store.run(words, timeout_s=_MAKE_S, scratch=work)
                if code:
                    raise LackingError(f"the wheels cannot be downloaded: {store.reason(output)}")
                store.publish(work / "wheels", place)
    shutil.copytree(place, into, dirs_exist_ok=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", into]
    subprocess.run([*build, project_root()], check=True, timeout=_RUN_S)
    return into
