"""Cells of one or several runs as a table, client by transfer: what `lab matrix` shows. Derived from them, and disposable.

Pure functions of stored runs. A cell of several runs is taken from the newest, and a note says so. Figures besides the verdict's
are over the successful transfers, each as mean, least and greatest. Units as in `lab.model.results`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import get_args

import lab
from lab.model.answer import Answer, asking
from lab.model.cell_name import format_transfer
from lab.model.clock import Clock
from lab.model.figures import FIGURES, RATE, Figure
from lab.model.link import Link
from lab.model.matrix import (
    CalibrationSummary,
    Entry,
    Matrix,
    Row,
    RunHead,
    Spread,
    Sweep,
)
from lab.model.results import Calibration, CellResult, ClientIdentity, DirectionName, VerdictName
from lab.model.topology import Topology
from lab.store.stored_run import StoredRun


def make_matrix(runs: Sequence[StoredRun], figures: Sequence[str] = ()) -> Matrix:
    """The table of all `runs`; rows and columns in the order in which they were first run."""
    ordered = sorted((run for run in runs if run.cells), key=lambda run: run.cells[0].started_at)
    taken = {(cell.id, cell.clock): (run.path.name, cell) for run in ordered for cell in run.cells}
    answers = {(answer.id, answer.clocks[0]): answer for run in ordered for answer in _sweeps(run)}
    cells = [cell for _, cell in taken.values()]
    ran = {name for name, _ in (*taken, *answers)}
    skipped = {cell_id: reason for run in ordered for cell_id, reason in run.skipped.items() if cell_id not in ran}
    arms = {arm.cell for answer in answers.values() for arm in answer.arms}
    rows = _rows([found for (cell_id, _), found in taken.items() if cell_id not in arms], figures)
    sweeps, left = _with_skipped_sweeps(_sweep_tables(answers.values()), skipped)
    rows, notes = _with_skipped(rows, left)
    return Matrix(
        lab_version=lab.__version__,
        runs=[_head(run) for run in ordered],
        clocks=[*dict.fromkeys([*(clock for _, clock in taken), *(clock for _, clock in answers)])],
        backends=_distinct(cell.backend for cell in cells),
        routers=_distinct(router_words(cell.router) for cell in cells),
        links=_by_name((cell.topology.name, link_words(cell.topology)) for cell in cells),
        calibration=_calibration(cells),
        clients=_clients(cells, skipped),
        figures=[*dict.fromkeys(figures)],
        rows=rows,
        sweeps=sweeps,
        verdicts=_counts(rows, sweeps),
        notes=[*_repeated(ordered), *_left_out(runs), *notes],
    )


def link_words(topology: Topology) -> str:
    """`50 Mbit/s, RTT 20 ms`; two rates where the directions differ."""
    if topology.same_host:
        return "one host, its loopback"
    link = topology.link
    down, up = rate_words(link, "down"), rate_words(link, "up")
    plain = Link()
    more = "".join(
        f", {name} {getattr(link, name)}" for name in ("loss", "jitter") if getattr(link, name) != getattr(plain, name)
    )
    schedule = topology.schedule
    changing = "" if schedule is None else ", following a trace" if schedule.trace else ", changing"
    return f"{down if down == up else f'{down} down, {up} up'}, RTT {link.rtt.ms:g} ms{more}{changing}"


def rate_words(link: Link, direction: DirectionName) -> str:
    rate = link.direction(direction).rate
    return str(rate) if rate is not None else "unshaped"


def client_words(client: ClientIdentity) -> str:
    """Name and version without the list of libraries that some clients add; the result keeps it."""
    version = client.version.split(" (", maxsplit=1)[0]
    return version if version.startswith(client.name) else f"{client.name}: {version}"


# ---------------------------------------------------------------------------------------------------------------------


def _spread(figure: Figure, cell: CellResult) -> Spread | None:
    values = figure.values(cell)
    if not values:
        return None
    return Spread(n=len(values), mean=figure.mean(values), least=min(values), greatest=max(values))


def _entry(run: str, cell: CellResult, figures: Sequence[str]) -> Entry:
    verdict = cell.verdict
    spreads = {name: _spread(FIGURES[name], cell) for name in figures}
    return Entry(
        cell=cell.id,
        run=run,
        verdict=verdict.name,
        reason=verdict.reason,
        interval=verdict.interval,
        n=verdict.interval.n if verdict.interval else len(cell.samples),
        mean_byte_s=RATE.summarise(cell),
        figures={name: spread for name, spread in spreads.items() if spread is not None},
        not_in_virtual_time=[name for name in figures if not FIGURES[name].applies(cell)],
    )


def _rows(taken: Iterable[tuple[str, CellResult]], figures: Sequence[str]) -> list[Row]:
    """Cells share a row if they differ in the client only; a tolerance or the clock makes another row."""
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
    """Add skipped cells to the rows with the same link, transfer and expectation; a cell without such a row becomes a note."""
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


def _sweep_tables(taken: Iterable[Answer]) -> list[Sweep]:
    tables: dict[tuple[str, str, Clock], dict[str, Answer]] = {}
    for answer in taken:
        client, topology, transfer = answer.subject
        tables.setdefault((topology.name, format_transfer(transfer), answer.clocks[0]), {})[client.name] = answer
    return [
        Sweep(link=link, transfer=transfer, clock=clock, answers=answers, skipped={})
        for (link, transfer, clock), answers in tables.items()
    ]


def _with_skipped_sweeps(sweeps: Sequence[Sweep], skipped: Mapping[str, str]) -> tuple[list[Sweep], dict[str, str]]:
    """The sweeps with the clients that were skipped in them, and the rest of `skipped`."""
    left = dict(skipped)
    filled = []
    for sweep in sweeps:
        ids = {answer.id.partition("--")[2] for answer in sweep.answers.values()}
        clients = {name: name.partition("--")[0] for name in left if name.partition("--")[2] in ids}
        filled.append(sweep.model_copy(update={"skipped": {client: left.pop(name) for name, client in clients.items()}}))
    return filled, left


def _repeated(runs: Sequence[StoredRun]) -> list[str]:
    """Notes on the cells and sweeps that are in more than one run, by the runs."""
    places: dict[tuple[str, Clock], list[str]] = {}
    for run in runs:
        cells = ((cell.id, cell.clock) for cell in run.cells)
        for name in chain(cells, ((answer.id, answer.clocks[0]) for answer in _sweeps(run))):
            places.setdefault(name, []).append(run.path.name)
    counts = Counter(tuple(names) for names in places.values() if len(names) > 1)
    return [
        f"{count} {'cell is' if count == 1 else 'cells are'} in {' and '.join(names)}: shown as in {names[-1]}, the newest"
        for names, count in counts.items()
    ]


def _sweeps(run: StoredRun) -> list[Answer]:
    return asking(run.answers, "buffer-sizes")


def _left_out(runs: Sequence[StoredRun]) -> list[str]:
    counts = {run.path.name: len(run.problems) for run in runs if run.problems}
    return [
        f"{name}: {count} {'file is' if count == 1 else 'files are'} left out: cut off, or a duplicate"
        for name, count in counts.items()
    ]


def _head(run: StoredRun) -> RunHead:
    return RunHead(
        run=run.path.name,
        started_at=run.cells[0].started_at,
        ended_at=max(cell.ended_at for cell in run.cells),
        lab_versions=_distinct(cell.lab_version for cell in run.cells),
        git_revision=run.record.git_revision if run.record else None,
        whole=run.whole,
    )


def router_words(router: Mapping[str, object]) -> str:
    """The router that shaped the link, by the facts that every result has of it: `User-Mode Linux 6.12.101`."""
    known = {"uml": "User-Mode Linux", "kernel": "its own kernel", "none": "no router"}
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


def _counts(rows: Sequence[Row], sweeps: Sequence[Sweep]) -> dict[VerdictName, int]:
    counts = Counter(entry.verdict for row in rows for entry in row.cells.values())
    counts.update(answer.judged.name for sweep in sweeps for answer in sweep.answers.values())
    return {name: counts[name] for name in get_args(VerdictName)}


def _by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, words in pairs:
        if words not in found.setdefault(name, []):
            found[name].append(words)
    return found


def _distinct(texts: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(texts)]
