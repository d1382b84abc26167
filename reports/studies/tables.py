"""Tables of a study's cells and answers, as Markdown. Every figure is printed as elsewhere in the lab."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from lab.model.answer import Answer, answer_of
from lab.model.results import CellResult, count_line
from lab.store.stored_run import StoredRun
from reports.answers import Entry, Known, figure_words
from reports.answers import sections as answer_sections
from reports.matrix import client_words, link_words, make_matrix
from reports.matrix_table import escaped, head_lines, sections, table_markdown
from reports.studies.data import Cell, Data, by_row, figure_of
from reports.totals import totals_of

BEGIN, END = "<!-- generated from the data -->", "<!-- end -->"


def table(headings: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Any table."""
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    return made(table_markdown([str(heading) for heading in headings], texts))


def made(text: str) -> str:
    """Marks text that comes from the data, so that the rules of prose leave it alone."""
    return f"{BEGIN}\n{text.strip()}\n{END}"


def origin(data: Data) -> str:
    """The origin of the figures: run, date, revision, command, clock, machine, router, links, calibration, clients."""
    rows: list[str] = []
    for run in data.runs:
        record = run.record
        if record is None:
            continue
        began, ended = record.started_at, record.ended_at
        end = f"{ended:%H:%M}" if began.date() == ended.date() else f"{ended:%Y-%m-%d %H:%M}"
        revision = f"revision {record.git_revision[:12]}" if record.git_revision else "no revision recorded"
        rows.append(f"run: {run.path.name}, {began:%Y-%m-%d %H:%M} to {end} UTC, {revision}{_changed(run)}, by {_command(run)}")
    rows += [f"machine: {words}" for words in dict.fromkeys(_machine_words(run) for run in data.runs) if words]
    found = make_matrix(data.runs)
    kept = [(name, words) for name, words in head_lines(found) if name not in ("run", "time")] if found.runs else []
    clocks = " and ".join(dict.fromkeys(clock for run in data.runs for clock in run.clocks))
    rows.insert(len([run for run in data.runs if run.record]), f"clock: {clocks}")
    rows += [f"{name}: {words}" for name, words in kept] or _of_answers(data)
    return made("\n".join(f"- {escaped(row)}" for row in rows))


def verdicts(cells: Sequence[Cell], *, transpose: bool = False) -> str:
    """A row per link and transfer, a column per client: verdict, mean and interval. `transpose` swaps rows and columns."""
    return _matrix(cells, (), 0, transpose)


def figures(cells: Sequence[Cell], name: str, *, transpose: bool = False) -> str:
    """The same of one figure: mean (least to greatest) over the successful transfers."""
    figure_of(name)
    return _matrix(cells, (name,), 1, transpose)


def sweeps(data: Data) -> str:
    """The answers on buffer sizes: a table per link and transfer, a row per size, a column per client."""
    found = make_matrix(data.runs)
    parts = []
    for section in sections(found)[(1 if found.rows else 0) :]:
        notes = "\n".join(f"- {escaped(note)}" for note in section.notes)
        parts += [f"**{escaped(section.title)}**", table_markdown(section.headings, section.rows), *([notes] if notes else [])]
    return made("\n\n".join(parts))


def samples(cell: Cell, *names: str) -> str:
    """A row per transfer of one cell with these figures."""
    chosen = [figure_of(name) for name in names]
    rows = []
    for sample in cell.samples:
        values = [figure.value(cell.result, sample) for figure in chosen]
        texts = ["-" if value is None else figure.number(value) for figure, value in zip(chosen, values, strict=True)]
        rows.append([str(sample.index + 1), *texts, "" if sample.ok else sample.problem or f"exit code {sample.exit_code}"])
    return made(table_markdown(["#", *(figure.heading for figure in chosen), ""], rows))


def totals(cells: Sequence[Cell]) -> str:
    """Every transfer by its complete time, a line each, as the mail of December 2023 printed them."""
    found = "\n\n".join(map(str, totals_of(cell.result for cell in cells)))
    return "\n".join(f"    {line}" if line else "" for line in found.splitlines())


def answers(data: Data, found: Sequence[Answer]) -> str:
    """The answers as `lab report` shows them: a table each, or one for all of a kind; then verdict and reason."""
    known: Known = {each.id: each for each in (*_of_cells(data), *data.answers())}
    parts: list[str] = []
    for section in answer_sections(found, known):
        for block in section.blocks:
            if not section.shown.together:
                parts.append(f"**{escaped(block.answer.id)}**")
            for grid in block.grids:
                parts.append(table_markdown(grid.headings, [[_text(entry) for entry in row] for row in grid.rows]))
            facts = [f"- {escaped(name)}: {escaped(fact)}" for name, fact in block.facts]
            for each in block.answers:
                name = f"{each.id}: " if section.shown.together else ""
                said = f"{each.verdict.name}: {each.verdict.reason}" if each.verdict else f"not judged: {each.not_judged}"
                facts.append(f"- {escaped(name + said)}")
            parts.append("\n".join(facts))
    return made("\n\n".join(parts))


def count(cells: Iterable[Cell], found: Iterable[Answer] = ()) -> str:
    """`3 PASS, 0 FAIL, 1 INCONCLUSIVE, 0 INVALID`."""
    return count_line([cell.result.verdict.name for cell in cells] + [each.verdict.name for each in found if each.verdict])


def steps(found: Iterable[Answer]) -> str:
    """The steps of a search, or the rows of a reproduction, in their order: id, client, verdict, figure."""
    rows = [
        [str(at), each.id, each.verdict.name if each.verdict else "not judged", figure_words(each)]
        for at, each in enumerate(found, 1)
    ]
    return made(table_markdown(["#", "what", "verdict", "figure"], rows))


# ---------------------------------------------------------------------------------------------------------------------


def _matrix(cells: Sequence[Cell], names: Sequence[str], number: int, transpose: bool) -> str:
    found = make_matrix(_as_runs(cells), names)
    section = sections(found)[number]
    headings, rows = [*section.headings], [[*row] for row in section.rows]
    if transpose:
        clients = headings[3:]
        named = [f"{row[0]}, {row[1]}" for row in rows]
        headings, rows = (
            ["client", *named],
            [[client, *(row[3 + at] for row in rows)] for at, client in enumerate(clients)],
        )
    notes = "\n".join(f"- {escaped(note)}" for note in section.notes)
    return made("\n\n".join([table_markdown(headings, rows), *([notes] if notes else [])]))


def _as_runs(cells: Sequence[Cell]) -> list[StoredRun]:
    """The cells as runs that hold nothing else, because a matrix is made of runs."""
    runs: dict[str, list[CellResult]] = {}
    for cell in cells:
        runs.setdefault(cell.result.run, []).append(cell.result)
    return [StoredRun(Path(name), own) for name, own in runs.items()]


def _of_cells(data: Data) -> list[Answer]:
    return [answer_of(cell) for run in data.runs for cell in run.cells]


def _text(entry: Entry) -> str:
    return entry.verdict or entry.text


def _command(run: StoredRun) -> str:
    """The command line as it was given, the program without its path."""
    program, *words = run.record.command if run.record and run.record.command else ["an unknown command"]
    return f"`{shlex.join([PurePath(program).name, *words])}`"


def _of_answers(data: Data) -> list[str]:
    """Clients and links where a run has answers alone."""
    found = [each for run in data.runs for each in run.answers]
    clients = {each.client.name: client_words(each.client) for each in found if each.client}
    links = {each.topology.name: link_words(each.topology) for each in found if each.topology}
    rows = [f"backend: {name}" for name in dict.fromkeys(each.backend for each in found if each.backend)]
    rows += [f"link: {name}: {words}" for name, words in links.items()]
    return rows + [f"client {name}: {words}" for name, words in clients.items()]


def _machine(run: StoredRun) -> Mapping[str, object]:
    if run.cells:
        return run.cells[0].before.machine
    return next((each.machine for each in run.answers if each.machine), {})


def _machine_words(run: StoredRun) -> str:
    facts = _machine(run)
    words = [str(facts["cpu_model"])] if facts.get("cpu_model") else []
    words += [f"{facts['cores']} cores"] if facts.get("cores") else []
    words += [f"Linux {facts['kernel']}"] if facts.get("kernel") else []
    return ", ".join(words)


def _changed(run: StoredRun) -> str:
    return " with uncommitted changes" if _machine(run).get("git_dirty") else ""


def rows_of(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells by link and transfer."""
    return by_row(cells)
