"""Tables of every command in a pipe or a file: a line per row, complete, however narrow the caller says it is."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest
import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import lab.cli
from lab.cli.main import GROUPS
from lab.cli.output import console_on
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir

MakeCell = Callable[..., CellResult]
LONG = "curl@8.4.0"
ID = f"{LONG}--transatlantic-lossy--http1-get-5MiB-at-1MBps"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(*words: str | Path) -> str:
    app = typer.Typer()

    @app.callback()
    def _root() -> None:
        """So that a single command keeps its name."""

    group = next(name for name, commands in GROUPS.items() if words[0] in commands)
    import_module(f"lab.cli.{group}").register(app)
    done = CliRunner(env={"COLUMNS": "20"}).invoke(app, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.stdout


@pytest.fixture
def runs(results: Path, make_cell: MakeCell, record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunDir]:
    """Two runs with names longer than a line was once wide."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    made = [RunDir.create("a-suite-" + "with-a-name-" * 9, results=results) for _ in range(2)]
    plain = make_cell(cell_id=ID)
    client = plain.client.model_copy(update={"name": LONG, "version": "a version of many words " * 9})
    for run in made:
        run.write_cell(plain.model_copy(update={"client": client}))
        run.write_run(record)
    return made


def test_a_row_of_results_is_a_line(runs: list[RunDir]) -> None:
    first, second = runs
    wanted: list[tuple[Sequence[str | Path], list[list[str]]]] = [
        (["history"], [[run.name, "many words", "dsl-50"] for run in runs]),
        (["history", "--cells"], [[run.name, ID, "PASS"] for run in runs]),
        (["history", "--sql", "SELECT run, cell FROM cells"], [[run.name, ID] for run in runs]),
        (["compare", first.path, second.path], [[ID, "PASS"], ["A: ", str(first.path)]]),
        (["matrix", first.path], [["http1-get-5MiB-at-1MBps", "limit ± 5 %", "PASS", "n=5"]]),
        (["matrix", first.path, "--figure", "rate"], [["http1-get-5MiB-at-1MBps", " to "]]),
        (["trend"], [[ID, "; 2 runs, ", "; 2 runs: a step needs 6"]]),
    ]
    for words, rows in wanted:
        lines = answer(*words).splitlines()
        assert "…" not in "".join(lines), words
        assert all(line == line.rstrip() for line in lines), words
        for row in rows:
            assert any(all(part in line for part in row) for line in lines), (words, row, lines)


@pytest.mark.parametrize(
    ("words", "key", "columns"),
    [
        (["client", "list"], "", ["spec", "source"]),
        (["topologies"], "", ["name", "description"]),
        (["suites"], "", ["name", "question"]),
        (["repro", "--list"], "scenarios", ["name", "what"]),
        (["repro", "--list"], "scenarios", ["name", "symptom", "report"]),
        (["qualify", "--list"], "items", ["name", "why"]),
        (["userland", "list"], "", ["name"]),
    ],
)
def test_a_row_of_a_list_is_a_line(words: list[str], key: str, columns: list[str]) -> None:
    lines = answer(*words).splitlines()
    found = json.loads(answer(*words, "--json"))
    for row in found[key] if key else found:
        assert any(all(str(row[column]) in line for column in columns) for line in lines), row


def test_breaks_titles_and_indents_of_a_table() -> None:
    table = Table("a\nb", "c", title="a title wider than its table", title_justify="left", box=None, pad_edge=False)
    table.add_row("1\n2", Text("3\n4"))
    table.add_row("x" * 500, "[link]")
    out = io.StringIO()
    console_on(out).print(table)
    console_on(out).print(Padding(table, (0, 0, 0, 2), expand=False))
    title, head, row, long, indented, *_ = out.getvalue().splitlines()
    assert title == "a title wider than its table"
    assert head.split() == ["a", "b", "c"]
    assert row.split() == ["1", "2", "3", "4"]
    assert long.startswith("x" * 500)
    assert indented.startswith("  a b")


def test_a_terminal_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "33")
    assert console_on(_Terminal()).width == 33


def test_commands_have_no_other_console() -> None:
    """`stdout_console` and `console_on` decide; a `Console` of a command's own would wrap in a pipe."""
    for path in Path(lab.cli.__path__[0]).glob("*.py"):
        if path.stem == "output":
            continue
        made = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == Console.__name__
        ]
        assert len(made) == (path.stem == "simulate"), f"{path.name}: {made}; simulate's is a progress line on stderr"
