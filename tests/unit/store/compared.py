"""`lab compare` on synthetic runs, for its tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from lab.cli import compare as command
from lab.model.comparison import Comparison
from lab.model.errors import UsageProblem
from lab.model.results import CellResult
from lab.store.run_dir import RunDir

MakeCell = Callable[..., CellResult]
Store = Callable[..., RunDir]
QUIET = (0.001, -0.002, 0.0, 0.002, -0.001)
CELL = "curl--dsl-50--http1-get-5MiB-at-1MBps"
OTHER = "ferry--dsl-20--http1-get-5MiB-at-1MBps"


def lab_compare(*words: str | Path) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def document(*words: str | Path) -> Comparison:
    done = lab_compare(*words, "--json")
    found = Comparison.model_validate_json(done.stdout)
    assert done.exit_code == found.exit_code
    return found


def changed(cell: CellResult, **update: object) -> CellResult:
    return CellResult.model_validate_json(cell.model_copy(update=update).model_dump_json())


def unshaped(cell: CellResult) -> CellResult:
    return changed(cell, topology=cell.topology.model_copy(update={"link": type(cell.topology.link)()}))


def refusal(*words: str | Path) -> str:
    """The one line of a command that shows nothing."""
    done = lab_compare(*words)
    assert isinstance(done.exception, UsageProblem), done.exception
    assert done.stdout == ""
    text = str(done.exception)
    assert len(text.splitlines()) == 1
    return text
