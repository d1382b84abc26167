"""A matrix as text: tables for a terminal, Markdown for a page in docs/studies. Derived from its model, and disposable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.model.clock import MIXED_CLOCKS, NOT_IN_VIRTUAL_TIME, Clock, clock_words
from lab.model.figures import FIGURES, RATE, Figure
from lab.model.matrix import Entry, Matrix, Row, RunHead, Spread, Sweep
from lab.model.numbers import percent, signed
from lab.model.results import VerdictName, count_line
from lab.model.transfer import Expectation
from reports.answer_text import verdict_word
from reports.answers import NOTHING, judged_words

_VERDICTS: tuple[VerdictName, ...] = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")


@dataclass(frozen=True)
class Section:
    """One table. A newline in a cell marks a place where the line may break on a narrow terminal."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass
class _Notes:
    """Footnotes in the order in which they are first needed, each text once."""

    texts: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"

    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for number, text in enumerate(self.texts, 1)]


def render_matrix(found: Matrix, console: Console) -> None:
    """Print where the figures are from, the tables, and the count of verdicts."""
    for what, said in head_lines(found):
        console.print(Text.assemble((f"{what}: ", "bold"), said), soft_wrap=True)
    for section in sections(found):
        console.print()
        console.print(Text(section.title, style="bold"))
        console.print(_table(section))
        for note in section.notes:
            console.print(Text(note), soft_wrap=True)
    console.print()
    console.print(_count_line(found), highlight=False)


def matrix_markdown(found: Matrix) -> str:
    """The same for a page: a list of the figures' origins, then a heading and a table each."""
    blocks = ["\n".join(f"- {what}: {escaped(said)}" for what, said in head_lines(found))]
    for section in sections(found):
        blocks += [f"### {section.title}", table_markdown(section.headings, section.rows)]
        if section.notes:
            blocks.append("\n".join(f"- {escaped(note)}" for note in section.notes))
    blocks.append(_count_line(found))
    return "\n\n".join(blocks) + "\n"


def table_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any table of texts; what would end a cell or begin a tag is escaped."""
    return "\n".join([_markdown_row(headings), "|" + "---|" * len(headings), *map(_markdown_row, rows)])


def escaped(text: str) -> str:
    """The text as one line, with the characters escaped that end a cell or begin a tag."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def head_lines(found: Matrix) -> list[tuple[str, str]]:
    """Runs, router, links, calibration, clients: what a reader needs to judge the tables."""
    lines = [("run", _run_words(head)) for head in found.runs]
    lines.append(("time", " and ".join(found.clocks)))
    lines += [("backend", text) for text in found.backends] + [("router", text) for text in found.routers]
    lines += [("link", f"{name}: {' and, in another run, '.join(texts)}") for name, texts in found.links.items()]
    if (summary := found.calibration) is not None:
        worst = " and ".join(f"{name} {percent(error)}" for name, error in summary.worst_error.items())
        goodput = f"goodput {worst} of ideal at worst" if worst else "no link with a rate"
        beyond = f"; {summary.beyond_tolerance} beyond tolerance" if summary.beyond_tolerance else ""
        looks = f"{summary.looks} looks, before and after the cells" if summary.looks > 1 else "1 look"
        lines.append(("calibration", f"{looks}: {goodput}; RTT {signed(summary.worst_rtt_excess_ms)} ms{beyond}"))
    lines += [(f"client {name}", " and ".join(versions) or "not run") for name, versions in found.clients.items()]
    mixed = [MIXED_CLOCKS] if len(found.clocks) > 1 else []
    return lines + [("note", note) for note in (*mixed, *found.notes)]


def sections(found: Matrix) -> list[Section]:
    """The verdicts, a table for each figure, and one for each sweep."""
    made = []
    if found.rows:
        made.append(_section("Verdicts", found, found.rows, _verdict_cell))
        for name in found.figures:
            figure = FIGURES[name]
            made.append(_section(f"{figure.heading}: mean (least to greatest)", found, found.rows, _figure_cell(figure)))
    return made + [_sweep_section(sweep, found) for sweep in found.sweeps]


def expectation_words(expectation: Expectation) -> str:
    """`limit ± 5 %`, `burst at most 1.5`."""
    if expectation.bounded:
        return f"{expectation.kind} {expectation.bounded}"
    signs = {"limit": "±", "steady": "+"}
    sign = signs.get(expectation.kind)
    return f"{expectation.kind} {sign} {expectation.tolerance}" if sign else "arrives intact"


# ---------------------------------------------------------------------------------------------------------------------


def _section(title: str, found: Matrix, rows: Sequence[Row], cell: Callable[[Row, str, _Notes], str]) -> Section:
    notes = _Notes()
    clients = _columns(found.clients, rows)
    lines = [
        [
            row.link,
            _called(row.transfer, row.clock, found),
            expectation_words(row.expectation),
            *(cell(row, client, notes) for client in clients),
        ]
        for row in rows
    ]
    return Section(title, ["link", "transfer", "expected", *clients], lines, notes.lines())


def _called(transfer: str, clock: Clock, found: Matrix) -> str:
    """With its clock where the matrix has both."""
    return f"{transfer}, {clock_words(clock)}" if len(found.clocks) > 1 else transfer


def _columns(clients: Iterable[str], rows: Sequence[Row]) -> list[str]:
    """The clients that are in one of the rows."""
    own = {name for row in rows for name in (*row.cells, *row.skipped)}
    return [name for name in clients if name in own]


def _verdict_cell(row: Row, client: str, notes: _Notes) -> str:
    """The verdict. The reason of a failed transfer or of a lab at fault is too long for a cell, so it becomes a footnote."""
    entry = row.cells.get(client)
    if entry is None:
        return _without(row.skipped, client, notes)
    told = entry.verdict == "INVALID" or (entry.interval is None and entry.verdict != "PASS")
    mark = f" {notes.mark(entry.reason)}" if told else ""
    return f"{entry.verdict} {_judged(entry, row.expectation)}n={entry.n}{mark}"


def _judged(entry: Entry, expectation: Expectation) -> str:
    if entry.interval is not None:
        mean, span = judged_words(expectation, entry.interval)
        return f"{mean}\n({span}), "
    if entry.verdict == "PASS" and entry.mean_byte_s is not None:
        return f"{RATE.text(entry.mean_byte_s)}\n"
    return ""


def _without(skipped: dict[str, str], client: str, notes: _Notes) -> str:
    """The footnote on why it was skipped; empty if it was not asked for."""
    return f"{NOTHING} {notes.mark(skipped[client])}" if client in skipped else ""


def _figure_cell(figure: Figure) -> Callable[[Row, str, _Notes], str]:
    def cell(row: Row, client: str, notes: _Notes) -> str:
        entry = row.cells.get(client)
        if entry is None:
            return _without(row.skipped, client, notes)
        if figure.name in entry.not_in_virtual_time:
            return NOT_IN_VIRTUAL_TIME
        spread = entry.figures.get(figure.name)
        return _spread(spread, figure) if spread else NOTHING

    return cell


def _spread(spread: Spread, figure: Figure) -> str:
    return f"{figure.number(spread.mean)}\n({figure.number(spread.least)} to {figure.number(spread.greatest)})"


def _sweep_section(sweep: Sweep, found: Matrix) -> Section:
    notes = _Notes()
    clients = [*sweep.answers, *sweep.skipped]
    settings = dict.fromkeys(
        name for each in sweep.answers.values() for name in (*(arm.name for arm in each.arms), *each.skipped)
    )
    rows = [[setting, *(_arm_cell(sweep, client, setting, notes) for client in clients)] for setting in settings]
    rows.append(["verdict", *(_sweep_cell(sweep, client, notes) for client in clients)])
    title = f"{sweep.link}, {_called(sweep.transfer, sweep.clock, found)}: mean MB/s by buffer size; verdict of slowest / fastest"
    return Section(title, ["buffer size", *clients], rows, notes.lines())


def _arm_cell(sweep: Sweep, client: str, setting: str, notes: _Notes) -> str:
    answer = sweep.answers.get(client)
    if answer is None:
        return _without(sweep.skipped, client, notes)
    if setting in answer.skipped:
        return f"{NOTHING} {notes.mark(answer.skipped[setting])}"
    mean = next((arm.mean_byte_s for arm in answer.arms if arm.name == setting), None)
    return RATE.number(mean) if mean is not None else NOTHING


def _sweep_cell(sweep: Sweep, client: str, notes: _Notes) -> str:
    if (answer := sweep.answers.get(client)) is None:
        return NOTHING
    verdict, ratio = answer.judged, answer.ratio
    if ratio is None or verdict.name == "INVALID":
        return f"{verdict.name} {notes.mark(verdict.reason)}"
    return f"{verdict.name} {ratio.mean:.3f}\n({ratio.low:.3f} to {ratio.high:.3f}), n={ratio.n}"


def _run_words(head: RunHead) -> str:
    began, ended = head.started_at, head.ended_at
    end = f"{ended:%H:%M}" if began.date() == ended.date() else f"{ended:%Y-%m-%d %H:%M}"
    versions = " and ".join(head.lab_versions)
    revision = f", revision {head.git_revision[:12]}" if head.git_revision else ""
    state = "" if head.whole else "; not complete: it goes on, or it was cut off"
    return f"{head.run}, {began:%Y-%m-%d %H:%M} to {end} UTC, Roughwater {versions}{revision}{state}"


def _count_line(found: Matrix) -> str:
    counted = count_line(verdict for verdict, count in found.verdicts.items() for _ in range(count))
    reasons = sum(len(row.skipped) for row in found.rows) + sum(len(sweep.skipped) for sweep in found.sweeps)
    return counted + (f"; {reasons} skipped" if reasons else "")


def _table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in section.headings:
        table.add_column(heading, overflow="fold")
    for row in section.rows:
        table.add_row(*map(_coloured, row))
    return table


def _coloured(text: str) -> Text:
    word, space, rest = text.partition(" ")
    verdict = next((name for name in _VERDICTS if name == word), None)
    return Text.assemble(verdict_word(verdict), space, rest) if verdict else Text(text)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
