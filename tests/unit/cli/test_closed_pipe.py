"""`lab ... | head -1`: the reader leaves, and every command ends quietly with 141, as a pipe's other writers do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.cli.main import GROUPS
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir

EXIT_PIPE = 141
# One Python for all of them: each command is a fork of it, with pipes that have no reader, and ends as Python does.
FORKS = """\
import json, os, sys, tempfile
from importlib import import_module
from lab.cli.main import GROUPS, main
for name in GROUPS:
    import_module(f"lab.cli.{name}")
import typer.rich_utils
found = []
for words in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    os.close(reading)
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(writing, 1)
            os.dup2(said.fileno() if sys.argv[2] == "stdout" else writing, 2)
            sys.argv = ["lab", *words]
            main()
        os.close(writing)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        found.append([code, said.read().decode()])
print(json.dumps(found))
"""


def ended(commands: Sequence[Sequence[str]], closed: str = "stdout", **more: str) -> list[tuple[int, str]]:
    """Exit code and standard error of each; `closed` is "stdout" or "both", `more` of their environment."""
    # With a pipe there, so that Python takes standard output for what it is in a pipeline.
    done = subprocess.run(
        [sys.executable, "-c", FORKS, json.dumps(commands), closed],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **more},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [(code, said) for code, said in json.loads(done.stdout)]


def test_the_help_of_each_group() -> None:
    """One way prints all help, so one command of each file that has commands is enough."""
    commands = [(), *((names[0],) for names in GROUPS.values())]
    found = ended([[*words, "--help"] for words in commands])
    assert dict(zip(commands, found, strict=True)) == dict.fromkeys(commands, (EXIT_PIPE, ""))


@pytest.fixture
def run(results: Path, make_cell: Callable[..., CellResult], record: RunRecord) -> RunDir:
    for minute in range(2):
        made = RunDir.create("cells", results=results, now=datetime(2026, 11, 22, 10, minute, tzinfo=UTC))
        made.write_cell(make_cell())
        made.write_run(record.model_copy(update={"run": made.name}))
    return made


CELL = "curl--dsl-50--http1-get-5MiB-at-1MBps"
PRINTED = (
    ("--version",),
    ("topologies",),
    ("topologies", "--json"),
    ("matrix", "latest"),
    ("matrix", "latest", "--markdown"),
    ("matrix", "latest", "--json"),
    ("compare", "latest~1", "latest"),
    ("compare", "latest~1", "latest", "--json"),
    ("history",),
    ("history", "--json"),
    ("trend", CELL),
    ("export", "openmetrics", "latest"),
    ("report", "latest", "--markdown", "-"),
    ("results", "validate"),
    ("repro", "--list"),
    ("qualify", "--list"),
    ("qualify", "--list", "--json"),
    ("bundle", CELL),
    ("client", "list"),
    ("schema", "cell"),
    ("status",),
    ("doctor",),
    ("simulate", "--cells", "20"),
)


@pytest.mark.parametrize("closed", ["stdout", "both"])
def test_what_is_printed(run: RunDir, tmp_path: Path, closed: str) -> None:
    """By typer, by Rich, at once and at the end: text of a few lines meets the pipe only when Python writes its buffer."""
    commands = [words if words[0] != "bundle" else (*words, "-o", str(tmp_path / "cell.zip")) for words in PRINTED]
    found = ended(commands, closed, ROUGHWATER_RESULTS=str(run.path.parent))
    assert dict(zip(PRINTED, found, strict=True)) == dict.fromkeys(PRINTED, (EXIT_PIPE, ""))


def test_a_failure_without_a_reader() -> None:
    """The error goes to standard error; if that is closed too, only the exit code is left."""
    wrong = ("matrix", "nowhere")
    ((code, said),) = ended([wrong])
    assert (code, said.count("\n")) == (2, 1), said
    assert ended([wrong], "both") == [(EXIT_PIPE, "")]


def test_a_reader_that_takes_one_line() -> None:
    """The output is larger than a pipe's buffer, so the pipe is closed in the middle and not at the first write."""
    program = (
        "import typer, lab.cli.main as m\n@m.app.command()\ndef much() -> None:\n    for n in range(50_000): typer.echo(n)\n"
    )
    script = f"{program}m.register = lambda words: None\n@m.app.command()\ndef other() -> None: pass\nm.main()\n"
    with subprocess.Popen([sys.executable, "-c", script, "much"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == EXIT_PIPE


@pytest.mark.parametrize("words", [["topologies"], ["--help"], ["history"]])
def test_a_full_disk_is_one_line(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from lab.cli.main import main; main()", *words],
        stdout=Path("/dev/full").open("wb"),  # noqa: SIM115 - the child's
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ROUGHWATER_RESULTS": str(tmp_path)},
    )
    assert done.stderr == "lab: the output cannot be written: No space left on device; free some space\n"
    assert done.returncode == 2
