"""The chores of a machine's first process around each sample: a shell with its commands would cost half of the sample's time.

Standard library only. The chores do the same as the scripts of `lab.hosts.posix`.
"""

from __future__ import annotations

import os
import signal

_MOST_NOTE_BYTES, _BLOCK_BYTES = 1 << 20, 1 << 18


def collect(path: str, note: str) -> tuple[int, str, bytes]:
    """Remove a file and the small file `note`; size and sha256 of the first (0 and empty if it is missing), and the note."""
    size, sha256, text = 0, "", b""
    if os.path.isfile(path):  # noqa: PTH113
        size, sha256 = os.lstat(path).st_size, _sha256(path)
    if note and os.path.isfile(note):  # noqa: PTH113
        with open(note, "rb") as file:  # noqa: PTH123
            text = file.read(_MOST_NOTE_BYTES)
    for each in filter(None, (path, note)):
        try:  # noqa: SIM105
            os.unlink(each)  # noqa: PTH108
        except OSError:  # it is not there, or a folder
            pass
    return size, sha256, text


def end_processes(variable: bytes) -> None:
    """Kill every process whose environment has `variable` (NAME=VALUE)."""
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb", buffering=0) as file:  # noqa: PTH123
                variables = file.readall()
            if variable in variables.split(b"\0"):
                os.kill(int(name), signal.SIGKILL)
        except OSError:  # it has ended
            continue


def number_processes_after(number: int) -> None:
    """Number the next processes with the next free numbers above this one (ns_last_pid, proc(5))."""
    with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(number))


def _sha256(path: str) -> str:
    # Not at the top: it takes longer to import than the machine to do anything else.
    import hashlib

    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        while block := file.read(_BLOCK_BYTES):
            found.update(block)
    return found.hexdigest()
