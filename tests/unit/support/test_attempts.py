from __future__ import annotations

import pytest

from tests.support.attempts import RERUNS, Attempt, Final, conclude, is_final, repeat

PASS, FAIL, NOISE = Attempt(passed=True), Attempt(passed=False), Attempt(passed=False, disturbed="hogs")


@pytest.mark.parametrize(
    ("attempts", "outcome", "note"),
    [
        ([PASS], "passed", ""),
        ([Attempt(passed=True, disturbed="hogs")], "passed", ""),
        ([FAIL], "failed", ""),
        ([NOISE, PASS], "passed", "passed on attempt 2, attempt 1 was disturbed: hogs"),
        ([NOISE, NOISE, PASS], "passed", "passed on attempt 3, attempt 1 was disturbed: hogs; attempt 2 was disturbed: hogs"),
        ([NOISE, FAIL], "failed", "failed on attempt 2, which nothing disturbed, attempt 1 was disturbed: hogs"),
        ([NOISE] * 4, "skipped", "no verdict: all 4 attempts failed and were disturbed, the last one: hogs"),
        ([NOISE] * 3, "failed", "failed, and no time was left to run it again: "),
    ],
)
def test_what_attempts_add_up_to(attempts: list[Attempt], outcome: str, note: str) -> None:
    final = conclude(attempts)
    assert (final.outcome, final.note.startswith(note)) == (outcome, True)
    assert bool(final.note) == bool(note)


def test_an_undisturbed_failure_is_never_run_again() -> None:
    assert is_final([FAIL])
    assert repeat(FAIL, pytest.fail) == [FAIL]


def test_a_disturbed_failure_is_run_again_until_something_decides() -> None:
    script = {2: NOISE, 3: PASS}
    assert repeat(NOISE, script.__getitem__) == [NOISE, NOISE, PASS]
    assert len(repeat(NOISE, lambda _: NOISE)) == 1 + RERUNS


def test_without_time_for_another_attempt_it_fails() -> None:
    attempts = repeat(NOISE, lambda _: None)
    assert attempts == [NOISE]
    assert conclude(attempts) == Final("failed", "failed, and no time was left to run it again: attempt 1 was disturbed: hogs")
