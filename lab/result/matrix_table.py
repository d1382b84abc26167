"""A matrix as text: tables for a terminal, Markdown for a page in docs/studies. Derived from its model, and disposable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.judge.figures import asked
from lab.result.matrix_models import Entry, FigureName, Matrix, Row, RunHead, Spread, StudyEntry, StudyRows
from lab.result.meaning import MIXED_CLOCKS
from lab.result.models import VerdictName
from lab.result.table import NOTHING, count_line, judged_words, verdict_word
from lab.spec.clock import NOT_IN_VIRTUAL_TIME, Clock, clock_words
from lab.spec.models import Expectation
from lab.spec.numbers import percent, signed

_VERDICTS: tuple[VerdictName, ...] = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")


@dataclass(frozen=True)
class Section:
    """One table. Where a line of a cell may end on a narrow terminal there is a newline."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class _Shown:
    """How a figure is headed and written: its value times `scale`, in `form`; without one signed, as exactly as it needs."""

    title: str
    form: str
    scale: float = 1.0

    def one(self, value: float) -> str:
        return self.form.format(value * self.scale) if self.form else signed(value * self.scale)


_FIGURES: dict[FigureName, _Shown] = {
    "speed": _Shown("Body rate, MB/s", "{:.3f}", 1e-6),
    "deviation": _Shown("Deviation from the limit, %", "", 100),
    "burst": _Shown("Fastest 100 ms after the first half second, over what the limit allows", "{:.2f}"),
    "silence": _Shown("Longest silence, ms", "{:.0f}"),
    "cpu": _Shown("CPU seconds per second", "{:.3f}"),
    "memory": _Shown("Peak resident set, MB", "{:.1f}", 1e-6),
    "startup": _Shown("Time to the first byte, ms", "{:.1f}", 1000),
    "requests": _Shown("Requests per second", "{:.0f}"),
}
_RATIO = _Shown("", "{:.3f}")


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


def matrix_width(found: Matrix) -> int:
    """Columns in which no line of a table has to be broken."""
    wide = Console(width=10_000)
    return max((wide.measure(_table(section)).maximum for section in sections(found)), default=0)


def matrix_markdown(found: Matrix) -> str:
    """The same for a page: a list of where the figures are from, then a heading and a table each."""
    blocks = ["\n".join(f"- {what}: {_escaped(said)}" for what, said in head_lines(found))]
    for section in sections(found):
        rule = "|" + "---|" * len(section.headings)
        table = [_markdown_row(section.headings), rule, *(_markdown_row(row) for row in section.rows)]
        blocks += [f"### {section.title}", "\n".join(table)]
        if section.notes:
            blocks.append("\n".join(f"- {_escaped(note)}" for note in section.notes))
    blocks.append(_count_line(found))
    return "\n\n".join(blocks) + "\n"


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
    """The verdicts, a table for each figure, and one for each study."""
    made = []
    if found.rows:
        made.append(_section("Verdicts", found, found.rows, _verdict_cell))
        for name in found.figures:
            title = f"{_FIGURES[name].title}: mean (least to greatest)"
            made.append(_section(title, found, found.rows, _figure_cell(name)))
    return made + [_study_section(study, found) for study in found.studies]


def expectation_words(expectation: Expectation) -> str:
    """`limit ± 5 %`, `burst at most 1.5`."""
    if meant := asked(expectation):
        return f"{expectation.kind} {meant}"
    signs = {"limit": "±", "steady": "+"}
    sign = signs.get(expectation.kind)
    return f"{expectation.kind} {sign} {expectation.tolerance}" if sign else "arrives whole"


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


def _columns(clients: Iterable[str], rows: Sequence[Row] | Sequence[StudyRows]) -> list[str]:
    """Those that have something in one of the rows."""
    own = {name for row in rows for name in (*(row.cells if isinstance(row, Row) else row.studies), *row.skipped)}
    return [name for name in clients if name in own]


def _verdict_cell(row: Row, client: str, notes: _Notes) -> str:
    """What a transfer that failed or a lab at fault leaves to say is too long for a cell."""
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
        return f"{entry.mean_byte_s / 1e6:.3f} MB/s\n"
    return ""


def _without(skipped: dict[str, str], client: str, notes: _Notes) -> str:
    """Empty where nobody asked for it."""
    return f"{NOTHING} {notes.mark(skipped[client])}" if client in skipped else ""


def _figure_cell(name: FigureName) -> Callable[[Row, str, _Notes], str]:
    def cell(row: Row, client: str, notes: _Notes) -> str:
        entry = row.cells.get(client)
        if entry is None:
            return _without(row.skipped, client, notes)
        if name in entry.not_in_virtual_time:
            return NOT_IN_VIRTUAL_TIME
        spread = entry.figures.get(name)
        return _spread(spread, _FIGURES[name]) if spread else NOTHING

    return cell


def _spread(spread: Spread, shown: _Shown) -> str:
    return f"{shown.one(spread.mean)}\n({shown.one(spread.least)} to {shown.one(spread.greatest)})"


def _study_section(study: StudyRows, found: Matrix) -> Section:
    notes = _Notes()
    clients = _columns([*study.studies, *study.skipped], [study])
    rows = [[setting, *(_arm_cell(study, client, setting, notes) for client in clients)] for setting in study.settings]
    rows.append(["verdict", *(_study_cell(study, client, notes) for client in clients)])
    varied = study.varied.replace("_", " ")
    title = f"{study.link}, {_called(study.transfer, study.clock, found)}: mean MB/s by {varied}; verdict of slowest / fastest"
    return Section(title, [varied, *clients], rows, notes.lines())


def _arm_cell(study: StudyRows, client: str, setting: str, notes: _Notes) -> str:
    entry = study.studies.get(client)
    if entry is None:
        return _without(study.skipped, client, notes)
    if setting in entry.left_out:
        return f"{NOTHING} {notes.mark(entry.left_out[setting])}"
    mean = entry.mean_byte_s.get(setting)
    return f"{mean / 1e6:.3f}" if mean is not None else NOTHING


def _study_cell(study: StudyRows, client: str, notes: _Notes) -> str:
    entry: StudyEntry | None = study.studies.get(client)
    if entry is None:
        return NOTHING
    if entry.interval is None or entry.verdict == "INVALID":
        return f"{entry.verdict} {notes.mark(entry.reason)}"
    ratio = entry.interval
    return f"{entry.verdict} {_RATIO.one(ratio.mean)}\n({_RATIO.one(ratio.low)} to {_RATIO.one(ratio.high)}), n={ratio.n}"


def _run_words(head: RunHead) -> str:
    began, ended = head.started_at, head.ended_at
    end = f"{ended:%H:%M}" if began.date() == ended.date() else f"{ended:%Y-%m-%d %H:%M}"
    versions = " and ".join(head.lab_versions)
    revision = f", revision {head.git_revision[:12]}" if head.git_revision else ""
    state = "" if head.whole else "; no run.json: it goes on, or it was cut off"
    return f"{head.run}, {began:%Y-%m-%d %H:%M} to {end} UTC, Throughline {versions}{revision}{state}"


def _count_line(found: Matrix) -> str:
    counted = count_line(verdict for verdict, count in found.verdicts.items() for _ in range(count))
    reasons = sum(len(row.skipped) for row in found.rows) + sum(len(study.skipped) for study in found.studies)
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
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    """One line, in which nothing ends a cell or begins a tag."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
