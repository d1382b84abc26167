"""The files that are made of a run: report.html, junit.xml, summary.md. Each is there whole, or as it was."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabFault
from lab.result.salvage import Salvaged, read_run_folder

PAGE = "report.html"
JUNIT = "junit.xml"
SUMMARY = "summary.md"


def write_text(path: Path, text: str) -> Path:
    """Whole or not at all. Raises LabFault, one line, where it cannot be written."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        why = f"{path}: cannot be written, {error.strerror or error}"
        raise LabFault(why, remedy="free space or name another place") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return path


def write_page(run: Salvaged, path: Path) -> Path:
    """The page of a run. Raises LabFault as `write_text`, and where uPlot is missing."""
    # Jinja costs 50 ms that nobody else should pay.
    from reports.build import run_page

    return write_text(path, run_page(run))


def write_junit(run: Salvaged, path: Path) -> Path:
    """Raises as `write_text`."""
    from reports.junit import junit_xml

    return write_text(path, junit_xml(run))


def write_summary(run: Salvaged, path: Path) -> Path:
    """Raises as `write_text`."""
    from reports.markdown import markdown_summary

    return write_text(path, markdown_summary(run))


def write_all(folder: Path) -> Sequence[Path]:
    """All three, of what is in the run's folder now. Raises LabFault for the first that cannot be made."""
    run = read_run_folder(folder)
    return [write_page(run, folder / PAGE), write_junit(run, folder / JUNIT), write_summary(run, folder / SUMMARY)]
