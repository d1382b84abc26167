"""Answers, qualifications and comparisons as text for a terminal or a mail; colour is never the only sign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lab.model.answer import Answer, answer_of
from lab.model.clock import clock_words
from lab.model.comparison import Comparison
from lab.model.results import CellResult, VerdictName, count_line
from lab.store.bundle import again
from reports.answers import Block, Entry, Grid, Known, sections
from reports.matrix import client_words

_STYLES: dict[VerdictName, str] = {
    "PASS": "bold green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "INVALID": "bold magenta",
}


def verdict_word(name: VerdictName) -> Text:
    return Text(name, style=_STYLES[name])


def print_line(console: Console, *parts: str | Text, bold: bool = False) -> None:
    """A line that is not wrapped: a path, an id or a command broken over two lines cannot be copied."""
    console.print(Text.assemble(*parts, style="bold" if bold else ""), soft_wrap=True)


def render_answers(answers: Sequence[Answer], console: Console, known: Known | None = None) -> None:
    """Print the answers by kind of question; `known` has the cells and answers that a qualification refers to."""
    for section in sections(answers, known):
        for block in section.blocks:
            if section.shown.together:
                _print_tables(block, console)
            else:
                _print_block(block, console)


def render_comparison(found: Comparison, console: Console) -> None:
    """Print the runs, their differences, the arms of each answer, the reasons of those that do not PASS, and the counts."""
    for name, side in (("A", found.a), ("B", found.b)):
        state = "" if side.whole else " (not complete: it goes on, or it was cut off)"
        print_line(console, f"{name}: {side.path}{state}")
    console.print()
    if found.differences:
        rows = [
            [Entry(row.what), *(Entry("\n".join(side), number=False) for side in (row.a, row.b))] for row in found.differences
        ]
        console.print(draw(Grid(["differs", "A", "B"], rows)))
    else:
        console.print("circumstances: backend, router, clients, lab and machine are the same")
    console.print()
    render_answers(found.answers, console)
    for name, ids in (("A", found.only_in_a), ("B", found.only_in_b)):
        for each in ids:
            print_line(console, f"only in {name}: {each}")
    for note in found.notes:
        console.print(Text(f"note: {note}"))
    alone = f"{len(found.only_in_a)} only in A, {len(found.only_in_b)} only in B"
    print_line(console, f"within {found.within}: {count_line(found.verdicts)}; {alone}")


def render_qualification(
    qualification: Answer, console: Console, *, cells: Sequence[CellResult], answers: Iterable[Answer]
) -> None:
    """Print a row per line of the set, what is behind those that do not PASS, and the headline."""
    of_cells = {cell.id: cell for cell in cells}
    known = {answer.id: answer for answer in (*map(answer_of, cells), *answers)}
    (section,) = sections([qualification], known)
    for grid in section.blocks[0].grids:
        rows = [row for row in grid.rows if row[0].cell]
        console.print(draw(Grid(grid.headings, rows)))
    for part in qualification.parts:
        loud = part.verdict != "PASS" if part.promise_counts else bool(part.notes)
        if part.promise_counts and loud:
            _explain(known[part.id], console)
        elif loud:
            print_line(console, part.id)
        for note in part.notes if loud else ():
            print_line(console, f"  {note}")
        if part.promise_counts and part.comparison and part.regression not in (None, "PASS"):
            _explain(known[part.comparison], console)
        if "FAIL" in part.verdicts and part.id in of_cells and not part.promise_counts:
            print_line(console, f"  again: {again(of_cells[part.id])}")
        if part.promise_counts and part.verdict != "PASS" and part.id in of_cells:
            print_line(console, f"  again: {again(of_cells[part.id])}")
    candidate = qualification.arm("candidate").value
    for line in skipped_lines({f"{candidate}--{name}": reason for name, reason in qualification.skipped.items()}):
        print_line(console, line)
    for warning in qualification.judged.warnings:
        print_line(console, f"note: {warning}")
    print_line(console, qualification.judged.reason, bold=True)


def skipped_lines(skipped: Mapping[str, str]) -> list[str]:
    """The number of cells and answers that were not run, by client and reason; their ids are in run.json."""
    if not skipped:
        return []
    counts = Counter((name.partition("--")[0], reason) for name, reason in skipped.items())
    return [
        f"{len(skipped)} skipped:",
        *(f"  {count} of {client}: {reason}" for (client, reason), count in counts.items()),
    ]


def draw(grid: Grid) -> Table:
    """The grid as a text table without rules."""
    table = Table(box=None, pad_edge=False)
    for column, heading in enumerate(grid.headings):
        words = any(row[column].verdict or not row[column].number for row in grid.rows if column < len(row))
        left = column == 0 or words
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left, overflow="fold")
    for row in grid.rows:
        table.add_row(*(verdict_word(entry.verdict) if entry.verdict else Text(entry.text) for entry in row))
    return table


def indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def _explain(answer: Answer, console: Console) -> None:
    print_line(console, f"{answer.id}  {answer.judged.name}: {answer.judged.reason}")


def _print_tables(block: Block, console: Console) -> None:
    """All answers in one table, then what a reader should know of each."""
    for grid in block.grids:
        console.print(draw(grid))
        console.print()
    for answer in block.answers:
        lines: list[str | Text] = []
        if answer.verdict and answer.verdict.name != "PASS":
            lines.append(Text.assemble("  ", verdict_word(answer.verdict.name), f": {answer.verdict.reason}"))
        notes = answer.verdict.notes if answer.verdict else [f"not judged: {answer.not_judged}"]
        lines += [f"  note: {note}" for note in notes]
        if answer.rate_clock == "total":
            lines.append("  clock: the complete time, connection set-up included: the body's is not known of every transfer")
        if lines:
            print_line(console, answer.id, bold=True)
        for line in lines:
            console.print(Text.assemble(line))


def _print_block(block: Block, console: Console) -> None:
    answer = block.answer
    print_line(console, answer.id, bold=True)
    who = [client_words(answer.client)] if answer.client else []
    console.print(Text(", ".join([*who, *map(clock_words, answer.clocks)])))
    for grid in block.grids:
        console.print(indented(draw(grid)))
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, fact in block.facts:
        facts.add_row(Text(name), Text(fact))
    for note in answer.verdict.notes if answer.verdict else ():
        facts.add_row("note", Text(note))
    if answer.verdict:
        facts.add_row("verdict", Text.assemble(verdict_word(answer.verdict.name), f": {answer.verdict.reason}"))
    console.print(indented(facts))
    console.print()
