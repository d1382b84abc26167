"""How a client may behave when something happens to its connection."""

from __future__ import annotations

from typing import Any

import pytest

from lab.judge.quirks import (
    ENDS_WITHIN_S,
    fallback_problem,
    interruption_problem,
    names_problem,
    refusal_problem,
    silence_problem,
    verdict_on,
)
from lab.model.answer import Observation

REFUSED: dict[str, Any] = {"exit_code": 7, "timed_out": False, "wall_s": 0.05, "control_s": 0.03, "said": True}
ENDED: dict[str, Any] = {"exit_code": 18, "timed_out": False, "waited_s": 31.0, "content": "5 of 8 bytes arrived", "said": True}
SILENT: dict[str, Any] = {"exit_code": 28, "timed_out": False, "wall_s": 5.1, "asked_s": 5, "said": True}
OTHER: dict[str, Any] = {"exit_code": 0, "timed_out": False, "wall_s": 0.25, "both_s": 0.05, "content": ""}
FETCHED: dict[str, Any] = {"exit_code": 0, "timed_out": False, "queries": [], "content": ""}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"wall_s": 1.03}, ""),
        ({"wall_s": 1.04}, "reported the refusal after 1.04 s"),
        ({"wall_s": 1.5, "control_s": 0.6}, ""),
        ({"exit_code": 0}, "exit code 0 although"),
        ({"said": False}, "without a message"),
        ({"timed_out": True, "exit_code": 137, "wall_s": 30.0}, "still running 30.0 s"),
    ],
)
def test_a_refusal_is_reported_at_once(change: dict[str, Any], problem: str) -> None:
    found = refusal_problem(**{**REFUSED, **change})
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"wall_s": 6.1}, "gave up after 6.1 s, at most 6 s"),
        ({"wall_s": 131.0, "asked_s": None}, ""),
        ({"wall_s": 141.0, "asked_s": None}, "gave up after 141.0 s, at most 140 s"),
        ({"timed_out": True, "wall_s": 200.0, "asked_s": None}, "still trying after 200 s"),
        ({"exit_code": 0}, "exit code 0 although no server answered"),
        ({"said": False}, "without a message"),
    ],
)
def test_a_silent_server_is_given_up_in_the_time_that_was_asked(change: dict[str, Any], problem: str) -> None:
    found = silence_problem(**{**SILENT, **change})
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"wall_s": 2.04}, ""),
        ({"wall_s": 2.25}, "took 2.2 s longer than with both addresses"),
        ({"exit_code": 7}, "failed with exit code 7 although the other address serves"),
        ({"timed_out": True, "wall_s": 200.0}, "still trying after 200 s"),
        ({"content": "0 of 8 bytes arrived"}, "0 of 8"),
    ],
)
def test_the_other_address_is_used_in_time(change: dict[str, Any], problem: str) -> None:
    found = fallback_problem(**{**OTHER, **change})
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        (
            {"queries": ["localhost A", "localhost AAAA", "localhost A"]},
            "asked the resolver 3 times: localhost A, localhost AAAA",
        ),
        ({"exit_code": 6}, "exit code 6"),
        ({"content": "0 of 8 bytes arrived"}, "0 of 8"),
        ({"timed_out": True}, "still running"),
    ],
)
def test_localhost_needs_no_query(change: dict[str, Any], problem: str) -> None:
    found = names_problem(**{**FETCHED, **change})
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"exit_code": 0, "content": ""}, ""),
        ({"exit_code": 0}, "exit code 0, but 5 of 8 bytes arrived"),
        ({"said": False}, "without a message"),
        ({"timed_out": True, "exit_code": 137, "waited_s": ENDS_WITHIN_S}, "still running 60 s after"),
        ({"timed_out": True, "exit_code": 0, "content": ""}, "still running"),
    ],
)
def test_an_interruption_ends_with_an_intact_file_or_an_error(change: dict[str, Any], problem: str) -> None:
    found = interruption_problem(**{**ENDED, **change})
    assert problem in found
    assert bool(problem) == bool(found)


def test_the_verdict_names_the_first_row_that_is_wrong_and_a_fault_of_the_lab_goes_first() -> None:
    rows = [
        Observation(name="server"),
        Observation(name="localhost", problem="too late"),
        Observation(name="x", problem="silent"),
    ]
    assert verdict_on(rows[:1], "all is well").reason == "all is well"
    failed = verdict_on(rows, "all is well")
    assert (failed.name, failed.reason) == ("FAIL", "localhost: too late (2 of 3 runs)")
    assert verdict_on(rows, "all is well", ["no route"]).name == "INVALID"
    assert verdict_on([], "all is well").name == "INVALID"
