"""`lab compare`: two runs of the same cells, or cells that differ in one thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

import lab
from lab.cli.options import Html, Json, quantity
from lab.cli.output import stdout_console, tell_problems
from lab.judge.compare import UNRECORDED, compare_cells, compare_sweeps, correct_for_many, differences
from lab.judge.cost import cost_note
from lab.judge.matching import BY_KEYS, ByKey, Match, match_cells, match_within, value_of
from lab.model.answer import CELL_QUESTIONS, Answer, asking
from lab.model.clock import MIXED_CLOCKS
from lab.model.comparison import Comparison, Difference, RunSide
from lab.model.errors import UsageProblem
from lab.model.files import write_text
from lab.model.results import CellResult, exit_code
from lab.model.units import Ratio
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from reports.answer_text import render_comparison
from reports.matrix import client_words, link_words

COMPARED = {*CELL_QUESTIONS, "buffer-sizes"}
NOT_INTERLEAVED = "the two runs were not interleaved, so every ratio includes any drift between them"
ONE_AFTER_THE_OTHER = "these cells ran one after the other, so their ratio includes any drift between them"
ONE_SIDED = (
    "FAIL means that B is slower than the tolerance allows, or failed where A did not; with a limit B must not be faster either"
)
HOLM = "a FAIL by its ratio is one of {} claims, corrected by Holm's procedure; a PASS is a claim about one cell"


def by_key(text: str) -> ByKey:
    found = next((key for key in BY_KEYS if key == text), None)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(BY_KEYS)}")
    return found


Within = Annotated[
    Ratio,
    typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="How far the ratio of two means may be from 1, e.g. 1%."),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by", parser=by_key, metavar="|".join(BY_KEYS), help="Compare cells that differ only in this; one run is enough."
    ),
]


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="A: a run's folder, its name below results/, latest, or latest~1.")],
    second: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="B: the ratios are B over A. With --by not needed.")
    ] = None,
    within: Within = Ratio(0.01),
    by: By = None,
    html: Html = None,
    json_output: Json = False,
) -> None:
    """Compare two runs of the same cells, e.g. on two machines; or by client, version, os, backend, topology or clock.

    PASS: the verdicts are the same and the interval of the ratio lies inside the tolerance. FAIL: outside, or PASS against FAIL.
    With --by: FAIL where B is slower than the tolerance allows. Exit code: that of the worst row.
    """
    if not 0 < within.value < 1:
        raise UsageProblem(f"--within {within} is not a tolerance", remedy="give one between 0 % and 100 %, exclusive")
    if second is None and by is None:
        raise UsageProblem("one run alone has nothing to be compared with", remedy="name a second RUN, or say --by client")
    found = compare_runs(
        RunDir.find(first), RunDir.find(second) if second is not None else None, within, by_key(by) if by else None
    )
    tell_problems(found.problems)
    if html is not None:
        from reports.build import compare_page

        write_text(html, compare_page(found))
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        render_comparison(found, stdout_console())
    raise typer.Exit(found.exit_code)


def compare_runs(a: RunDir, b: RunDir | None, within: Ratio, by: ByKey | None = None) -> Comparison:
    """Compare the cells of the same id in two runs, or those that differ only in `by`, also within one run (`b` is None).

    Where no id is on both sides and each has one client, it is by client. Raises UsageProblem where nothing can be compared.
    """
    one = read_run_folder(a.path)
    other = one if b is None or b.path == a.path else read_run_folder(b.path)
    sides = _side(one), _side(other)
    notes: list[str] = []
    if by is None and not _common(one, other):
        by, notes = _instead(one, other)
    if by is None:
        return _by_id(one, other, sides, within)
    return _by_key(one, other, sides, within, by, notes)


def _by_id(one: StoredRun, other: StoredRun, sides: tuple[RunSide, RunSide], within: Ratio) -> Comparison:
    cells_a, cells_b = ({cell.id: cell for cell in run.cells} for run in (one, other))
    sweeps_a, sweeps_b = ({sweep.id: sweep for sweep in asking(run.answers, "buffer-sizes")} for run in (one, other))
    both = [(cell, cells_b[name]) for name, cell in cells_a.items() if name in cells_b]
    return _comparison(
        one,
        other,
        sides,
        within,
        rows=[
            *(compare_cells(ours, theirs, within.value) for ours, theirs in both),
            *(compare_sweeps(sweep, sweeps_b[name]) for name, sweep in sweeps_a.items() if name in sweeps_b),
        ],
        pairs=both,
        only_in_a=[name for name in (*cells_a, *sweeps_a) if name not in cells_b and name not in sweeps_b],
        only_in_b=[name for name in (*cells_b, *sweeps_b) if name not in cells_a and name not in sweeps_a],
        notes=[NOT_INTERLEAVED, *_other_links(both)],
    )


def _by_key(
    one: StoredRun, other: StoredRun, sides: tuple[RunSide, RunSide], within: Ratio, by: ByKey, notes: Sequence[str]
) -> Comparison:
    matches = match_within(one.cells, by) if one is other else match_cells(one.cells, other.cells, by)
    if not matches:
        raise _nothing_by(one, other, by)
    pairs_run = asking(one.answers, "no-slower") if one is other else []
    together = {frozenset(arm.cell for arm in answer.arms) for answer in pairs_run}

    def interleaved(match: Match) -> bool:
        return frozenset((match.a.id, match.b.id)) in together

    rows = [
        compare_cells(match.a, match.b, within.value, by=by, subject=_called(match, matches), interleaved=interleaved(match))
        for match in matches
    ]
    matched = [{id(cell) for cell in side} for side in ([m.a for m in matches], [m.b for m in matches])]
    if one is other:
        matched = [matched[0] | matched[1]] * 2
    apart = ONE_AFTER_THE_OTHER if one is other else NOT_INTERLEAVED
    pairs = [(match.a, match.b) for match in matches]
    return _comparison(
        one,
        other,
        sides,
        within,
        rows=rows,
        by=by,
        pairs=pairs,
        only_in_a=[cell.id for cell in one.cells if id(cell) not in matched[0]],
        only_in_b=[cell.id for cell in other.cells if id(cell) not in matched[1]] if one is not other else [],
        notes=[
            *notes,
            *([] if by == "clock" else [ONE_SIDED]),
            *([] if all(map(interleaved, matches)) else [apart]),
            *([] if by == "topology" else _other_links(pairs)),
        ],
    )


def _comparison(
    one: StoredRun,
    other: StoredRun,
    sides: tuple[RunSide, RunSide],
    within: Ratio,
    *,
    rows: Sequence[Answer],
    pairs: Sequence[tuple[CellResult, CellResult]],
    only_in_a: list[str],
    only_in_b: list[str],
    notes: Sequence[str],
    by: ByKey | None = None,
) -> Comparison:
    judged = sum(row.p_outside is not None for row in rows)
    corrected = correct_for_many(rows)
    return Comparison(
        lab_version=lab.__version__,
        a=sides[0],
        b=sides[1],
        within=within,
        by=by,
        answers=corrected,
        only_in_a=only_in_a,
        only_in_b=only_in_b,
        differences=_differences(pairs, by),
        notes=[
            *_clocks(pairs),
            *notes,
            *([HOLM.format(judged)] if judged > 1 else []),
            *_costs(pairs, by),
            *_doubts(one, other),
        ],
        problems=[*one.problems, *(other.problems if other is not one else [])],
        exit_code=exit_code(row.judged.name for row in corrected),
    )


def _doubts(one: StoredRun, other: StoredRun) -> list[str]:
    return [f"{name}: {run.doubt}" for name, run in (("A", one), ("B", other)) if run.doubt]


def _clocks(pairs: Sequence[tuple[CellResult, CellResult]]) -> list[str]:
    return [MIXED_CLOCKS] if any(a.clock != b.clock for a, b in pairs) else []


def _costs(pairs: Sequence[tuple[CellResult, CellResult]], by: ByKey | None) -> list[str]:
    """The cost on each side where both hosts' scores were measured. With a key its values name the sides."""
    found = (cost_note(a, b, (value_of(a, by), value_of(b, by)) if by else ("A", "B")) for a, b in pairs)
    return [note for note in found if note]


def _differences(pairs: Sequence[tuple[CellResult, CellResult]], by: ByKey | None) -> list[Difference]:
    """The circumstances that differ; two clients are one row, not a missing version on each side."""
    sides = [_once([pair[side] for pair in pairs]) for side in (0, 1)]
    if len({cell.client.name for side in sides for cell in side}) == 1 or by not in ("client", "version"):
        return differences(*sides)
    clients = [sorted({client_words(cell.client) for cell in side}) for side in sides]
    others = [row for row in differences(*sides) if [UNRECORDED] not in (row.a, row.b) or ": " not in row.what]
    return [Difference(what="client", a=clients[0], b=clients[1]), *others]


def _side(run: StoredRun) -> RunSide:
    if not run.cells:
        why = f": {run.problems[0]}" if run.problems else ""
        raise UsageProblem(f"{run.path} holds no results{why}", remedy="name a run that finished a cell")
    ended = max(cell.ended_at for cell in run.cells)
    return RunSide(run=run.path.name, path=str(run.path), started_at=run.cells[0].started_at, ended_at=ended, whole=run.whole)


def _common(one: StoredRun, other: StoredRun) -> bool:
    ours, theirs = ({each.id for each in run.everything if each.question in COMPARED} for run in (one, other))
    return bool(ours & theirs)


def _instead(one: StoredRun, other: StoredRun) -> tuple[ByKey, list[str]]:
    """The key to compare by where no cell is in both runs. Raises UsageProblem where it is ambiguous."""
    clients = [sorted({cell.client.name for cell in run.cells}) for run in (one, other)]
    if all(len(names) == 1 for names in clients) and match_cells(one.cells, other.cells, "client"):
        return "client", [f"no cell is in both runs: compared by client, {clients[1][0]} over {clients[0][0]}"]
    meant = next((key for key in BY_KEYS if match_cells(one.cells, other.cells, key)), None)
    remedy = f"--by {meant} compares what they have" if meant else "run the same suite or cells twice"
    raise UsageProblem(f"{one.path.name} and {other.path.name} have no cell in common", remedy=remedy)


def _nothing_by(one: StoredRun, other: StoredRun, by: ByKey) -> UsageProblem:
    values = sorted({value_of(cell, by) for run in (one, other) for cell in run.cells})
    where = f"in {one.path.name}" if one is other else f"in {one.path.name} and {other.path.name}"
    if len(values) == 1:
        return UsageProblem(f"nothing to compare by {by} {where}: every cell has {values[0]}", remedy="compare by another key")
    remedy = "name two runs of the same suite, or another key"
    return UsageProblem(f"no two cells {where} are the same but for the {by} ({', '.join(values[:6])})", remedy=remedy)


def _called(match: Match, matches: Sequence[Match]) -> str:
    """The subject, with both values of the key where more than two occur."""
    values = {(each.a_value, each.b_value) for each in matches}
    return match.subject if len(values) == 1 else f"{match.subject} ({match.a_value}, {match.b_value})"


def _other_links(pairs: Sequence[tuple[CellResult, CellResult]]) -> list[str]:
    """One line for each topology whose link differs between the sides."""
    found = {
        a.topology.name: f"{a.topology.name} is not the same network on both sides, and its cells cannot be compared: "
        f"A {link_words(a.topology)}, B {link_words(b.topology)}"
        for a, b in pairs
        if (a.topology.link, a.topology.congestion_control) != (b.topology.link, b.topology.congestion_control)
    }
    return list(found.values())


def _once(cells: Sequence[CellResult]) -> list[CellResult]:
    return list({id(cell): cell for cell in cells}.values())
