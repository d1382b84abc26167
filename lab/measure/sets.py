"""A set of files: a fresh folder for every sample, and afterwards what stands in it and when each file was complete.

Complete is a file's ctime at the receiving end, for every client alike: its last write, or its renaming, or the setting of its
mode or time where a client does that. Kernels count it in ticks (1 to 10 ms), so a single file's time is no finer than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.backend.chores import chores_of
from lab.backend.host import Host
from lab.errors import LabFault, UsageProblem
from lab.result.models import MOST_FILE_TIMES
from lab.server.payload import PayloadSet
from lab.server.scripts import script_command

_SCRIPT = Path(__file__).with_name("set_script.py")
_NAMED = 3
_HUNDRED = 100


class ArrivedFile(NamedTuple):
    """`ended_ns` is CLOCK_MONOTONIC of the host it arrived on."""

    ended_ns: int
    size: int
    sha256: str
    name: str


@dataclass(frozen=True)
class FileTimes:
    """What a sample keeps of them."""

    times_s: list[float]
    every: int = 1
    first_hundred_s_per_file: float | None = None
    last_hundred_s_per_file: float | None = None


def prepare(host: Host, folder: str) -> None:
    """An empty folder, whatever was there. Raises UsageProblem where nobody could say when each file in it was complete."""
    if chores_of(host):
        raise UsageProblem(
            f"a set of files cannot be downloaded to a machine of {host.platform}: when each was complete cannot be told there",
            remedy="upload it, or use a Linux client",
        )
    host.run(["/bin/sh", "-ec", 'rm -rf -- "$1"; mkdir -p -- "$1"', "prepare", folder], timeout_s=60)


def collect_set(host: Host, folder: str) -> list[ArrivedFile]:
    """Everything in the folder, which is gone afterwards. A client that puts the set into a folder of its own there may do so."""
    done = host.run(script_command(host, _SCRIPT, folder), timeout_s=300)
    try:
        offset_ns, *lines = done.text.splitlines()
        return [_file(line, int(offset_ns)) for line in lines]
    except ValueError as error:
        raise LabFault(f"{host.name}: the files in {folder} cannot be listed: {error}") from None


def problem(found: Sequence[ArrivedFile], meant: PayloadSet) -> str:
    """Empty, or one line that says what is wrong with the set, with the first few names."""
    names = {file.name for file in found}
    if missing := sorted(meant.sha256.keys() - names):
        return f"{len(missing)} of {len(meant.sha256)} files did not arrive: {_first(missing)}"
    if extra := sorted(names - meant.sha256.keys()):
        return f"{len(extra)} files arrived that nobody sent: {_first(extra)}"
    if len(found) > len(names):
        return f"{len(found) - len(names)} files arrived twice, in different folders"
    if short := sorted(file.name for file in found if file.size != meant.size):
        return f"{len(short)} of {len(found)} files have not {meant.size} bytes: {_first(short)}"
    if wrong := sorted(file.name for file in found if file.sha256 != meant.sha256[file.name]):
        return f"the content of {len(wrong)} of {len(found)} files is wrong: {_first(wrong)}"
    return ""


def file_times(ended_ns: Sequence[int], started_ns: int) -> FileTimes:
    """Since the client's start. A tick's beginning can lie before that start, which is no time."""
    times = sorted(max(0.0, (at_ns - started_ns) / 1e9) for at_ns in ended_ns)
    every = -(-len(times) // MOST_FILE_TIMES) or 1
    kept = [round(at_s, 4) for at_s in times[::every]]
    if len(times) < 2 * _HUNDRED:
        return FileTimes(kept, every)
    return FileTimes(kept, every, _per_file(times[:_HUNDRED]), _per_file(times[-_HUNDRED:]))


def _per_file(times: Sequence[float]) -> float:
    return (times[-1] - times[0]) / (len(times) - 1)


def _file(line: str, offset_ns: int) -> ArrivedFile:
    ctime_ns, size, sha256, name = line.split(" ", maxsplit=3)
    return ArrivedFile(int(ctime_ns) - offset_ns, int(size), sha256, name)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
