"""Roots of userlands inside a machine in virtual time: what its PID 1 mounts for chroot(2). Standard library only."""

from __future__ import annotations

import os

from lab.hosts.agent import syscalls
from lab.hosts.agent.places import RUN_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OVER = ("dev", "proc", "sys", "run")


def open_all(message: dict[str, Any]) -> dict[str, str]:
    """The roots of a machine's hosts by their paths, ready for chroot(2): of `userlands`, and of `images` with their owners."""
    found = {}
    for host, source in message["userlands"].items():
        if host in message["images"]:
            found[host] = open_image(host, source, message["files"], message["images"][host], int(message["run_bytes"]))
        else:
            found[host] = open_userland(host, source, message["files"])
    return found


def open_image(host: str, source: str, files: dict[str, str], owners: list[list[object]], size_bytes: int) -> str:
    """The root of a container image, writable in memory, ready for chroot(2); its path.

    Its own users stay; only the lab's names and resolver are written over. `owners` are rows of path, uid and gid.
    """
    place = f"{RUN_DIR}/lab/userland/{host}"
    own = f"{place}.own"
    for folder in (place, own):
        os.makedirs(folder)  # noqa: PTH103
    syscalls.mount("image", own, "tmpfs", syscalls.MS_NOSUID, f"mode=755,size={size_bytes}")
    for name in ("new", "work"):
        os.mkdir(f"{own}/{name}")  # noqa: PTH102
    os.chdir(source)
    try:
        syscalls.mount("image", place, "overlay", 0, f"lowerdir=.,upperdir={own}/new,workdir={own}/work")
    finally:
        os.chdir("/")
    os.chmod(place, 0o755)  # noqa: PTH101, S103 - a folder that an unprivileged user unpacked is his alone
    for path, uid, gid in owners:
        os.chown(f"{place}/{path}", int(str(uid)), int(str(gid)), follow_symlinks=False)
    for name in (*_OVER, "tmp", "etc"):
        os.makedirs(f"{place}/{name}", exist_ok=True)  # noqa: PTH103
    for name in _OVER:
        syscalls.bind(f"/{name}", f"{place}/{name}", recursive=name == "dev")
    os.chmod(f"{place}/tmp", 0o1777)  # noqa: PTH101, S103, S108 - as every /tmp is
    # Images expect these of what runs them.
    os.makedirs("/run/lock", exist_ok=True)  # noqa: PTH103
    os.chmod("/run/lock", 0o1777)  # noqa: PTH101, S103
    for target in ("/etc/hosts", "/etc/resolv.conf"):
        if os.path.islink(place + target):  # noqa: PTH114 - resolv.conf may lead into /run
            os.unlink(place + target)  # noqa: PTH108
        with open(place + target, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(files[target])
    return place


def open_userland(host: str, source: str, files: dict[str, str]) -> str:
    """The root folder at `source` with this machine's file systems and the lab's names, ready for chroot(2); its path.

    A tmpfs that shows the root's folders: the root itself is read-only and may lack some of them.
    """
    place = f"{RUN_DIR}/lab/userland/{host}"
    os.makedirs(place)  # noqa: PTH103
    syscalls.mount("userland", place, "tmpfs", syscalls.MS_NOSUID, "mode=755,size=1m")
    for name in sorted(os.listdir(source)):  # noqa: PTH208
        path, shown = f"{source}/{name}", f"{place}/{name}"
        if os.path.islink(path):  # noqa: PTH114
            os.symlink(os.readlink(path), shown)  # noqa: PTH115, PTH211
        elif os.path.isdir(path) and name not in ("dev", "etc", "proc", "run", "sys", "tmp"):  # noqa: PTH112
            os.mkdir(shown)  # noqa: PTH102
            syscalls.bind(path, shown)
    for name in ("dev", "proc", "run", "sys"):
        os.mkdir(f"{place}/{name}")  # noqa: PTH102
        syscalls.bind(f"/{name}", f"{place}/{name}", recursive=name == "dev")
    for name in ("etc", "lab-etc", "tmp"):
        os.mkdir(f"{place}/{name}")  # noqa: PTH102
    os.chmod(f"{place}/tmp", 0o1777)  # noqa: PTH101, S103, S108 - as every /tmp is
    names = []
    if os.path.isdir(f"{source}/etc"):  # noqa: PTH112
        syscalls.bind(f"{source}/etc", f"{place}/lab-etc")
        names = sorted(os.listdir(f"{source}/etc"))  # noqa: PTH208
    for name in names:
        if f"/etc/{name}" not in files:
            os.symlink(f"/lab-etc/{name}", f"{place}/etc/{name}")  # noqa: PTH211
    for target, text in files.items():
        with open(place + target, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    return place
