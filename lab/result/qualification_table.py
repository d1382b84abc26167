"""A qualification as text: a line per cell, what is behind those that are no PASS, and one headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.result.bundle import again
from lab.result.models import CellResult
from lab.result.qualification import PairResult, Qualification, QualifiedItem
from lab.result.study import StudyResult
from lab.result.table import NOTHING, judged_words, skipped_lines, verdict_word


def render_qualification(
    qualification: Qualification,
    console: Console,
    *,
    cells: Sequence[CellResult],
    studies: Sequence[StudyResult],
    pairs: Sequence[PairResult],
) -> None:
    """Print the table and the headline; `cells`, `studies` and `pairs` are what the run left behind."""
    results: dict[str, CellResult | StudyResult] = {cell.id: cell for cell in cells}
    results |= {study.id: study for study in studies}
    compared = {pair.id: pair for pair in pairs}
    console.print(_table(qualification, results, compared))
    for item in qualification.items:
        _explain(item, results[item.id], compared.get(item.pair or ""), console)
    names = {f"{qualification.candidate}--{item.name}": item.reason for item in qualification.skipped}
    for line in skipped_lines(names):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(qualification.headline, style="bold"), soft_wrap=True)


def _table(
    qualification: Qualification, results: Mapping[str, CellResult | StudyResult], compared: Mapping[str, PairResult]
) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(f"{qualification.candidate}: cell", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("figure", justify="right")
    if qualification.baseline:
        table.add_column(f"{qualification.baseline}", no_wrap=True)
        table.add_column("ratio of rates\n(interval)", justify="right", no_wrap=True)
        table.add_column("no worse?", no_wrap=True)
    for item in qualification.items:
        words: list[str | Text] = [
            Text(item.id.partition("--")[2]),
            verdict_word(item.verdict),
            _figure(results[item.id]),
        ]
        if qualification.baseline:
            ratio = compared[item.pair].ratio if item.pair else None
            words += [
                verdict_word(item.baseline) if item.baseline else NOTHING,
                f"{ratio.mean:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else NOTHING,
                verdict_word(item.regression) if item.regression else NOTHING,
            ]
        table.add_row(*words)
    return table


def _figure(result: CellResult | StudyResult) -> str:
    interval = result.verdict.interval
    if interval is None:
        return NOTHING
    if isinstance(result, StudyResult):
        return f"{interval.mean:.3f} of the fastest"
    return judged_words(result.expectation, interval)[0]


def _explain(item: QualifiedItem, result: CellResult | StudyResult, pair: PairResult | None, console: Console) -> None:
    """Nothing of a PASS beside a PASS."""
    lines = []
    if item.verdict != "PASS":
        lines.append(f"{result.id}  {item.verdict}: {result.verdict.reason}")
        lines += [f"  {note}" for note in item.notes]
    if pair and pair.verdict and pair.verdict.name != "PASS":
        lines.append(f"{pair.id}  {pair.verdict.name}: {pair.verdict.reason}")
    if item.verdict != "PASS" and isinstance(result, CellResult):
        # A command broken over two lines cannot be copied.
        lines.append(f"  again: {again(result)}")
    for line in lines:
        console.print(Text(line), soft_wrap=True)
