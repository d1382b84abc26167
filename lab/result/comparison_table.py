"""A comparison of two runs as text; derived from its model, and disposable. Style and units as in `lab.result.table`."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.result.comparison import CellComparison, CellSide, Comparison, StudyComparison
from lab.result.models import Interval
from lab.result.table import NOTHING, count_line, verdict_word

_UNSHAPED = "not shaped: not judged"


def render_comparison(found: Comparison, console: Console) -> None:
    """Print what the runs are and how they differ, two rows per cell and study, why what is no PASS is none, the counts."""
    for name, side in (("A", found.a), ("B", found.b)):
        state = "" if side.whole else " (no run.json: it goes on, or it was cut off)"
        # A path broken over two lines cannot be copied.
        console.print(Text(f"{name}: {side.path}{state}"), soft_wrap=True)
    console.print()
    console.print(_differences(found))
    console.print()
    if found.cells:
        console.print(_cells(found))
        console.print()
    if found.by is not None and any(row.cost for row in found.cells):
        console.print(_costs(found.cells))
        console.print()
    if found.studies:
        console.print(_studies(found.studies))
        console.print()
    rows: list[CellComparison | StudyComparison] = [*found.cells, *found.studies]
    for row in rows:
        _remarks(row, console)
    for name, ids in (("A", found.only_in_a), ("B", found.only_in_b)):
        for each in ids:
            console.print(Text(f"only in {name}: {each}"), soft_wrap=True)
    for note in found.notes:
        console.print(Text(f"note: {note}"))
    alone = f"{len(found.only_in_a)} only in A, {len(found.only_in_b)} only in B"
    console.print(f"within {found.within}: {count_line(found.verdicts)}; {alone}", highlight=False, soft_wrap=True)


def _differences(found: Comparison) -> Table | Text:
    if not found.differences:
        return Text("circumstances: backend, router, clients, lab and machine are the same")
    table = Table(box=None, pad_edge=False)
    for heading in ("differs", "A", "B"):
        table.add_column(heading, overflow="fold")
    for row in found.differences:
        table.add_row(Text(row.what), Text("\n".join(row.a)), Text("\n".join(row.b)))
    return table


def _cells(found: Comparison) -> Table:
    table = _table("cell" if found.by is None else f"by {found.by}", ("n", "MB/s"), "B / A (interval)")
    for row in found.cells:
        ratio = _ratio(row.verdict.interval)
        unjudged = found.by is None and not row.shaped
        method = f"({row.verdict.method})" if row.verdict.method else ""
        table.add_row(Text(row.id), _letter("A", row.a), *_side(row.a), ratio, verdict_word(row.verdict.name))
        table.add_row("", _letter("B", row.b), *_side(row.b), _UNSHAPED if unjudged else method, "")
    return table


def _costs(rows: Iterable[CellComparison]) -> Table:
    """What it cost the processor, and that times the processor's score, where both sides have one."""
    table = Table(box=None, pad_edge=False)
    table.add_column("cost", overflow="fold")
    for heading in ("", "CPU s/GB", "B / A (interval)", "MB hashed/GB", "B / A"):
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for row in rows:
        work = [side.hashed_mb_per_gb for side in (row.a, row.b)]
        normalised = f"{work[1] / work[0]:.3f}" if work[0] and work[1] else NOTHING
        for name, side, subject, ratios in (
            ("A", row.a, row.id, (_ratio(row.cost, 3), normalised)),
            ("B", row.b, "", ("", "")),
        ):
            seconds, hashed = (_figure(value) for value in (side.cpu_s_per_gb, side.hashed_mb_per_gb))
            table.add_row(Text(subject), _letter(name, side), seconds, ratios[0], hashed, ratios[1])
    return table


def _letter(name: str, side: CellSide) -> Text:
    return Text(f"{name} {side.value}".strip())


def _figure(value: float | None) -> str:
    return f"{value:.3g}" if value is not None and value < 100 else f"{value:.0f}" if value is not None else NOTHING


def _studies(rows: Iterable[StudyComparison]) -> Table:
    table = _table("study", ("rounds",), "slowest / fastest")
    for row in rows:
        for name, side, study, result in (("A", row.a, row.id, verdict_word(row.verdict.name)), ("B", row.b, "", Text())):
            rounds = str(side.ratio.n) if side.ratio else NOTHING
            table.add_row(Text(study), name, verdict_word(side.verdict), rounds, _ratio(side.ratio), result)
    return table


def _table(subject: str, figures: Iterable[str], ratio: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(subject, overflow="fold")
    for heading in ("", "verdict"):
        table.add_column(heading, no_wrap=True)
    for heading in (*figures, ratio):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("agree", no_wrap=True)
    return table


def _side(side: CellSide) -> tuple[Text, str, str]:
    mean = f"{side.mean_byte_s / 1e6:.4f}" if side.mean_byte_s is not None else NOTHING
    return verdict_word(side.verdict), str(side.n), mean


def _ratio(interval: Interval | None, digits: int = 4) -> str:
    return (
        "{0:.{3}f} ({1:.{3}f} to {2:.{3}f})".format(interval.mean, interval.low, interval.high, digits) if interval else NOTHING
    )


def _remarks(row: CellComparison | StudyComparison, console: Console) -> None:
    """Why it is no PASS, and what a reader should know of it in any case."""
    lines = [] if row.verdict.name == "PASS" else [Text.assemble("  ", verdict_word(row.verdict.name), f": {row.verdict.reason}")]
    lines += [Text(f"  note: {warning}") for warning in row.verdict.warnings]
    if isinstance(row, CellComparison) and row.clock == "total":
        lines.append(Text("  clock: the whole time, connection set-up included: nothing tells the body's of every transfer"))
    if lines:
        console.print(Text(row.id, style="bold"), soft_wrap=True)
        for line in lines:
            console.print(line)
