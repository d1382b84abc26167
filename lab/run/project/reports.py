"""Files that leave the machine: reports of the suite, into the caller's project, and a report of the lab's own."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from lab.model.errors import LabFault

DEFAULT_PATTERNS = ("*junit*.xml", "TEST-*.xml", "target/surefire-reports/*.xml")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def chosen(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The paths in the project that a pattern names: one without a slash names files in every folder."""
    return [name for name in names if any(_matches(name, pattern) for pattern in (*DEFAULT_PATTERNS, *patterns))]


def _matches(name: str, pattern: str) -> bool:
    if "/" not in pattern:
        return fnmatchcase(PurePosixPath(name).name, pattern)
    pattern = pattern.removeprefix("./")
    return fnmatchcase(name, pattern) or (pattern in DEFAULT_PATTERNS and fnmatchcase(name, f"*/{pattern}"))


def write_into(project: Path, name: str, data: bytes) -> None:
    """Write a file below the project, complete or not at all; folders are made.

    Raises LabFault where a link lies on the way or in its place: it may lead out of the project.
    """
    *folders, last = PurePosixPath(name).parts
    if ".." in folders or last == "..":
        raise LabFault(f"{name} is not below the project")
    at = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            at = _entered(at, folder, name)
        _replace(at, last, name, data)
    except OSError as error:
        raise LabFault(f"{name} cannot be written: {error.strerror or error}") from None
    finally:
        os.close(at)


def _entered(at: int, folder: str, name: str) -> int:
    """The descriptor of the folder, in place of its parent's."""
    try:
        found = os.open(folder, _FOLDER, dir_fd=at)
    except FileNotFoundError:
        os.mkdir(folder, dir_fd=at)
        found = os.open(folder, _FOLDER, dir_fd=at)
    except OSError:
        raise LabFault(f"{name} is not written: {folder} is a link or no folder in the project") from None
    os.close(at)
    return found


def _replace(at: int, last: str, name: str, data: bytes) -> None:
    try:
        there = os.stat(last, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        there = None
    if there and not stat.S_ISREG(there.st_mode):
        raise LabFault(f"{name} is not written: a link or no file is in its place")
    part = f".{last}.{os.getpid()}.part"
    fd = os.open(part, _NEW, 0o666, dir_fd=at)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(part, last, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        os.unlink(part, dir_fd=at)
        raise


def own_junit(command: str, reason: str, last_line: str, virtual_s: float) -> bytes:
    """JUnit with one error: the lab ended the command for this reason."""
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0", "time": f"{virtual_s:.3f}"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "lab test", **counts})
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "lab.test", "name": printable(command), "time": counts["time"]}
    )
    error = ElementTree.SubElement(case, "error", {"type": "limit", "message": printable(reason)})
    error.text = printable(f"{reason}\nlast line of output: {last_line or '(none)'}")
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def printable(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(each if each in "\n\t" or (each.isprintable() and not "\ud800" <= each <= "\udfff") else "?" for each in text)
