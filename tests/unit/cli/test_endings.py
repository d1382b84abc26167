"""However a command ends, it ends in one line: a place that takes no file, an output without UTF-8, Ctrl-C at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli import start
from lab.model.paths import project_root
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir
from tests.support.command import lab, one_line
from tests.unit.history.conftest import write_history

CELL = "curl--dsl-50--http1-get-5MiB-at-1MBps"
# Python's own ways round a locale without UTF-8 are off, as a container's administrator may have them.
ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
LATIN = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "latin-1"}


@pytest.fixture
def run(results: Path, make_cell: Callable[..., CellResult], record: RunRecord) -> RunDir:
    write_history(results, runs=2)
    made = RunDir.create("cells", results=results)
    made.write_cell(make_cell())
    made.write_cell(make_cell(problem="cut off", cell_id="curl--dsl-50--http1-get-6MiB-at-1MBps"))
    made.write_run(record)
    return made


@pytest.mark.parametrize("kind", ["client", "topology", "suite", "profile"])
def test_new_where_no_folder_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir("/proc/self")
    done = lab("new", kind, "x")
    assert (done.returncode, one_line(done).count("cannot be written")) == (2, 1), done.stderr


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("export", "openmetrics", "latest", "--output"), "/proc/self/x"),
        (("compare", "latest", "latest", "--html"), "/dev/null/x"),
        (("trend", CELL, "--html"), "missing/x"),
        (("report", "latest", "--output"), "/proc/self/x"),
        (("report", "latest", "--junit"), "/dev/null/x"),
        (("report", "latest", "--markdown"), "missing/x"),
        (("bundle", CELL, "-o"), "/dev/null/x"),
    ],
)
def test_a_place_that_takes_no_file(run: RunDir, words: tuple[str, ...], place: str) -> None:
    done = lab(*words, place, env={"ROUGHWATER_RESULTS": str(run.path.parent)})
    assert done.returncode in (2, 4), done.stderr
    assert place in one_line(done)


@pytest.mark.parametrize(
    ("words", "locale"),
    [
        (("matrix", "latest"), ASCII),
        (("matrix", "latest"), LATIN),
        (("compare", "latest", "latest"), ASCII),
        (("history",), ASCII),
        (("report", "latest", "--markdown", "-"), LATIN),
        (("report", "latest", "--markdown", "-"), ASCII),
        (("trend",), LATIN),
        (("qualify", "--list"), ASCII),
    ],
)
def test_an_output_without_utf_8(run: RunDir, words: tuple[str, ...], locale: dict[str, str]) -> None:
    if not str(project_root()).isascii():
        pytest.skip("Python does not start from a checkout whose path the locale has no characters for")
    env = {**os.environ, **locale, "ROUGHWATER_RESULTS": str(run.path.parent)}
    done = subprocess.run([sys.executable, "-m", "lab.cli.main", *words], capture_output=True, check=False, env=env, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout


def test_a_file_name_with_a_raw_byte(tmp_path: Path) -> None:
    """Its bytes come back as they are, in every locale."""
    command: list[str | bytes] = [sys.executable, "-m", "lab.cli.main", "matrix", os.fsencode(tmp_path) + b"/\xff.yaml"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert b"\xff.yaml" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_interrupt_at_any_moment_of_the_start() -> None:
    """The lab cannot answer while Python itself starts; from the entry point on it does."""
    program = "import sys; from lab.cli.start import main; sys.argv = ['lab', 'topologies']; print(1, flush=True); main()"
    for wait_s in (0.02, 0.05, 0.08, 0.1):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"1\n"
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, b"lab: interrupted\n"), wait_s


def test_an_interrupt_while_commands_are_imported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "lab.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "lab.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "lab: interrupted\n")
