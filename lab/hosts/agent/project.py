"""A machine in virtual time for a user's own test suite (`lab test`): folders that it may write, its user, its new files.

Standard library only: part of PID 1, which does this on request alone.
"""

from __future__ import annotations

import os
import stat

from lab.hosts.agent import mounts, syscalls
from lab.hosts.agent.places import HOME_DIR, RUN_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = tuple[dict[str, Any], list[bytes]]

_PLACE = f"{RUN_DIR}/lab/project"
TESTER = "tester"
"""The user of a suite whose caller is not root."""


def op_project(message: dict[str, Any], blobs: list[bytes]) -> Answer:
    """Make folders of the real host's writable inside, and give the user a name, a home and temporary folders."""
    del blobs
    uid, gid, size = int(message["uid"]), int(message["gid"]), int(message["bytes"])
    for folder in (HOME_DIR, f"{RUN_DIR}/lab/tmp"):
        os.chown(folder, uid, gid)
    if uid:
        with open("/etc/passwd", "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{TESTER}:x:{uid}:{gid}:{TESTER}:{HOME_DIR}:/bin/sh\n")
        with open("/etc/group", "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{TESTER}:x:{gid}:\n")
    nosuid = syscalls.MS_NOSUID | syscalls.MS_NODEV
    mounts.show_all_locales()
    os.mkdir(_PLACE)  # noqa: PTH102
    syscalls.mount("project", _PLACE, "tmpfs", nosuid, f"mode=755,size={size}")
    syscalls.mount("shm", "/dev/shm", "tmpfs", syscalls.MS_REMOUNT | syscalls.MS_NOSUID, f"mode=1777,size={size // 2}")  # noqa: S108
    if message["cover_tmp"]:
        syscalls.mount("tmp", "/tmp", "tmpfs", nosuid, f"mode=1777,size={size}")  # noqa: S108
    for index, folder in enumerate(message["folders"]):
        cover(folder, f"{_PLACE}/{index}")
    return {}, []


def cover(folder: str, place: str) -> None:
    """Mount an overlay over the folder; what is written to it goes to `place`/new."""
    for name in ("new", "work"):
        os.makedirs(f"{place}/{name}")  # noqa: PTH103
    # The folder that is seen has the owner and the mode of the upper one.
    found = os.stat(folder)  # noqa: PTH116
    os.chown(f"{place}/new", found.st_uid, found.st_gid)
    os.chmod(f"{place}/new", stat.S_IMODE(found.st_mode))  # noqa: PTH101
    # A path with a colon or a comma would be several.
    os.chdir(folder)
    try:
        syscalls.mount("project", folder, "overlay", 0, f"lowerdir=.,upperdir={place}/new,workdir={place}/work")
    finally:
        os.chdir("/")


def op_new_files(message: dict[str, Any], blobs: list[bytes]) -> Answer:
    """The regular files that are new or changed in the folder of that number, by their paths in it."""
    del blobs
    folder = f"{_PLACE}/{message['index']}/new"
    return {"names": new_files(folder), "folder": folder}, []


def new_files(folder: str) -> list[str]:
    """The regular files below a folder, by their paths in it, sorted; no link is followed."""
    found: list[str] = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = f"{place}/{name}"
            if stat.S_ISREG(os.lstat(path).st_mode):
                found.append(path[len(folder) + 1 :])
    return sorted(found)


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Go on from the lab's user as this one, without its capability to read everything; root is kept to come back to."""
    os.setresuid(-1, 0, -1)
    syscalls.drop_ambient()
    os.setgroups(groups)
    os.setresgid(gid, gid, 0)
    os.setresuid(uid, uid, 0)


def come_back() -> None:
    """Undo `become`, as root again."""
    os.setgroups([])
    syscalls.keep_ambient(syscalls.CAP_DAC_READ_SEARCH)


OPERATIONS = {"project": op_project, "new_files": op_new_files}
