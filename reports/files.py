"""The files made of a run: report.html, junit.xml, summary.md, and bisection.md for a search.

Each is written completely or left as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lab.model.answer import asking
from lab.model.errors import RoughwaterError
from lab.model.files import write_text
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from reports.no_verdict import NoVerdict

PAGE = "report.html"
JUNIT = "junit.xml"
SUMMARY = "summary.md"
BISECTION = "bisection.md"


def write_page(run: StoredRun, path: Path) -> Path:
    """The page of a run. Raises LabFault as `write_text`."""
    # Importing Jinja takes 50 ms.
    from reports.build import run_page

    return write_text(path, run_page(run))


def write_junit(run: StoredRun, path: Path, no_verdict: NoVerdict = "usual") -> Path:
    """Raises as `write_text`."""
    from reports.junit import junit_xml

    return write_text(path, junit_xml(run, no_verdict))


def write_summary(run: StoredRun, path: Path) -> Path:
    """Raises as `write_text`."""
    from reports.markdown import markdown_summary

    return write_text(path, markdown_summary(run))


def write_all(folder: Path, no_verdict: NoVerdict = "usual") -> Sequence[Path]:
    """Make all of them from the run's folder. Raises LabFault for the first that cannot be made."""
    run = read_run_folder(folder)
    made = [write_page(run, folder / PAGE), write_junit(run, folder / JUNIT, no_verdict), write_summary(run, folder / SUMMARY)]
    if searches := asking(run.answers, "bisection"):
        from reports.bisection import bisection_markdown

        made.append(write_text(folder / BISECTION, bisection_markdown(searches)))
    return made


def make_reports(run: RunDir, no_verdict: NoVerdict = "usual") -> None:
    """After a run: its page, junit.xml and summary.md next to its results, and one line on stderr that says where, or why not.

    Whatever fails, the verdicts stand and so does their exit code: nothing is raised. `lab report RUN` makes them again.
    """
    try:
        page, *_ = write_all(run.path, no_verdict)
    except Exception as problem:
        why = str(problem) if isinstance(problem, RoughwaterError) else f"{type(problem).__name__}: {problem}"
        line = " ".join(why.split())
        kept = "the results are complete" if _is_whole(run) else "the results so far are kept"
        print(f"lab: no report: {line} ({kept}; lab report {run.name} makes it)", file=sys.stderr)
    else:
        print(f"report: {page}", file=sys.stderr)


def _is_whole(run: RunDir) -> bool:
    try:
        return read_run_folder(run.path).whole
    except (RoughwaterError, OSError):
        return False
