"""Tests in steps: a link that changes between transfers and in the middle of one, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.model.answer import Answer
from lab.model.paths import shipped_suites_dir
from lab.store.run_dir import RunDir, read_result
from tests.support.command import lab

EXAMPLE = shipped_suites_dir() / "examples" / "link-change.robot"
HEAD = "*** Settings ***\nLibrary    lab.robot.library.LabLibrary\n*** Test Cases ***\n"
_LONGEST_S = 300


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))


def test_the_example_passes_and_leaves_an_answer_per_test() -> None:
    done = lab("run", str(EXAMPLE), "--json", timeout=_LONGEST_S)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert set(record["verdicts"].values()) == {"PASS"}
    assert len(record["answers"]) == 3
    answer = read_result(RunDir.find(record["run"]).answer_path("a-slower-link-slows-the-next-transfer-down"), Answer)
    assert [seen.problem for seen in answer.observations] == ["", ""]


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        ("${sample} =    Run Transfer    client=ferry    size=1 MB", 2, "no lab is up (begin with Start Lab)"),
        (
            "Start Lab    dsl-50\n    ${sample} =    Run Transfer    client=ferry    size=1 MB    limit=1 MB/s\n"
            "    Throughput Should Be At Least    ${sample}    2 MB/s",
            1,
            "less than 2 MB/s",
        ),
        (
            "Start Lab    dsl-50\n    Interrupt Link    1 s    after=5 s\n    Run Transfer    client=ferry    size=1 MB",
            4,
            "before the link could change",
        ),
    ],
)
def test_a_step_that_fails_says_whose_fault_it_was(tmp_path: Path, steps: str, code: int, said: str) -> None:
    suite = tmp_path / "steps.robot"
    suite.write_text(f"{HEAD}One\n    {steps}\n")
    done = lab("run", str(suite), timeout=_LONGEST_S)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr


def test_a_link_with_a_schedule_is_not_changed_by_hand(tmp_path: Path) -> None:
    network = tmp_path / "alive.yaml"
    network.write_text(
        "name: alive\ndescription: A test.\nlink:\n  rate: 20 Mbit/s\n  rtt: 40 ms\n"
        "schedule:\n  steps:\n    - at: 1 s\n      rate: 5 Mbit/s\n"
    )
    suite = tmp_path / "steps.robot"
    suite.write_text(f"{HEAD}One\n    Start Lab    {network}\n    Change Link    rate=1 Mbit/s\n")
    done = lab("run", str(suite), timeout=_LONGEST_S)
    assert done.returncode == 2, done.stderr
    assert "the schedule of alive changes its link already" in done.stdout + done.stderr
