"""A run as Markdown for a comment on a pull request: headline, what did not pass, the rest folded. Pure.

Text of results is put into code spans or escaped, so that a client's name or an error cannot become markup, a mention or a link.
"""

from __future__ import annotations

import html
import re

from lab.model.answer import CELL_QUESTIONS
from lab.model.clock import clocks_words
from lab.model.results import WORST_FIRST, Verdict, VerdictName, count_line
from lab.store.stored_run import StoredRun
from reports.answers import NOTHING, judged_words
from reports.build import tally
from reports.machine import without_places

MOST_CHARACTERS = 65_536
"""GitHub's limit of a comment's body."""
_ROOM_FOR_END = 400
_MOST_REASON = 300
_SIGNS: dict[VerdictName, str] = {"PASS": "●", "FAIL": "✕", "INCONCLUSIVE": "◇", "INVALID": "▲"}
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~@$])")

Row = tuple[VerdictName, str, str]


def markdown_summary(run: StoredRun, *, most: int = MOST_CHARACTERS) -> str:
    """The summary, shorter than `most` characters: rows without room are only counted."""
    found = tally(run)
    word = f"{_sign(found.name)}: " if found.name else ""
    counts = count_line(name for name, count in found.counts.items() for _ in range(count))
    lines = [
        f"## {word}{plain_text(found.headline)}",
        "",
        f"{counts} · run {code_cell(run.path.name)}{_clocks(run)}",
        "",
    ]
    if run.qualification:
        lines += [plain_text(run.qualification.judged.reason), ""]
    if not found.whole:
        lines += [plain_text(f"Not complete: {found.state}. Shown is as much as the run has so far."), ""]
    rows = _rows(run)
    loud = [_row(row) for row in rows if row[0] != "PASS"]
    quiet = [_row(row) for row in rows if row[0] == "PASS"]
    extra = [f"| {code_cell(name)} | {plain_text(reason)} |" for name, reason in run.skipped.items()]
    unread = [f"- {plain_text(problem)}" for problem in run.problems]
    head = ["| verdict | what | figure |", "|---|---|---|"]
    room = most - _ROOM_FOR_END - len("\n".join(lines))
    lines, room = _add(lines, room, head, loud, "")
    lines, room = _add(lines, room, [], unread, "Files that could not be read")
    lines, room = _add(lines, room, head, quiet, f"{len(quiet)} PASS")
    lines, room = _add(lines, room, ["| skipped | why |", "|---|---|"], extra, f"{len(extra)} skipped")
    return without_places("\n".join(lines).rstrip() + "\n")


def _add(lines: list[str], room: int, head: list[str], rows: list[str], fold: str) -> tuple[list[str], int]:
    """Add as many `rows` as there is room for, under `head`; folded under the title `fold` where there is one."""
    if not rows:
        return lines, room
    before = [f"<details><summary>{fold}</summary>", "", *head] if fold else head
    after = ["", "</details>", ""] if fold else [""]
    room -= sum(len(line) + 1 for line in (*before, *after)) + 80
    kept: list[str] = []
    for row in rows:
        if room < len(row) + 1:
            break
        room -= len(row) + 1
        kept.append(row)
    more = ["", f"… and {len(rows) - len(kept)} more, see the report."] if len(kept) < len(rows) else []
    return [*lines, *before, *kept, *more, *after], room


def _rows(run: StoredRun) -> list[Row]:
    baselines, mixed = run.baselines, len(run.clocks) > 1
    rows: list[Row] = []
    for answer in run.everything:
        verdict = answer.verdict
        if verdict is None or not answer.counts:
            continue
        words = _reason(verdict)
        if verdict.name == "PASS" and answer.expectation and answer.question in CELL_QUESTIONS:
            words = " (".join(judged_words(answer.expectation, verdict.interval)) + ")" if verdict.interval else NOTHING
        marks = [baselines[answer.id]] if answer.id in baselines else []
        marks += [clocks_words(answer.clocks)] if mixed else []
        rows.append((verdict.name, f"{answer.id} ({', '.join(marks)})" if marks else answer.id, words))
    return sorted(rows, key=lambda row: WORST_FIRST.index(row[0]))


def _clocks(run: StoredRun) -> str:
    return f" · {clocks_words(found)}" if (found := run.clocks) else ""


def _reason(verdict: Verdict) -> str:
    text = verdict.reason
    return text if len(text) <= _MOST_REASON else f"{text[:_MOST_REASON]} …"


def _row(row: Row) -> str:
    name, what, figure = row
    return f"| {_sign(name)} | {code_cell(what)} | {plain_text(figure)} |"


def _sign(name: VerdictName) -> str:
    return f"{_SIGNS[name]} **{name}**"


def code_cell(text: str) -> str:
    """HTML's code element, because backticks cannot hold a pipe in a table."""
    return f"<code>{plain_text(text)}</code>"


def plain_text(text: str) -> str:
    """One line without markup; entities break mentions."""
    line = html.escape(" ".join(text.split()))
    return _MARKUP.sub(lambda found: f"&#{ord(found[1])};", line.replace("&#x27;", "'"))
