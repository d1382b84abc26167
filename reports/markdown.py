"""A run as Markdown for a comment on a pull request: headline, what did not pass, the rest folded. Pure.

Text of results is put into code spans or escaped, so that a client's name or an error cannot become markup, a mention or a link.
"""

from __future__ import annotations

import html
import re

from lab.result.meaning import clocks_words
from lab.result.models import Verdict, VerdictName
from lab.result.salvage import Salvaged
from lab.result.table import NOTHING, count_line, judged_words
from lab.spec.clock import clock_words
from reports.build import run_clocks, tally
from reports.cells import SEVERITY

MOST_CHARACTERS = 65_536
"""GitHub's limit of a comment's body."""
_ROOM_FOR_END = 400
_MOST_REASON = 300
_SIGNS: dict[VerdictName, str] = {"PASS": "●", "FAIL": "✕", "INCONCLUSIVE": "◇", "INVALID": "▲"}
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~@$])")

Row = tuple[VerdictName, str, str]


def markdown_summary(run: Salvaged, *, most: int = MOST_CHARACTERS) -> str:
    """The summary, always shorter than `most` characters: rows that have no room are counted instead."""
    found = tally(run)
    word = f"{_sign(found.name)}: " if found.name else ""
    counts = count_line(name for name, count in found.counts.items() for _ in range(count))
    lines = [
        f"## {word}{_plain(found.headline)}",
        "",
        f"{counts} · run {_code(run.path.name)}{_clocks(run)}",
        "",
    ]
    if run.qualification:
        lines += [_plain(run.qualification.headline), ""]
    if not found.whole:
        lines += ["There is no `run.json` that can be read: the run goes on, or it was cut off.", ""]
    rows = _rows(run)
    skipped = run.record.skipped if run.record else {}
    loud = [_row(row) for row in rows if row[0] != "PASS"]
    quiet = [_row(row) for row in rows if row[0] == "PASS"]
    extra = [f"| {_code(name)} | {_plain(reason)} |" for name, reason in skipped.items()]
    unread = [f"- {_plain(problem)}" for problem in run.problems]
    head = ["| verdict | what | figure |", "|---|---|---|"]
    room = most - _ROOM_FOR_END - len("\n".join(lines))
    lines, room = _add(lines, room, head, loud, "")
    lines, room = _add(lines, room, [], unread, "Files that could not be read")
    lines, room = _add(lines, room, head, quiet, f"{len(quiet)} PASS")
    lines, room = _add(lines, room, ["| skipped | why |", "|---|---|"], extra, f"{len(extra)} skipped")
    return "\n".join(lines).rstrip() + "\n"


def _add(lines: list[str], room: int, head: list[str], rows: list[str], fold: str) -> tuple[list[str], int]:
    """With as many `rows` as there is room for, under `head`; folded where there is something to call it."""
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


def _rows(run: Salvaged) -> list[Row]:
    baselines = {pair.baseline.cell for pair in run.pairs} | set(run.record.baselines if run.record else ())
    rows: list[Row] = []
    mixed = len(run_clocks(run)) > 1
    for cell in run.cells:
        interval = cell.verdict.interval
        told = " (".join(judged_words(cell.expectation, interval)) + ")" if interval else NOTHING
        marks = [*(["baseline"] if cell.id in baselines else []), *([clock_words(cell.clock)] if mixed else [])]
        name = f"{cell.id} ({', '.join(marks)})" if marks else cell.id
        rows.append((cell.verdict.name, name, told if cell.verdict.name == "PASS" else _reason(cell.verdict)))
    rows += [(study.verdict.name, study.id, _reason(study.verdict)) for study in run.studies]
    rows += [(finding.verdict.name, finding.id, _reason(finding.verdict)) for finding in run.findings]
    rows += [(pair.verdict.name, pair.id, _reason(pair.verdict)) for pair in run.pairs if pair.verdict]
    return sorted(rows, key=lambda row: SEVERITY.index(row[0]))


def _clocks(run: Salvaged) -> str:
    return f" · {clocks_words(found)}" if (found := run_clocks(run)) else ""


def _reason(verdict: Verdict) -> str:
    text = verdict.reason
    return text if len(text) <= _MOST_REASON else f"{text[:_MOST_REASON]} …"


def _row(row: Row) -> str:
    name, what, figure = row
    return f"| {_sign(name)} | {_code(what)} | {_plain(figure)} |"


def _sign(name: VerdictName) -> str:
    return f"{_SIGNS[name]} **{name}**"


def _code(text: str) -> str:
    """HTML's code, because a span of backticks cannot hold a pipe in a table, nor every run of backticks."""
    return f"<code>{_plain(text)}</code>"


def _plain(text: str) -> str:
    """One line that shows as it is written; a mention is broken by an entity."""
    line = html.escape(" ".join(text.split()))
    return _MARKUP.sub(lambda found: f"&#{ord(found[1])};", line.replace("&#x27;", "'"))
