"""A search as Markdown to paste into an issue: the change that was found, the steps, and the command. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.model.answer import Answer
from lab.model.cell_name import format_transfer
from lab.model.clock import clocks_words
from reports.markdown import code_cell, plain_text

_COMMIT = ("subject", "author", "date")


def bisection_markdown(searches: Sequence[Answer]) -> str:
    """The page; text of repositories and clients is escaped, so that it cannot become markup or a mention."""
    return "\n\n".join("\n".join(_lines(answer)) for answer in searches) + "\n"


def _lines(answer: Answer) -> Iterator[str]:
    verdict, facts = answer.judged, answer.facts
    yield f"## {plain_text(verdict.reason)}"
    yield ""
    if "commit" in facts:
        subject, author, date = (plain_text(facts.get(name, "")) for name in _COMMIT)
        yield f"Commit {code_cell(facts['commit'])}: {subject} ({author}, {date})"
        yield ""
        # Indented, so that no file's name can end the block.
        yield from (f"    {line}" for line in facts.get("changed", "").splitlines())
        yield ""
    yield plain_text(facts["result"]) + "."
    yield ""
    yield f"Between {code_cell(facts['good'])} (good) and {code_cell(facts['bad'])} (bad), {facts['candidates']} candidates."
    if answer.topology and answer.transfer:
        what = f"{code_cell(format_transfer(answer.transfer))} over {code_cell(answer.topology.name)}"
        yield f"Every step judges {what}, {clocks_words(answer.clocks)}, lab {plain_text(answer.lab_version)}."
    yield ""
    yield "| step | candidate | verdict | figure | why |"
    yield "|---|---|---|---|---|"
    for arm in answer.arms:
        row = (
            arm.name,
            code_cell(arm.value),
            arm.verdict or "",
            *(plain_text(arm.facts.get(name, "")) for name in ("figure", "why")),
        )
        yield f"| {' | '.join(row)} |"
    if answer.skipped:
        yield ""
        yield "Not judged:"
        yield ""
        yield from (f"- {code_cell(name)}: {plain_text(reason)}" for name, reason in answer.skipped.items())
    if "build" in facts:
        yield ""
        yield f"Built by {code_cell(facts['build'])}."
