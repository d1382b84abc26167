"""Sets of files: a fresh folder for every sample, a check of its content, and the time at which each file was complete.

A file is complete at its ctime on the receiving host, for every client: the last write, rename, or change of mode or times.
Kernels count ctime in ticks (1 to 10 ms), which limits the resolution of a single file's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.hosts.host import Host
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault
from lab.model.results import MOST_FILE_TIMES
from lab.servers.payload import Payload, PayloadSet

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
    """The times of a set's files, as a sample keeps them."""

    times_s: list[float]
    every: int = 1
    first_hundred_s_per_file: float | None = None
    last_hundred_s_per_file: float | None = None


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
        return f"{len(extra)} unexpected files arrived: {_first(extra)}"
    if len(found) > len(names):
        return f"{len(found) - len(names)} files arrived twice, in different folders"
    if short := sorted(file.name for file in found if file.size != meant.size):
        return f"{len(short)} of {len(found)} files do not have {meant.size} bytes: {_first(short)}"
    if wrong := sorted(file.name for file in found if file.sha256 != meant.sha256[file.name]):
        return f"the content of {len(wrong)} of {len(found)} files is wrong: {_first(wrong)}"
    return ""


def repeat_problem(found: Sequence[ArrivedFile], wanted: int, meant: Payload) -> str:
    """Empty, or one line that says what is wrong with the answers to requests for one file."""
    if len(found) != wanted:
        return f"{len(found)} of {wanted} answers were kept"
    if wrong := sorted(file.name for file in found if (file.size, file.sha256) != (meant.size, meant.sha256)):
        return f"the content of {len(wrong)} of {wanted} answers is wrong: {_first(wrong)}"
    return ""


def file_times(ended_ns: Sequence[int], started_ns: int) -> FileTimes:
    """Seconds since the client's start, at least 0: a tick can begin before the start."""
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
