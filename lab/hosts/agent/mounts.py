"""The file systems of a machine in virtual time, which its PID 1 mounts. Standard library only."""

from __future__ import annotations

import os

from lab.hosts.agent import starter, syscalls
from lab.hosts.agent.places import HOME_DIR, LAB_UID, RUN_DIR, STARTER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_LOCALES, _ALL_LOCALES, _SHOWN = "/usr/lib/locale", f"{RUN_DIR}/lab/locale", "C.utf8"


def furnish(files: dict[str, str], run_bytes: int) -> None:
    """A private, writable /run over the machine's own files, which are read-only; the lab's names over /etc's."""
    if not all(map(os.path.exists, files)):
        cover_etc(files)
    for target, text in {**files}.items():
        source = f"{RUN_DIR}/lab/etc/{os.path.basename(target)}"  # noqa: PTH119
        os.makedirs(os.path.dirname(source), exist_ok=True)  # noqa: PTH103, PTH120
        with open(source, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        syscalls.bind(source, target)
    show_one_locale()
    syscalls.mount(
        "run", RUN_DIR, "tmpfs", syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode=755,size={run_bytes}"
    )


def show_one_locale() -> None:
    """Show no locale of the machine's but C.UTF-8, which every command has (`lab.hosts.virtual.host.environment`).

    A program reads the archive of all locales first where there is one, which takes time: the package `locales` made README's
    curl another one (29 November 2026: +7.25 % in place of +7.59 %).
    """
    if not os.path.isdir(f"{_LOCALES}/{_SHOWN}"):  # noqa: PTH112
        return
    os.makedirs(_ALL_LOCALES)  # noqa: PTH103
    syscalls.bind(_LOCALES, _ALL_LOCALES)
    syscalls.mount("locale", _LOCALES, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=1m")
    os.mkdir(f"{_LOCALES}/{_SHOWN}")  # noqa: PTH102
    syscalls.bind(f"{_ALL_LOCALES}/{_SHOWN}", f"{_LOCALES}/{_SHOWN}")


def show_all_locales() -> None:
    """Undo `show_one_locale`, for programs that are to find the machine as it is."""
    if os.path.isdir(_ALL_LOCALES):  # noqa: PTH112
        syscalls.bind(_ALL_LOCALES, _LOCALES)


def cover_etc(files: Iterable[str]) -> None:
    """An /etc that can be written, with links to the machine's own files: a minimal system has no /etc/hosts to bind over."""
    own = f"{RUN_DIR}/lab/machine-etc"
    os.makedirs(own)  # noqa: PTH103
    syscalls.bind("/etc", own)
    syscalls.mount("etc", "/etc", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=1m")
    for name in os.listdir(own):  # noqa: PTH208
        if f"/etc/{name}" not in files:
            os.symlink(f"{own}/{name}", f"/etc/{name}")  # noqa: PTH211
    for target in files:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def mount_everything() -> None:
    """Mount the file systems that every program expects."""
    nosuid = syscalls.MS_NOSUID
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("proc", "/proc", "proc", nosuid)
    syscalls.mount("sys", "/sys", "sysfs", nosuid)
    try:  # noqa: SIM105
        syscalls.mount("dev", "/dev", "devtmpfs", nosuid)
    except OSError:  # the kernel has mounted it, where the machine's root has a /dev
        pass
    syscalls.mount("run", RUN_DIR, "tmpfs", nosuid | syscalls.MS_NODEV, "mode=755")
    for folder in ("netns", "uml", "sshd", "lab/etc"):
        os.makedirs(f"{RUN_DIR}/{folder}")  # noqa: PTH103
    for folder in (HOME_DIR, *(f"{RUN_DIR}/lab/{name}" for name in ("tmp", "client", "router", "server"))):
        own_folders(folder)
    # /run has most of the memory; what is left is for programs.
    for name, kind, options in (("pts", "devpts", ""), ("shm", "tmpfs", "size=4%")):
        os.makedirs(f"/dev/{name}", exist_ok=True)  # noqa: PTH103
        syscalls.mount(name, f"/dev/{name}", kind, nosuid, options)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")  # noqa: PTH211
    syscalls.show_namespace("router")
    with open(STARTER, "wb") as file:  # noqa: PTH123
        file.write(starter.program())
    os.chmod(STARTER, 0o755)  # noqa: PTH101, S103 - as every program is


def own_folders(path: str) -> None:
    """Make a folder and its parents, owned by the lab's user."""
    if not os.path.isdir(path):  # noqa: PTH112
        own_folders(os.path.dirname(path))  # noqa: PTH120
        os.mkdir(path)  # noqa: PTH102
        os.chown(path, LAB_UID, LAB_UID)
