"""Whether the files of a run agree with each other and with themselves: what no schema can say.

Every function is pure and gives `(JSON path, what is wrong)`; a path is as RFC 9535 writes it, `$.samples[3].index`. What may be
so in an honest result is no problem: a Student interval of very scattered samples may reach below a deviation of -1, no mean can.

`Known` is what the files of a run say of their ids; None where one is there that cannot be read, which was told already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from lab.result.finding import Finding
from lab.result.models import CellResult, Interval, RunRecord, VerdictName
from lab.result.qualification import PairResult, Qualification
from lab.result.salvage import Salvaged
from lab.result.store import exit_code
from lab.result.study import StudyResult

Fault = tuple[str, str]
Known = Mapping[str, VerdictName | None]

# Means and ends are summed in different orders, and some are exponentials.
_ROUNDING = 1e-9


def cell_faults(cell: CellResult) -> Iterator[Fault]:
    """A cell against itself."""
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
        yield "$.verdict.interval.mean", f"is {cell.verdict.interval.mean:g}: nothing that is judged is below -1"
    for position, look in enumerate(cell.verdict.looks):
        if look > len(cell.samples):
            yield f"$.verdict.looks[{position}]", f"looked at {look} of {len(cell.samples)} samples"
    low, high = cell.verdict.band_low, cell.verdict.band_high
    if low is not None and high is not None and low > high:
        yield "$.verdict.band_low", f"{low:g} is above band_high {high:g}"


def study_faults(study: StudyResult, cells: Known | None) -> Iterator[Fault]:
    """A study against itself and the run's cells; None where they are not known."""
    yield from _ordered(study.started_at, study.ended_at)
    if cells is not None:
        for position, arm in enumerate(study.arms):
            if arm.cell not in cells:
                yield f"$.arms[{position}].cell", f"there is no cell {arm.cell}"
    rounds = min((len(arm.byte_s) for arm in study.arms), default=0)
    yield from _judged("$.verdict.interval", study.verdict.interval, rounds, "rounds")


def pair_faults(pair: PairResult, cells: Known | None) -> Iterator[Fault]:
    """A pair against itself and the run's cells; None where they are not known."""
    yield from _ordered(pair.started_at, pair.ended_at)
    for name, side in (("candidate", pair.candidate), ("baseline", pair.baseline)):
        if cells is not None and side.cell not in cells:
            yield f"$.{name}.cell", f"there is no cell {side.cell}"
        elif cells is not None and cells[side.cell] not in (None, side.verdict):
            yield f"$.{name}.verdict", f"is {side.verdict}, its cell says {cells[side.cell]}"
    pairs = min(len(pair.candidate.byte_s), len(pair.baseline.byte_s))
    yield from _judged("$.ratio", pair.ratio, pairs, "pairs")


def record_faults(record: RunRecord, found: Salvaged, unread: frozenset[str] = frozenset()) -> Iterator[Fault]:
    """run.json against the files. `unread` are ids whose files are there and were told already."""
    yield from _ordered(record.started_at, record.ended_at)
    verdicts: dict[str, VerdictName] = {}
    for name, listed, there in (
        ("cells", record.cells, found.cells),
        ("studies", record.studies, found.studies),
        ("findings", record.findings, found.findings),
        ("pairs", record.pairs, found.pairs),
    ):
        ids = [each.id for each in there]
        yield from _same_ids(name, listed, ids, unread)
        for each in there:
            if each.run != record.run:
                yield f"$.{name}", f"{each.id} says it is of run {each.run}"
            clock = each.clock if isinstance(each, CellResult | Finding) else each.lab_clock
            if clock not in record.clocks:
                yield "$.clocks", f"{clock} is left out, {each.id} ran by it"
            if each.verdict is not None:
                verdicts[each.id] = each.verdict.name
    for key in record.baselines:
        if key not in record.cells:
            yield "$.baselines", f"{key} is none of its cells"
    for key in verdicts.keys() - record.verdicts.keys():
        yield "$.verdicts", f"{key} is left out, its file says {verdicts[key]}"
    for key, name in record.verdicts.items():
        if key in verdicts and verdicts[key] != name:
            yield _member("$.verdicts", key), f"is {name}, its file says {verdicts[key]}"
        elif key not in verdicts and key not in unread:
            yield _member("$.verdicts", key), "there is no file that is judged so"
    wanted = exit_code(name for key, name in record.verdicts.items() if key not in record.baselines)
    if record.exit_code != wanted:
        yield "$.exit_code", f"is {record.exit_code}, its verdicts make {wanted}"


def qualification_faults(found: Qualification, known: Known, pairs: Mapping[str, PairResult | None]) -> Iterator[Fault]:
    """A qualification against itself, the run's cells and studies, and its pairs."""
    yield from _ordered(found.started_at, found.ended_at)
    for position, item in enumerate(found.items):
        where = f"$.items[{position}]"
        if item.id not in known:
            yield f"{where}.id", f"there is no cell or study {item.id}"
        elif known[item.id] not in (None, item.verdict):
            yield f"{where}.verdict", f"is {item.verdict}, its file says {known[item.id]}"
        if item.pair is None:
            continue
        pair = pairs.get(item.pair)
        if item.pair not in pairs:
            yield f"{where}.pair", f"there is no pair {item.pair}"
        elif pair is not None and (told := pair.verdict.name if pair.verdict else None) != item.regression:
            yield f"{where}.regression", f"is {item.regression}, its pair says {told}"
    wanted = exit_code(found.verdicts)
    if found.exit_code != wanted:
        yield "$.exit_code", f"is {found.exit_code}, its verdicts make {wanted}"


def _ordered(started_at: datetime, ended_at: datetime) -> Iterator[Fault]:
    if ended_at < started_at:
        yield "$.ended_at", f"is before started_at, {started_at.isoformat()}"


def _times(name: str, times: Sequence[datetime], cell: CellResult) -> Iterator[Fault]:
    """Samples start one after another, while the cell runs; on the virtual clock they may each start at its beginning."""
    if cell.clock == "virtual":
        return
    for position, at in enumerate(times):
        where = f"$.{name}[{position}]{'.sample' if name == 'set_aside' else ''}.started_at"
        if position and at < times[position - 1]:
            yield where, "is before the one before it"
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
