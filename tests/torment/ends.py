"""Runs that are cut off at moments drawn by the seed, and `--resume` afterwards.

Each kind of end meets a run of cells that PASS, so that a run that looked complete would be green. One run comes to its end
first: it says what each cell is, and when each line is printed. Half of the moments are drawn from all of its time, half from the
time between two lines; where the machine is slower meanwhile, so is the moment. One that comes after the end is drawn again.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from lab.model import files
from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS
from lab.store.deterministic import first_difference, view
from lab.store.run_dir import run_folders
from lab.store.stored_run import StoredRun, read_run_folder
from tests.support.processes import bury
from tests.support.waiting import until
from tests.torment.kills import SETTLE_S, Torment, changed, read_all
from tests.torment.readers import green

SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
KINDS = (*SIGNALS, "disk full", "time limit")
CLOCKS = ("virtual", "real")
CELLS = tuple(f"ferry--dsl-20--{what}-at-2MBps" for what in ("http1-get-500kB", "sftp-get-500kB"))
WORDS: Mapping[str, tuple[str, ...]] = {
    "virtual": ("run", *CELLS, "--clock", "virtual", "--max-samples", "5"),
    # Other programs of a busy machine must not keep cells from their samples.
    "real": ("run", *CELLS, "--clock", "real", "--any-host", "--max-samples", "5"),
}
_CODES = {
    "INT": {128 + signal.SIGINT, -signal.SIGINT},
    "TERM": {128 + signal.SIGTERM, -signal.SIGTERM},
    "KILL": {-signal.SIGKILL},
    "disk full": {EXIT_INVALID},
    "time limit": {124},
}
"""Exit codes of each kind. A signal that meets Python before its first line ends it as it ends any program."""
_ENDED = {
    "INT": {"interrupted"},
    "TERM": {"interrupted"},
    "KILL": {"killed"},
    # Where no new record has room, that of the start stays.
    "disk full": {"disk", "killed"},
    "time limit": {"timeout"},
}
_VERDICTS = {EXIT_PASS, EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID}
_DISK = "64m"
# At the lowest priority next to other work, what takes ten seconds takes minutes.
_LONGEST_S = 600.0
_GO_ON = "go on with: "


@dataclass
class Count:
    """Results of the moments of one kind. `next`: the number of the next draw."""

    next: int = 0
    moments: int = 0
    before: int = 0
    """Runs that had no folder yet: nothing is there to go on with."""
    complete: int = 0
    """Runs that had all their results; only their pages were to come."""
    green: int = 0
    left: int = 0
    resumed: int = 0
    equal: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Moment:
    """When a run ends: the seconds after its line of that number, or after its start for 0, at the pace of the first run."""

    line: int
    after_s: float


@dataclass(frozen=True)
class Whole:
    """The run without interruption: its cells by id, its exit code, and the seconds after which each line was there."""

    run: StoredRun
    code: int
    lines_s: tuple[float, ...]
    """From the start on, which is the line 0; the last one is the end."""


class Ends:
    """The runs of one clock in one machine of the torment's own."""

    def __init__(self, torment: Torment, clock: str, seed: int) -> None:
        self._torment, self._clock, self._seed = torment, clock, seed
        self._words = WORDS[clock]
        # A disk of its own, which only that machine sees.
        self._results = torment.work / "ends"
        self._said = torment.work / "ends-said"
        self._seen = torment.work / "ends-seen"
        self._results.mkdir(exist_ok=True)
        self._slower = 1.0
        """The pace of the machine now: the time to a line, by that of the first run."""
        self._whole = self._undisturbed()

    def meet(self, kind: str, count: Count) -> None:
        """One moment of a kind; the counts and a line for each problem go to `count`."""
        number, count.next = count.next, count.next + 1
        chance = random.Random(f"{self._seed}/{self._clock}/{kind}/{number}")
        moment = self._draw(kind, chance)
        where = f"{self._clock}, {kind} {number}, {moment.after_s:.3f} s after line {moment.line}"
        with self._disk():
            before, others = self._state(), self._torment.machine.processes()
            code = self._cut_off(kind, moment, chance)
            if code is None:
                return
            count.moments += 1
            self._said_of = self._said.read_text(errors="replace")
            left = [*self._left(before, others)]
            count.left += bool(left)
            found = self._read()
            whole = found is not None and found.whole
            cut = [*self._wrong_end(kind, code, found)]
            count.green += bool(seen := [] if whole else [*self._green(code, found)])
            count.before += found is None
            count.complete += whole
            count.problems += (f"{where}: {problem}" for problem in [*left, *cut, *seen])
            if found is not None and not whole:
                count.resumed += 1
                wrong = [*self._go_on(found)]
                count.equal += not wrong
                count.problems += (f"{where}: resumed: {problem}" for problem in wrong)

    # ---------------------------------------------------------------------------------------------------------------

    def _undisturbed(self) -> Whole:
        times: list[float] = []
        with self._disk():
            begun = time.monotonic()
            with self._begin(()) as lab:

                def has_ended() -> bool:
                    new = self._lines() - len(times)
                    times.extend([time.monotonic() - begun] * new)
                    return lab.poll() is not None

                until(has_ended, "the run without interruption has ended", _LONGEST_S)
            found = self._read()
            said = self._said.read_text(errors="replace")
            assert found is not None, said
            assert found.whole, said
            assert lab.returncode in _VERDICTS, said
            assert self._clock == "real" or lab.returncode == EXIT_PASS, said
            print(f"{self._clock}: {time.monotonic() - begun:.1f} s, {len(times)} lines", flush=True)
            return Whole(found, lab.returncode, (0.0, *times, time.monotonic() - begun))

    def _draw(self, kind: str, chance: random.Random) -> Moment:
        marks = self._whole.lines_s
        at_s = chance.uniform(0.0, marks[-1])
        if kind == "time limit":
            # Only from its start a caller can limit a run.
            return Moment(0, at_s)
        if chance.random() < 0.5:
            begin_s, end_s = chance.choice([*pairwise(marks)])
            at_s = chance.uniform(begin_s, end_s)
        line = max(number for number, mark_s in enumerate(marks[:-1]) if mark_s <= at_s)
        return Moment(line, at_s - marks[line])

    def _cut_off(self, kind: str, moment: Moment, chance: random.Random) -> int | None:
        """The exit code; None where the run had ended before."""
        under = ("timeout", f"{moment.after_s * self._slower:.3f}") if kind == "time limit" else ()
        begun = time.monotonic()
        with self._begin(under) as lab:
            if kind != "time limit":
                _wait(lambda: self._lines() >= moment.line or lab.poll() is not None, _LONGEST_S)
                if moment.line:
                    self._slower = (time.monotonic() - begun) / self._whole.lines_s[moment.line]
                _wait(lambda: lab.poll() is not None, moment.after_s * self._slower)
                if lab.poll() is not None:
                    return None
                self._strike(kind, lab, chance)
            _wait(lambda: lab.poll() is not None, _LONGEST_S)
            if lab.poll() is None:
                return -signal.SIGALRM
        # `timeout` ends by the run's own code where that came first.
        return None if kind == "time limit" and lab.returncode in _VERDICTS else lab.returncode

    def _strike(self, kind: str, lab: subprocess.Popen[bytes], chance: random.Random) -> None:
        if kind == "disk full":
            self._torment.machine.said("sh", "-c", f"cat /dev/zero >{self._filler} 2>/dev/null || true")
        elif kind == "KILL":
            lab.kill()
        else:
            # A terminal sends it to the command and all that it started, `kill` to the command alone; people press Ctrl-C twice.
            together, twice = chance.random() < 0.5, chance.random() < 0.25
            self._twice = twice
            for _ in range(1 + twice):
                with suppress(ProcessLookupError):
                    (os.killpg if together else os.kill)(lab.pid, SIGNALS[kind])
                _wait(lambda: lab.poll() is not None, chance.uniform(0.0, 0.5) if twice else 0.0)

    @property
    def _filler(self) -> Path:
        return self._results / "filler"

    @contextmanager
    def _disk(self) -> Iterator[None]:
        machine = self._torment.machine
        self._twice = False
        machine.said("mount", "-t", "tmpfs", "-o", f"size={_DISK}", "ends", str(self._results))
        try:
            yield
        finally:
            machine.said("umount", "--lazy", str(self._results))

    @contextmanager
    def _begin(self, under: Sequence[str], words: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
        with self._said.open("wb") as log:
            given = {"stdout": log.fileno(), "stderr": log.fileno(), "start_new_session": True}
            lab = self._torment.start(*(words or self._words), results=self._results, under=under, **given)
            try:
                yield lab
            finally:
                lab.kill()
                lab.wait()

    def _lines(self) -> int:
        return self._said.read_bytes().count(b"\n")

    def _state(self) -> dict[str, object]:
        return {**self._torment.machine.state(), "home": sorted(map(str, (self._torment.work / "home").rglob("*")))}

    def _left(self, before: dict[str, object], others: list[str]) -> Iterator[str]:
        """Orphans, and changes of the machine."""
        try:
            until(lambda: not self._torment.more_than(others), "the last process has ended", SETTLE_S)
        except TimeoutError as late:
            yield f"{late}: {self._torment.more_than(others)}"
        bury()
        yield from changed(before, self._state())

    def _read(self) -> StoredRun | None:
        """The run as it is now, from a copy: that machine alone sees the disk."""
        shutil.rmtree(self._seen, ignore_errors=True)
        self._torment.machine.said("sh", "-c", f"rm -f {self._filler}; cp -a {self._results} {self._seen}")
        folders = run_folders(self._seen)
        assert len(folders) < 2, folders
        return read_run_folder(folders[0]) if folders else None

    def _wrong_end(self, kind: str, code: int, found: StoredRun | None) -> Iterator[str]:
        """How the command and the record differ from what this kind of end makes of a run."""
        record = found and found.record
        if found is not None and found.whole:
            if code == self._whole.code:  # it had come to its end before
                return
        elif record and record.ended not in _ENDED[kind] and not (self._twice and record.ended == "killed"):
            yield f"run.json says {record.ended}"
        if code not in _CODES[kind]:
            yield f"exit code {code}: {self._said_of[-600:]!r}"
        if "Traceback" in self._said_of:
            yield f"a traceback: {self._said_of[-600:]!r}"
        yield from read_all(self._seen)[2]

    def _green(self, code: int, found: StoredRun | None) -> Iterator[str]:
        """A line for each place that takes a run for complete that is not."""
        if code == EXIT_PASS:
            yield "exit code 0"
        if found is not None:
            yield from green(found)

    def _go_on(self, cut: StoredRun) -> Iterator[str]:
        """Resume the run, by the command that it printed; what differs from the run without interruption."""
        words = [*self._words, "--resume", cut.path.name]
        if cut.record and cut.record.ended in {"interrupted", "timeout"}:
            advice = [line for line in self._said_of.splitlines() if _GO_ON in line]
            if not advice and not self._twice:
                yield f"no command to go on: {self._said_of[-600:]!r}"
            for line in advice:
                words = shlex.split(line.partition(_GO_ON)[2])[1:]
        before, others = self._state(), self._torment.machine.processes()
        with self._begin((), words) as lab:
            _wait(lambda: lab.poll() is not None, _LONGEST_S)
            code = lab.poll()
        if code not in _VERDICTS or (self._clock == "virtual" and code != self._whole.code):
            yield f"exit code {code}: {self._said.read_text(errors='replace')[-600:]!r}"
        yield from self._left(before, others)
        found = self._read()
        assert found is not None
        if not found.whole:
            yield f"not complete: {found.state}"
        yield from (f"{path.name} is left" for path in self._seen.rglob(".*") if path.is_file() and not path.is_symlink())
        yield from self._unlike(found)

    def _unlike(self, found: StoredRun) -> Iterator[str]:
        """Differences of the resumed run's cells from those of the run without interruption."""
        wanted = {cell.id: cell for cell in self._whole.run.cells}
        there = [cell.id for cell in found.cells]
        if sorted(there) != sorted(wanted) or found.problems:
            yield f"has {there}, {found.problems}"
        if found.record is None or sorted(found.record.cells) != sorted(wanted):
            yield f"lists {found.record and found.record.cells}"
        for cell in found.cells:
            # In real time a cell is another one each time, and without a sample on a machine that has no time for its link.
            if self._clock == "virtual" and (difference := first_difference(view(wanted[cell.id]), view(cell))):
                yield f"{cell.id}: {difference}"


def _wait(condition: Callable[[], bool], longest_s: float) -> None:
    end = time.monotonic() + longest_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


def end_all(wanted: Mapping[str, int], seed: int, kept: Path | None, minutes: float) -> list[str]:
    """So many moments of each kind by each clock; prints a table in Markdown and returns a line for each problem.

    With `kept` it goes on where it was, and keeps what it did after each moment.
    """
    counts = _kept(kept, seed)
    begun = time.monotonic()
    with Torment(seed, containers=False, stored=False) as torment:
        for clock in CLOCKS:
            if not any(counts[clock][kind].moments < wanted[clock] for kind in KINDS):
                continue
            ends = Ends(torment, clock, seed)
            while open_kinds := [kind for kind in KINDS if counts[clock][kind].moments < wanted[clock]]:
                if time.monotonic() - begun > minutes * 60:
                    break
                # Those with the fewest moments: so each kind has some where the time is up.
                kind = min(open_kinds, key=lambda each: counts[clock][each].moments)
                count = counts[clock][kind]
                known = len(count.problems)
                ends.meet(kind, count)
                for problem in count.problems[known:]:
                    print(problem, flush=True)
                if kept:
                    files.write_text(kept, json.dumps({"seed": seed, "counts": counts}, default=asdict, indent=1))
    print(f"seed {seed}\n{_table(counts)}")
    return [problem for each in counts.values() for count in each.values() for problem in count.problems]


def _kept(kept: Path | None, seed: int) -> dict[str, dict[str, Count]]:
    counts = {clock: {kind: Count() for kind in KINDS} for clock in CLOCKS}
    if kept is None or not kept.exists():
        return counts
    document = json.loads(kept.read_text())
    if document["seed"] != seed:
        raise SystemExit(f"torment: {kept} is of seed {document['seed']}")
    return {clock: {kind: Count(**each) for kind, each in kinds.items()} for clock, kinds in document["counts"].items()}


_COLUMNS = {
    "moments": "moments",
    "before": "before the run had a folder",
    "complete": "all results there",
    "green": "green",
    "left": "something left",
    "resumed": "resumed",
    "equal": "equal",
}


def _table(counts: Mapping[str, Mapping[str, Count]]) -> str:
    lines = [f"| clock | end | {' | '.join(_COLUMNS.values())} | problems |", f"|---|---|{'--:|' * (len(_COLUMNS) + 1)}"]
    for clock, kinds in counts.items():
        for kind, count in kinds.items():
            figures = " | ".join(str(getattr(count, column)) for column in _COLUMNS)
            lines.append(f"| {clock} | {kind} | {figures} | {len(count.problems)} |")
    return "\n".join(lines)
