"""A finding as text: a column per figure, a row per run of the client, and what the rows say in words below. Disposable."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.result.finding import Finding, FindingRow
from lab.result.table import NOTHING, count_line, verdict_word
from lab.spec.clock import clock_words


def render_findings(findings: Iterable[Finding], console: Console) -> None:
    """Print every finding and the count of their verdicts; nothing where there is none."""
    found = list(findings)
    for finding in found:
        console.print(Text(finding.id, style="bold"), soft_wrap=True)
        console.print(Text(f"{finding.client.name} {finding.client.version}, {clock_words(finding.clock)}"))
        console.print(_table(finding.rows))
        for row in finding.rows:
            for name, fact in row.facts.items():
                console.print(Text(f"  {row.name}: {name}: {fact}"))
        console.print(Text.assemble("  ", verdict_word(finding.verdict.name), f": {finding.verdict.reason}"))
        for warning in finding.verdict.warnings:
            console.print(Text(f"  note: {warning}"))
        console.print()
    if found:
        console.print(count_line(finding.verdict.name for finding in found), highlight=False)


def _table(rows: list[FindingRow]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    names = list(dict.fromkeys(name for row in rows for name in row.figures))
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(Text(row.name), *[f"{row.figures[name]:.6g}" if name in row.figures else NOTHING for name in names])
    return table
