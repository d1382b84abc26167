"""A client's exit code after a fault, against the file that it left."""

from __future__ import annotations

import pytest

from lab.judge.faults import Left, fault_problem, outcome, summary
from lab.model.answer import Observation

SIZE = 5_242_880


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        (Left(SIZE), ""),
        (Left(-1), "there is no file"),
        (Left(0), "0 of 5242880 bytes are there"),
        (Left(SIZE - 1), "5242879 of 5242880 bytes are there"),
        (Left(SIZE + 9, 4), "5242889 bytes are there instead of 5242880"),
        (Left(SIZE, 3), "3 of 5242880 bytes differ"),
    ],
)
def test_what_is_wrong_with_a_file(left: Left, problem: str) -> None:
    assert left.problem(SIZE) == problem
    found = fault_problem(exit_code=0, timed_out=False, content=problem, waited_s=1.0)
    assert found == (f"exits 0 with a wrong file: {problem}" if problem else "")
    assert outcome(exit_code=0, timed_out=False, content=problem) == ("wrong file" if problem else "intact")


def test_any_other_exit_code_is_right_as_such() -> None:
    for code in (1, 18, 255, -9):
        assert fault_problem(exit_code=code, timed_out=False, content="0 of 9 bytes are there", waited_s=1.0) == ""
        assert outcome(exit_code=code, timed_out=False, content="") == "error"


def test_a_client_that_does_not_end_fails() -> None:
    found = fault_problem(exit_code=-9, timed_out=True, content="", waited_s=1199.4)
    assert found == "does not end: still running 1199 s after the fault"
    assert outcome(exit_code=-9, timed_out=True, content="") == "no end"


def test_what_is_left_behind() -> None:
    assert Left(-1).words(9) == "there is no file"
    assert Left(9).words(9) == "the file"
    assert Left(0).words(9) == "under its name: 0 of 9 bytes are there", "an empty file has the name"
    assert Left(3, others={"x.part": 5}).words(9) == "under its name: 3 of 9 bytes are there; also x.part (5 bytes)"
    five = {f"{letter}.part": 1 for letter in "edcba"}
    named = ", ".join(f"{letter}.part (1 bytes)" for letter in "abcd")
    assert Left(9, others=five).words(9) == f"the file; also {named}", "four of them, by name"


def test_the_sentence_of_a_client_that_passed() -> None:
    rows = [Observation(name="fin", figures={"ended_after_s": each}, facts={"outcome": "intact"}) for each in (1.0, 2.04)]
    assert summary(rows) == "2 of 2 files arrived intact, at most 2.0 s after the fault"
    rows.append(Observation(name="fin", figures={"ended_after_s": 31.0}, facts={"outcome": "error"}))
    assert summary(rows) == "2 of 3 files arrived intact, 1 ended with an error, at most 31.0 s after the fault"
