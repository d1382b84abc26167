"""What a client did wrong, word by word, and the last moment at which it was still right."""

from __future__ import annotations

import pytest

from lab.judge.quirks import (
    FALLS_BACK_WITHIN_S,
    GIVES_UP_WITHIN_S,
    REFUSED_WITHIN_S,
    fallback_problem,
    interruption_problem,
    names_problem,
    refusal_problem,
    silence_problem,
    verdict_on,
)
from lab.model.answer import Observation


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize(
    ("exit_code", "timed_out", "wall_s", "problem"),
    [
        (0, True, 30.25, "still running 30.2 s after the connection was refused"),
        (0, False, 0.25, "exit code 0 although the connection was refused"),
        (7, False, REFUSED_WITHIN_S + 0.75, "reported the refusal after 1.75 s, at most 1.50 s counts as immediate"),
        (-7, False, REFUSED_WITHIN_S + 0.75, "reported the refusal after 1.75 s, at most 1.50 s counts as immediate"),
        (1, False, REFUSED_WITHIN_S + 0.5, None),
        (7, False, 0.0, None),
    ],
)
def test_a_refusal(exit_code: int, timed_out: bool, wall_s: float, problem: str | None, said: bool) -> None:
    found = refusal_problem(exit_code=exit_code, timed_out=timed_out, wall_s=wall_s, control_s=0.5, said=said)
    assert found == (problem or ("" if said else f"exit code {exit_code} without a message"))


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize(
    ("exit_code", "timed_out", "wall_s", "asked_s", "problem"),
    [
        (0, True, 200.6, None, "still trying after 201 s"),
        (0, False, 5.0, None, "exit code 0 although no server answered"),
        (28, False, GIVES_UP_WITHIN_S + 0.5, None, "gave up after 140.5 s, at most 140 s were expected"),
        (28, False, 6.25, 5.0, "gave up after 6.2 s, at most 6 s were expected"),
        (28, False, 1.25, 0.0, "gave up after 1.2 s, at most 1 s were expected"),
        (28, False, GIVES_UP_WITHIN_S, None, None),
        (28, False, 6.0, 5.0, None),
        (1, False, 0.0, 5.0, None),
    ],
)
def test_silence(exit_code: int, timed_out: bool, wall_s: float, asked_s: float | None, problem: str | None, said: bool) -> None:
    found = silence_problem(exit_code=exit_code, timed_out=timed_out, wall_s=wall_s, asked_s=asked_s, said=said)
    assert found == (problem or ("" if said else f"exit code {exit_code} without a message"))


@pytest.mark.parametrize("content", ["", "0 of 8 bytes arrived"])
@pytest.mark.parametrize(
    ("exit_code", "timed_out", "wall_s", "problem"),
    [
        (0, True, 200.6, "still trying after 201 s"),
        (7, False, 0.5, "failed with exit code 7 although the other address serves"),
        (0, False, FALLS_BACK_WITHIN_S + 0.75, "took 2.2 s longer than with both addresses, at most 2 s count as a fallback"),
        (0, False, FALLS_BACK_WITHIN_S + 0.5, None),
        (0, False, 0.0, None),
    ],
)
def test_a_fallback(exit_code: int, timed_out: bool, wall_s: float, problem: str | None, content: str) -> None:
    found = fallback_problem(exit_code=exit_code, timed_out=timed_out, wall_s=wall_s, both_s=0.5, content=content)
    assert found == (problem or content)


@pytest.mark.parametrize("content", ["", "0 of 8 bytes arrived"])
@pytest.mark.parametrize(
    ("exit_code", "timed_out", "queries", "problem"),
    [
        (1, True, ["a"], "still running, and was killed"),
        (1, False, ["b", "a", "b"], "asked the resolver 3 times: b, a"),
        (1, False, [], "failed with exit code 1"),
        (0, False, [], None),
    ],
)
def test_names(exit_code: int, timed_out: bool, queries: list[str], problem: str | None, content: str) -> None:
    found = names_problem(exit_code=exit_code, timed_out=timed_out, queries=queries, content=content)
    assert found == (problem or content)


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "content", "said", "problem"),
    [
        (0, True, "", True, "was still running 61 s after the interruption"),
        (0, False, "5 of 8 bytes arrived", True, "exit code 0, but 5 of 8 bytes arrived"),
        (0, False, "", False, ""),
        (1, False, "5 of 8 bytes arrived", True, ""),
        (1, False, "", False, "exit code 1 without a message"),
        (-9, False, "", False, "exit code -9 without a message"),
    ],
)
def test_an_interruption(exit_code: int, timed_out: bool, content: str, said: bool, problem: str) -> None:
    found = interruption_problem(exit_code=exit_code, timed_out=timed_out, waited_s=60.7, content=content, said=said)
    assert found == problem


def test_a_verdict_on_what_was_seen() -> None:
    fine, wrong, other = Observation(name="a"), Observation(name="b", problem="late"), Observation(name="c", problem="silent")

    def told(*rows: Observation, faults: tuple[str, ...] = ()) -> tuple[str, str]:
        found = verdict_on(rows, "all is well", faults)
        return found.name, found.reason

    assert told(fine) == told(fine, fine) == ("PASS", "all is well")
    assert told(wrong) == ("FAIL", "b: late")
    assert told(fine, wrong) == ("FAIL", "b: late (1 of 2 runs)")
    assert told(other, fine, wrong) == ("FAIL", "c: silent (2 of 3 runs)")
    assert told() == ("INVALID", "nothing was measured")
    assert told(wrong, faults=("no route", "no host")) == ("INVALID", "no route; no host")
