"""`ROUGHWATER_TEST_FERRY=wine`: what it needs is one line, what it leaves out exists, and nothing outlives the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from lab.assets import windows, wine
from tests.engine import under_wine
from tests.engine.sftp_servers import person
from tests.support.waiting import until

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


def _pytest(value: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if name != under_wine.VARIABLE}
    if value is not None:
        environment[under_wine.VARIABLE] = value
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", *words]
    return subprocess.run(command, env=environment, cwd=_ROOT, capture_output=True, text=True, check=False)


def test_an_unknown_value_is_one_line_and_no_test() -> None:
    done = _pytest("wien", str(_HERE))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = (done.stdout + done.stderr).split("\n\n")[0].splitlines()
    assert line == f"ERROR: {under_wine.VARIABLE} is 'wien': leave it unset or set {under_wine.VARIABLE}=wine"


@pytest.mark.parametrize(
    ("program", "loader", "says"),
    [
        (None, Path("wine64"), "there is no ferry.exe: make ferry-windows"),
        (Path("ferry.exe"), None, f"Wine is not installed: {wine.remedy()}"),
        (Path("ferry.exe"), Path("wine64"), ""),
    ],
    ids=["no-ferry.exe", "no-wine", "both"],
)
def test_what_is_lacking(monkeypatch: pytest.MonkeyPatch, program: Path | None, loader: Path | None, says: str) -> None:
    monkeypatch.setattr(windows, "find", lambda: program)
    monkeypatch.setattr(wine, "find_program", lambda: loader and (loader, loader))
    monkeypatch.setenv(under_wine.VARIABLE, "wine")
    assert under_wine.problem() == (says and f"{under_wine.VARIABLE}=wine: {says}")
    if says:
        with pytest.raises(pytest.UsageError, match=says.split(":", maxsplit=1)[0]):
            under_wine.require()
    monkeypatch.delenv(under_wine.VARIABLE)
    assert under_wine.problem() == ""


def test_what_is_left_out_exists() -> None:
    """A row that no test answers to is a test that was renamed, and runs again where it means nothing."""
    collected = {line.removeprefix("tests/engine/") for line in _pytest(None, str(_HERE)).stdout.splitlines() if "::" in line}
    assert collected
    assert [
        pattern for pattern in under_wine.SKIPPED if not any(fnmatchcase(name, under_wine.literal(pattern)) for name in collected)
    ] == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which the user `person` may write."""
    with tempfile.TemporaryDirectory(prefix="roughwater-wine-") as name:
        Path(name).chmod(0o755)
        person().owns(Path(name))
        yield Path(name)
        # wineserver's own folder in /tmp is not this one; a killed session leaves both.
        for prefix in Path(name).glob("wine/prefix-*"):
            wine.end(wine.ensure(print), prefix)


SESSION = """\
import sys, time
from pathlib import Path
from tests.engine import under_wine
with under_wine.program(Path(sys.argv[1]) / "wine") as stand_in:
    print(stand_in, flush=True)
    if sys.argv[2] == "killed":
        time.sleep(60)
"""


def _servers(folder: Path) -> list[str]:
    """Processes of Wine's that have a prefix in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"WINEPREFIX={folder}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text(errors="replace").replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("end", ["ended", "killed"])
def test_wine_ends_with_the_tests(open_folder: Path, end: str) -> None:
    if windows.find() is None:
        pytest.skip("no ferry.exe: make ferry-windows builds it")
    if wine.find_program() is None:
        pytest.skip(f"no Wine: {wine.remedy()}")
    command = [sys.executable, "-c", SESSION, str(open_folder), end]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as session:
        assert session.stdout
        assert session.stdout.readline().strip() == str(open_folder / "wine" / "ferry")
        if end == "killed":
            assert [name for name in _servers(open_folder) if "wineserver" in name]
            session.send_signal(signal.SIGKILL)
    until(lambda: not _servers(open_folder), "nothing of Wine's runs")
    assert session.returncode == (-signal.SIGKILL if end == "killed" else 0)
