"""Faults in results that no schema can find: files of a run that contradict each other or themselves.

Every function is pure and yields `(JSON path, what is wrong)`, the path as in RFC 9535: `$.samples[3].index`. A correct
result never has one of these faults: the interval of scattered samples may reach below a deviation of -1, but a mean cannot.

`Known` has the verdict of each id of a run; None for an answer that is not judged and for a file that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from lab.model.answer import Answer
from lab.model.results import CellResult, Interval, RunRecord, VerdictName, exit_code, worst
from lab.store.stored_run import StoredRun

Fault = tuple[str, str]
Known = Mapping[str, VerdictName | None]

# Means and ends are summed in different orders, and some are exponentials.
_ROUNDING = 1e-9


def cell_faults(cell: CellResult) -> Iterator[Fault]:
    """Contradictions within a cell."""
    yield from _ordered(cell.started_at, cell.ended_at)
    for position, sample in enumerate(cell.samples):
        if sample.index != position:
            yield f"$.samples[{position}].index", f"is {sample.index} in place {position}"
    if cell.virtual is not None and cell.clock == "real":
        yield "$.virtual", "is there, and the clock is real"
    for name, samples in (("samples", cell.samples), ("set_aside", [each.sample for each in cell.set_aside])):
        yield from _times(name, [sample.started_at for sample in samples], cell)
    yield from _judged("$.verdict.interval", cell.verdict.interval, len(cell.samples), "samples")
    if cell.verdict.interval is not None and cell.verdict.interval.mean < -1:
        yield "$.verdict.interval.mean", f"is {cell.verdict.interval.mean:g}: a mean cannot be below -1"
    for position, look in enumerate(cell.verdict.looks):
        if look > len(cell.samples):
            yield f"$.verdict.looks[{position}]", f"looked at {look} of {len(cell.samples)} samples"
    low, high = cell.verdict.band_low, cell.verdict.band_high
    if low is not None and high is not None and low > high:
        yield "$.verdict.band_low", f"{low:g} is above band_high {high:g}"


def answer_faults(answer: Answer, known: Known | None) -> Iterator[Fault]:
    """Contradictions within an answer and with the run's cells and answers; None for `known` skips the latter."""
    yield from _ordered(answer.started_at, answer.ended_at)
    values = min((len(arm.byte_s) for arm in answer.arms), default=0)
    if values:
        yield from _judged("$.ratio", answer.ratio, values, "values of each arm")
    for position, arm in enumerate(answer.arms):
        yield from _refers(f"$.arms[{position}]", "cell", arm.cell, arm.verdict, known)
    for position, part in enumerate(answer.parts):
        yield from _refers(f"$.parts[{position}]", "id", part.id, part.verdict, known)
        if part.comparison:
            yield from _refers(f"$.parts[{position}]", "comparison", part.comparison, part.regression, known)
    if answer.parts and answer.verdict:
        wanted = worst(name for part in answer.parts for name in part.verdicts)
        if answer.verdict.name != wanted:
            yield "$.verdict.name", f"is {answer.verdict.name}, its parts say {wanted}"


def record_faults(record: RunRecord, found: StoredRun, unread: frozenset[str] = frozenset()) -> Iterator[Fault]:
    """Contradictions between run.json and the files. `unread` are ids of files that cannot be read and were reported already."""
    yield from _ordered(record.started_at, record.ended_at)
    if record.ended == "killed":
        # The record is that of the start: it lists nothing yet, or what was there when the run was taken up again.
        yield from (("$.run", f"{each.id} says it is of run {each.run}") for each in found.everything if each.run != record.run)
        return
    # Before 2.0 a qualification was not listed.
    listed = [each for each in found.answers if each.question != "qualification" or each.id in record.answers]
    for name, ids, there in (
        ("cells", record.cells, [(each.id, each.run) for each in found.cells]),
        ("answers", record.answers, [(each.id, each.run) for each in listed]),
    ):
        yield from _same_ids(name, ids, [each for each, _ in there], unread)
        yield from ((f"$.{name}", f"{each} says it is of run {run}") for each, run in there if run != record.run)
    for each in found.everything:
        for clock in each.clocks:
            if clock not in record.clocks:
                yield "$.clocks", f"{clock} is missing, {each.id} ran by it"
    verdicts = found.verdicts
    for key in record.baselines:
        if key not in record.cells and key not in record.answers:
            yield "$.baselines", f"{key} is not one of its cells or answers"
    for key in verdicts.keys() - record.verdicts.keys():
        yield "$.verdicts", f"{key} is missing, its file says {verdicts[key]}"
    for key, name in record.verdicts.items():
        if key in verdicts and verdicts[key] != name:
            yield _member("$.verdicts", key), f"is {name}, its file says {verdicts[key]}"
        elif key not in verdicts and key not in unread:
            yield _member("$.verdicts", key), "no file has this verdict"
    yield from _ended(record)


def _ended(record: RunRecord) -> Iterator[Fault]:
    """Faults of how the run ended: its exit code, and what is missing."""
    wanted = exit_code(name for key, name in record.verdicts.items() if key not in record.baselines)
    if record.ended == "complete" and record.missing:
        yield "$.ended", f"is complete, and {record.missing[0]} is missing"
    if record.whole and record.exit_code != wanted:
        yield "$.exit_code", f"is {record.exit_code}, its verdicts say {wanted}"
    elif not record.whole and record.exit_code in {0, 3}:
        yield "$.exit_code", f"is {record.exit_code}, and the run is not complete"


def _refers(where: str, field: str, name: str, verdict: VerdictName | None, known: Known | None) -> Iterator[Fault]:
    """Faults of a reference to a cell or answer of the run, and of the verdict given with it."""
    if known is None or not name:
        return
    if name not in known:
        yield f"{where}.{field}", f"there is no cell or answer {name}"
    elif verdict is not None and known[name] not in (None, verdict):
        yield f"{where}.{'regression' if field == 'comparison' else 'verdict'}", f"is {verdict}, its file says {known[name]}"


def _ordered(started_at: datetime, ended_at: datetime) -> Iterator[Fault]:
    if ended_at < started_at:
        yield "$.ended_at", f"is before started_at, {started_at.isoformat()}"


def _times(name: str, times: Sequence[datetime], cell: CellResult) -> Iterator[Fault]:
    """Samples start one after another while the cell runs; on the virtual clock all may start at the same time."""
    if cell.clock == "virtual":
        return
    for position, at in enumerate(times):
        where = f"$.{name}[{position}]{'.sample' if name == 'set_aside' else ''}.started_at"
        if position and at < times[position - 1]:
            yield where, "is before the previous one"
        elif not cell.started_at <= at <= cell.ended_at:
            yield where, "is not between the cell's start and end"


def _judged(where: str, interval: Interval | None, n: int, what: str) -> Iterator[Fault]:
    if interval is None:
        return
    if interval.n > n:
        yield f"{where}.n", f"is {interval.n}, there are {n} {what}"
    slack = _ROUNDING * max(abs(interval.low), abs(interval.high))
    if not interval.low - slack <= interval.mean <= interval.high + slack:
        yield where, f"its mean {interval.mean:g} is not between {interval.low:g} and {interval.high:g}"


def _same_ids(name: str, listed: Sequence[str], there: Iterable[str], unread: frozenset[str]) -> Iterator[Fault]:
    files = set(there)
    for position, key in enumerate(listed):
        if key not in files and key not in unread:
            yield f"$.{name}[{position}]", f"there is no file of {key}"
        if key in listed[:position]:
            yield f"$.{name}[{position}]", f"{key} is listed twice"
    for key in sorted(files.difference(listed)):
        yield f"$.{name}", f"{key} has a file and is not listed"


def _member(where: str, key: str) -> str:
    return f"{where}['{key}']"
