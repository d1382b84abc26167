"""Every reader of a run: its files as the run has left them, and as they are made from it now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from junitparser import JUnitXml

from lab.model.errors import EXIT_PASS, UsageProblem
from lab.store.history.index import open_index
from lab.store.history.query import Filter, list_runs
from lab.store.history.source import open_source
from lab.store.history.trend import make_report
from lab.store.stored_run import StoredRun
from reports.build import run_page, tally
from reports.export import openmetrics
from reports.files import JUNIT, PAGE, SUMMARY
from reports.junit import junit_xml
from reports.markdown import markdown_summary

_NOT_COMPLETE = "This run is not complete"


def green(run: StoredRun) -> Iterator[str]:
    """A line for each reader that takes the run for a complete run, which it is not."""
    if run.record is not None and (run.record.ended == "complete" or run.record.exit_code == EXIT_PASS):
        yield f"run.json says {run.record.ended}, exit code {run.record.exit_code}"
    if tally(run).name not in {None, "INVALID", "FAIL"}:
        yield f"the tally says {tally(run).name}"
    for name, text in (*_texts(run.path, PAGE, run_page(run)), *_texts(run.path, SUMMARY, markdown_summary(run))):
        if _NOT_COMPLETE not in text:
            yield f"{name} does not say that the run is not complete"
    for name, text in _texts(run.path, JUNIT, junit_xml(run)):
        document = JUnitXml.fromstring(text.encode())
        if not document.errors or 'name="whole" value="no"' not in text:
            yield f"{name} has {document.errors} errors, or says that the run is whole"
    labels = f'ended="{(run.record.ended if run.record else None) or ""}",run="{run.path.name}"'
    if f"roughwater_run_complete{{{labels}}} 0.0" not in openmetrics([run]):
        yield "OpenMetrics does not say that the run is not complete"
    yield from _in_history(run)


def _texts(folder: Path, name: str, made: str) -> Iterator[tuple[str, str]]:
    """A file that the run has left, if there is one, and the same made now."""
    if (folder / name).exists():
        yield f"{name} in the folder", (folder / name).read_text()
    yield name, made


def _in_history(run: StoredRun) -> Iterator[str]:
    index = open_index(open_source(str(run.path.parent)))
    try:
        if any(row["whole"] for row in list_runs(index, Filter(), 10)):
            yield "the history takes it for complete"
        try:
            trends = make_report(index, Filter(), "rate", least=0.01).trends
        except UsageProblem:
            return
        if any(point.run == run.path.name for trend in trends for point in trend.points):
            yield "the trend counts it"
    finally:
        index.connection.close()
