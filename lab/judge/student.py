"""Quantiles of Student's t at the confidences of the lab's own plans, from student.json.

scipy works them out, and takes a third of a second of processor time to load, more than a small cell takes.
`python -m lab.judge.student` writes the file again after a change of a plan.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from lab.judge.decide import VIRTUAL_PLAN, LookPlan

_FILE = Path(__file__).with_name("student.json")
_DEGREES = range(1, VIRTUAL_PLAN.cap)
_PLANS = (VIRTUAL_PLAN, LookPlan(), LookPlan.single(2))


def quantile(probability: float, degrees: float) -> float:
    """The value below which a Student t variable with `degrees` of freedom lies with `probability`, as scipy's."""
    known = _known().get(repr(float(probability)), [])
    if degrees in range(1, len(known) + 1):
        return known[int(degrees) - 1]
    return by_scipy(probability, degrees)


def by_scipy(probability: float, degrees: float) -> float:
    """The same, never from the file."""
    # This part of scipy loads quicker than `scipy.stats`, which takes most of a second.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def table() -> dict[str, list[float]]:
    """The file's content: the quantiles of one degree of freedom and more, by the probability's repr()."""
    probabilities = {value for plan in _PLANS for value in ((1 + plan.confidence) / 2, 1 - plan.alpha_per_look)}
    return {repr(each): [by_scipy(each, degrees) for degrees in _DEGREES] for each in sorted(probabilities)}


@cache
def _known() -> dict[str, list[float]]:
    found: dict[str, list[float]] = json.loads(_FILE.read_text(encoding="ascii"))
    return found


if __name__ == "__main__":
    _FILE.write_text(json.dumps(table(), indent=1) + "\n", encoding="ascii")
