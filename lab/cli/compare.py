"""`lab compare`: two runs of the same cells, side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

import lab
from lab.cli.options import Json, quantity
from lab.errors import UsageProblem
from lab.judge.compare import compare_cells, compare_studies, differences
from lab.judge.cost import cost_note
from lab.result.comparison import Comparison, RunSide
from lab.result.comparison_table import render_comparison
from lab.result.models import CellResult
from lab.result.store import RUN_FILE, RunDir, exit_code, read_run
from lab.spec.units import Ratio

NOT_INTERLEAVED = "the two runs were not interleaved: what drifted between them is part of every ratio"

Within = Annotated[
    Ratio,
    typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="How far the ratio of two means may be from 1, e.g. 1%."),
]


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="A: a run's folder, its name below results/, latest, or latest~1.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="B: the ratios are B over A.")],
    within: Within = Ratio(0.01),
    json_output: Json = False,
) -> None:
    """Compare two runs of the same cells, e.g. on two backends or two machines.

    PASS: the verdicts are the same and the interval of the ratio lies inside the tolerance. FAIL: outside, or PASS against FAIL.
    """
    if not 0 < within.value < 1:
        raise UsageProblem(f"--within {within} is no tolerance", remedy="give one between 0 % and 100 %, exclusive")
    found = compare_runs(RunDir.find(first), RunDir.find(second), within)
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        render_comparison(found, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110))
    raise typer.Exit(found.exit_code)


def compare_runs(a: RunDir, b: RunDir, within: Ratio) -> Comparison:
    """Read both and match what they have by id, in A's order. Raises UsageProblem when a file is no result or nothing matches."""
    cells_a, cells_b = ({cell.id: cell for cell in run.read_cells()} for run in (a, b))
    studies_a, studies_b = ({study.id: study for study in run.read_studies()} for run in (a, b))
    side_a, side_b = _side(a, list(cells_a.values())), _side(b, list(cells_b.values()))
    both = [name for name in cells_a if name in cells_b]
    cells = [compare_cells(cells_a[name], cells_b[name], within.value) for name in both]
    studies = [compare_studies(study, studies_b[name]) for name, study in studies_a.items() if name in studies_b]
    if not cells and not studies:
        raise UsageProblem(f"{a.name} and {b.name} have no cell in common", remedy="run the same suite or cells twice")
    return Comparison(
        lab_version=lab.__version__,
        a=side_a,
        b=side_b,
        within=within,
        cells=cells,
        studies=studies,
        only_in_a=[name for name in (*cells_a, *studies_a) if name not in cells_b and name not in studies_b],
        only_in_b=[name for name in (*cells_b, *studies_b) if name not in cells_a and name not in studies_a],
        differences=differences([cells_a[name] for name in both], [cells_b[name] for name in both]),
        notes=[NOT_INTERLEAVED, *filter(None, (cost_note(cells_a[name], cells_b[name]) for name in both))],
        exit_code=exit_code([*(cell.verdict.name for cell in cells), *(study.verdict.name for study in studies)]),
    )


def _side(run: RunDir, cells: Sequence[CellResult]) -> RunSide:
    if not cells:
        raise UsageProblem(f"{run.path} holds no results", remedy="name a run that finished a cell")
    whole = (run.path / RUN_FILE).is_file()
    if whole:
        read_run(run.path)
    ended = max(cell.ended_at for cell in cells)
    return RunSide(run=run.name, path=str(run.path), started_at=cells[0].started_at, ended_at=ended, whole=whole)
