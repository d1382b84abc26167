"""`lab new`: what it writes is accepted, and the command that it prints ends in PASS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cli.new import STARTS
from tests.support.command import lab, one_line


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))


@pytest.mark.parametrize("kind", STARTS)
def test_what_it_writes_runs_by_the_command_that_it_prints(kind: str) -> None:
    done = lab("new", kind, "first-try.2")
    assert done.returncode == 0, done.stderr
    path, _, command = done.stdout.strip().partition(": try it with ")
    assert Path(path).is_file()
    words = command.split()
    assert words[0] == "lab"
    ran = lab(*words[1:], "--json")
    # A newcomer takes a FAIL of the start for a fault of the start.
    assert ran.returncode == 0, ran.stdout + ran.stderr
    verdicts = json.loads(ran.stdout)["verdicts"]
    assert set(verdicts.values()) == {"PASS"}


def test_a_file_that_is_there_stays_as_it_is() -> None:
    assert lab("new", "topology", "office").returncode == 0
    Path("topologies/office.yaml").write_text("mine")
    done = lab("new", "topology", "office")
    assert done.returncode == 2
    assert "topologies/office.yaml is there already" in one_line(done)
    assert Path("topologies/office.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cell", "x"], "one of client, topology, endpoint, suite, profile"),
        (["client", "../x"], "is not a name"),
        (["suite", "A B"], "is not a name"),
    ],
)
def test_what_cannot_be_begun_is_one_line(words: list[str], said: str) -> None:
    done = lab("new", *words)
    assert done.returncode == 2
    assert said in one_line(done)
    assert list(Path().iterdir()) == []
