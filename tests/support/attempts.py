"""The rule for a real-time test, cell or engine test that fails: when it runs again, and what its attempts add up to. Pure.

A failure that nothing disturbed is final, and so is a pass. A disturbed failure says nothing: it is run again, alone, up to
`RERUNS` times. If every attempt was disturbed there is no verdict: the test is skipped, with the last disturbance as the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

RERUNS = 3


@dataclass(frozen=True)
class Attempt:
    passed: bool
    disturbed: str | None = None
    """What the host watch found; None where the machine was quiet."""


@dataclass(frozen=True)
class Final:
    """The outcome by which a test is counted."""

    outcome: Literal["passed", "failed", "skipped"]
    note: str
    """How it came to that; empty where the first attempt decided."""


def is_final(attempts: Sequence[Attempt]) -> bool:
    last = attempts[-1]
    return last.passed or last.disturbed is None or len(attempts) > RERUNS


def repeat(first: Attempt, again: Callable[[int], Attempt | None]) -> list[Attempt]:
    """All attempts until one decides. `again` gets the attempt's number, from 2, and returns None if no time is left."""
    attempts = [first]
    while not is_final(attempts) and (another := again(len(attempts) + 1)) is not None:
        attempts.append(another)
    return attempts


def conclude(attempts: Sequence[Attempt]) -> Final:
    last = attempts[-1]
    if last.passed:
        return Final("passed", f"passed on attempt {len(attempts)}, {_disturbances(attempts[:-1])}" if len(attempts) > 1 else "")
    if last.disturbed is None:
        note = f"failed on attempt {len(attempts)}, which nothing disturbed, {_disturbances(attempts)}"
        return Final("failed", note if len(attempts) > 1 else "")
    if is_final(attempts):
        return Final(
            "skipped", f"no verdict: all {len(attempts)} attempts failed and were disturbed, the last one: {last.disturbed}"
        )
    return Final("failed", f"failed, and no time was left to run it again: {_disturbances(attempts)}")


def _disturbances(attempts: Sequence[Attempt]) -> str:
    return "; ".join(f"attempt {n} was disturbed: {each.disturbed}" for n, each in enumerate(attempts, 1) if each.disturbed)
