"""Cells of one or several runs as a table, client by transfer: what `lab matrix` shows. Derived from them, and disposable.

Pure functions of what was read. Of a cell that several runs have, the newest run's is taken, and a note says so. Figures besides
the verdict's are over the transfers that arrived whole, each as mean, least and greatest. Units as in `lab.result.models`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import get_args

import lab
from lab.result.matrix_models import (
    REAL_TIME_FIGURES,
    CalibrationSummary,
    Entry,
    FigureName,
    Matrix,
    Row,
    RunHead,
    Spread,
    StudyEntry,
    StudyRows,
)
from lab.result.meaning import cpu_is_real, rate_is_real
from lab.result.models import Calibration, CellResult, ClientIdentity, DirectionName, Sample, VerdictName
from lab.result.study import StudyResult
from lab.spec.cell import format_transfer
from lab.spec.clock import Clock
from lab.spec.models import Link, Topology


@dataclass(frozen=True)
class Source:
    """What was read of one run; `skipped` is why cells and studies were not run, by id; `left_out` counts unreadable files."""

    name: str
    cells: Sequence[CellResult]
    studies: Sequence[StudyResult] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    whole: bool = True
    left_out: int = 0


def make_matrix(sources: Sequence[Source], figures: Sequence[FigureName] = ()) -> Matrix:
    """The table of all `sources`; rows and columns in the order in which they were first run."""
    ordered = sorted((each for each in sources if each.cells), key=lambda source: source.cells[0].started_at)
    taken = {(cell.id, cell.clock): (source.name, cell) for source in ordered for cell in source.cells}
    taken_studies = {(study.id, study.lab_clock): (source.name, study) for source in ordered for study in source.studies}
    cells = [cell for _, cell in taken.values()]
    ran = {name for name, _ in (*taken, *taken_studies)}
    skipped = {cell_id: reason for source in ordered for cell_id, reason in source.skipped.items() if cell_id not in ran}
    arms = {arm.cell for _, study in taken_studies.values() for arm in study.arms}
    rows = _rows([found for (cell_id, _), found in taken.items() if cell_id not in arms], figures)
    studies = _study_rows(taken_studies.values())
    studies, left = _with_skipped_studies(studies, skipped)
    rows, notes = _with_skipped(rows, left)
    return Matrix(
        lab_version=lab.__version__,
        runs=[_head(source) for source in ordered],
        clocks=[*dict.fromkeys([*(cell.clock for cell in cells), *(study.lab_clock for _, study in taken_studies.values())])],
        backends=_distinct(cell.backend for cell in cells),
        routers=_distinct(router_words(cell.router) for cell in cells),
        links=_by_name((cell.topology.name, link_words(cell.topology)) for cell in cells),
        calibration=_calibration(cells),
        clients=_clients(cells, skipped),
        figures=[*dict.fromkeys(figures)],
        rows=rows,
        studies=studies,
        verdicts=_counts(rows, studies),
        notes=[*_repeated(ordered), *_left_out(sources), *notes],
    )


def link_words(topology: Topology) -> str:
    """`50 Mbit/s, RTT 20 ms`; two rates where the directions differ."""
    link = topology.link
    down, up = rate_words(link, "down"), rate_words(link, "up")
    more = "".join(f", {name} {getattr(link, name)}" for name in ("loss", "jitter") if getattr(link, name) != _NOTHING[name])
    return f"{down if down == up else f'{down} down, {up} up'}, RTT {link.rtt.ms:g} ms{more}"


def rate_words(link: Link, direction: DirectionName) -> str:
    rate = link.direction(direction).rate
    return str(rate) if rate is not None else "unshaped"


def client_words(client: ClientIdentity) -> str:
    """Name and version without the list of libraries that some clients add; the result keeps it."""
    version = client.version.split(" (", maxsplit=1)[0]
    return version if version.startswith(client.name) else f"{client.name}: {version}"


def figure_of(name: FigureName, cell: CellResult, sample: Sample) -> float | None:
    """One figure of one transfer; None where it was not measured, or means nothing for such a transfer or on its clock."""
    return _FIGURES[name](cell, sample) if _means_something(name, cell) else None


# ---------------------------------------------------------------------------------------------------------------------


def _means_something(name: FigureName, cell: CellResult) -> bool:
    if name == "speed":
        return rate_is_real(cell)
    return name not in REAL_TIME_FIGURES or cpu_is_real(cell)


_NOTHING = {"loss": Link().loss, "jitter": Link().jitter}


def _burst(cell: CellResult, sample: Sample) -> float | None:
    """From the series, which results from before the ratio was kept have too."""
    limit = cell.transfer.limit_byte_s
    return sample.series.begun_window_byte_s / limit if sample.series and limit else None


def _cpu(_: CellResult, sample: Sample) -> float | None:
    return (sample.cpu_user_s + sample.cpu_system_s) / sample.wall_s if sample.wall_s > 0 else None


_FIGURES: dict[FigureName, Callable[[CellResult, Sample], float | None]] = {
    "speed": lambda _, sample: sample.body_byte_s,
    "deviation": lambda _, sample: sample.deviation,
    "burst": _burst,
    "silence": lambda _, sample: sample.series.longest_gap_ms if sample.series else None,
    "cpu": _cpu,
    "memory": lambda _, sample: sample.max_rss_bytes,
    "startup": lambda _, sample: sample.client.first_byte_s if sample.client else None,
    "requests": lambda _, sample: sample.requests_per_s,
}


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(n=len(values), mean=sum(values) / len(values), least=min(values), greatest=max(values))


def _spread_of(name: FigureName, cell: CellResult) -> Spread | None:
    found = (figure_of(name, cell, sample) for sample in cell.samples if sample.ok)
    return _spread([value for value in found if value is not None])


def _entry(run: str, cell: CellResult, figures: Sequence[FigureName]) -> Entry:
    verdict = cell.verdict
    speed = _spread_of("speed", cell)
    spreads = {name: _spread_of(name, cell) for name in figures}
    return Entry(
        cell=cell.id,
        run=run,
        verdict=verdict.name,
        reason=verdict.reason,
        interval=verdict.interval,
        n=verdict.interval.n if verdict.interval else len(cell.samples),
        mean_byte_s=speed.mean if speed else None,
        figures={name: spread for name, spread in spreads.items() if spread is not None},
        not_in_virtual_time=[name for name in figures if not _means_something(name, cell)],
    )


def _rows(taken: Iterable[tuple[str, CellResult]], figures: Sequence[FigureName]) -> list[Row]:
    """Cells that differ in more than the client, in a tolerance or the clock too, are no row."""
    keys: dict[tuple[str, str, str, Clock], dict[str, tuple[str, CellResult]]] = {}
    for run, cell in taken:
        key = (cell.topology.name, format_transfer(cell.transfer), cell.expectation.model_dump_json(), cell.clock)
        keys.setdefault(key, {})[cell.client.name] = (run, cell)
    return [
        Row(
            link=link,
            transfer=transfer,
            clock=clock,
            expectation=next(iter(found.values()))[1].expectation,
            cells={client: _entry(run, cell, figures) for client, (run, cell) in found.items()},
            skipped={},
        )
        for (link, transfer, _, clock), found in keys.items()
    ]


def _with_skipped(rows: Sequence[Row], skipped: Mapping[str, str]) -> tuple[list[Row], list[str]]:
    """Into the rows of the same link, transfer and name of what is expected; where no other client has that row, a note."""
    notes: list[str] = []
    filled = [*rows]
    for cell_id, reason in skipped.items():
        client, _, rest = cell_id.partition("--")
        places = [at for at, row in enumerate(filled) if _row_name(row) == rest and client not in row.cells]
        for at in places:
            row = filled[at]
            filled[at] = row.model_copy(update={"skipped": {**row.skipped, client: reason}})
        if not places:
            notes.append(f"{cell_id} was not run: {reason}")
    return filled, notes


def _row_name(row: Row) -> str:
    """A cell's id without its client."""
    named = row.expectation.named
    return "--".join([row.link, row.transfer, *([named] if named else [])])


def _study_rows(taken: Iterable[tuple[str, StudyResult]]) -> list[StudyRows]:
    keys: dict[tuple[str, str, str, Clock], dict[str, tuple[str, StudyResult]]] = {}
    for run, study in taken:
        key = (study.topology.name, format_transfer(study.transfer), study.varied, study.lab_clock)
        keys.setdefault(key, {})[study.client.name] = (run, study)
    return [
        StudyRows(
            link=link,
            transfer=transfer,
            varied=varied,
            clock=clock,
            settings=_distinct(setting for _, study in found.values() for setting in _settings(study)),
            studies={client: _study_entry(run, study) for client, (run, study) in found.items()},
            skipped={},
        )
        for (link, transfer, varied, clock), found in keys.items()
    ]


def _settings(study: StudyResult) -> list[str]:
    return [*(arm.setting for arm in study.arms), *study.left_out]


def _study_entry(run: str, study: StudyResult) -> StudyEntry:
    return StudyEntry(
        study=study.id,
        run=run,
        verdict=study.verdict.name,
        reason=study.verdict.reason,
        interval=study.verdict.interval,
        mean_byte_s={arm.setting: arm.mean_byte_s for arm in study.arms},
        left_out=study.left_out,
    )


def _with_skipped_studies(rows: Sequence[StudyRows], skipped: Mapping[str, str]) -> tuple[list[StudyRows], dict[str, str]]:
    """The rows with the clients that could not do them, and what of `skipped` is of no study here."""
    left = dict(skipped)
    filled = []
    for row in rows:
        ids = {study.study.partition("--")[2] for study in row.studies.values()}
        own = {cell_id: reason for cell_id, reason in left.items() if cell_id.partition("--")[2] in ids}
        left = {cell_id: reason for cell_id, reason in left.items() if cell_id not in own}
        more = {cell_id.partition("--")[0]: reason for cell_id, reason in own.items()}
        filled.append(row.model_copy(update={"skipped": more}))
    return filled, left


def _repeated(sources: Sequence[Source]) -> list[str]:
    """Which cells and studies are in more than one run, by the runs."""
    runs: dict[tuple[str, Clock], list[str]] = {}
    for source in sources:
        cells = ((cell.id, cell.clock) for cell in source.cells)
        for name in chain(cells, ((study.id, study.lab_clock) for study in source.studies)):
            runs.setdefault(name, []).append(source.name)
    counts = Counter(tuple(names) for names in runs.values() if len(names) > 1)
    return [
        f"{count} {'cell is' if count == 1 else 'cells are'} in {' and '.join(names)}: shown as in {names[-1]}, the newest"
        for names, count in counts.items()
    ]


def _left_out(sources: Sequence[Source]) -> list[str]:
    return [
        f"{source.name}: {source.left_out} {'file is' if source.left_out == 1 else 'files are'} left out: cut off, or there twice"
        for source in sources
        if source.left_out
    ]


def _head(source: Source) -> RunHead:
    return RunHead(
        run=source.name,
        started_at=source.cells[0].started_at,
        ended_at=max(cell.ended_at for cell in source.cells),
        lab_versions=_distinct(cell.lab_version for cell in source.cells),
        git_revision=source.revision,
        whole=source.whole,
    )


def router_words(router: Mapping[str, object]) -> str:
    """What shaped the link, by the facts that every result has of it: `User-Mode Linux 6.12.101`."""
    known = {"uml": "User-Mode Linux", "kernel": "its own kernel"}
    kind = known.get(str(router.get("kind")), str(router.get("kind")))
    return " ".join([kind, *([str(router["kernel"])] if router.get("kernel") else [])])


def _calibration(cells: Sequence[CellResult]) -> CalibrationSummary | None:
    """Cells that share a look count it once; two looks may begin at one instant of the virtual clock."""
    certified = [(cell.clock, cell.certificate) for cell in cells if cell.certificate is not None]
    last = ((clock, look) for clock, each in certified for look in (*each.before[-1:], *each.after[-1:]))
    looks: list[Calibration] = [*{look.at if clock == "real" else look.model_dump_json(): look for clock, look in last}.values()]
    if not looks:
        return None
    worst: dict[DirectionName, float] = {}
    for name in get_args(DirectionName):
        errors = [getattr(look, name).goodput_error for look in looks]
        if known := [error for error in errors if error is not None]:
            worst[name] = max(known, key=abs)
    return CalibrationSummary(
        looks=len(looks),
        beyond_tolerance=sum(not look.ok for look in looks),
        worst_error=worst,
        worst_rtt_excess_ms=max((look.rtt_excess_ms for look in looks), key=abs),
    )


def _clients(cells: Sequence[CellResult], skipped: Mapping[str, str]) -> dict[str, list[str]]:
    measured = _by_name((cell.client.name, client_words(cell.client)) for cell in cells)
    return {**measured, **{name: [] for name in _distinct(each.partition("--")[0] for each in skipped) if name not in measured}}


def _counts(rows: Sequence[Row], studies: Sequence[StudyRows]) -> dict[VerdictName, int]:
    counts = Counter(entry.verdict for row in rows for entry in row.cells.values())
    counts.update(entry.verdict for study in studies for entry in study.studies.values())
    return {name: counts[name] for name in get_args(VerdictName)}


def _by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, words in pairs:
        if words not in found.setdefault(name, []):
            found[name].append(words)
    return found


def _distinct(texts: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(texts)]
