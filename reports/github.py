"""A run as GitHub's workflow commands and outputs: annotations on the job, and values for the steps that follow. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lab.model.answer import Answer
from lab.model.results import VerdictName
from lab.store.stored_run import StoredRun
from reports.build import tally

_LEVELS: dict[VerdictName, str] = {"FAIL": "error", "INVALID": "error", "INCONCLUSIVE": "warning"}
MOST_PER_LEVEL = 10
"""GitHub shows no more of one level per step."""


def notices(run: StoredRun) -> list[str]:
    """One line on stdout for each verdict that counts and is not a PASS, the worst first. The summary has those left out."""
    judged = [each for each in run.everything if each.verdict and each.counts and each.id not in run.baselines]
    lines: list[str] = []
    for name, level in _LEVELS.items():
        lines += [_annotation(level, each) for each in judged if each.judged.name == name]
    kept: list[str] = []
    for level in ("error", "warning"):
        kept += [line for line in lines if line.startswith(f"::{level} ")][:MOST_PER_LEVEL]
    return kept


def outputs(run: StoredRun) -> Iterator[tuple[str, str]]:
    """The action's outputs by name. `verdict` is INVALID for a run that was cut off or judged nothing."""
    found = tally(run)
    yield "verdict", (found.name if found.whole else None) or "INVALID"
    for name, count in found.counts.items():
        yield name.lower(), str(count)
    yield "skipped", str(len(run.skipped))
    yield "run", run.path.name
    yield "folder", str(run.path)
    yield "report", str(run.path / "report.html")
    yield "junit", str(run.path / "junit.xml")


def _annotation(level: str, each: Answer) -> str:
    title = _escaped(f"{each.judged.name} {each.id}").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escaped(each.judged.reason)}"


def _escaped(text: str) -> str:
    """Escape as GitHub's own toolkit does: a line of a result cannot become a command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
