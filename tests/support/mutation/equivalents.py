"""Mistakes that change nothing that a test could see, each with its reason. A score leaves them out.

A mutation score is the share that tests see of the mistakes that change what the program does (Jia and Harman 2011,
IEEE Transactions on Software Engineering 37, 649). Only a mistake that no test saw is looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_STRICT = re.compile(r", strict=(?:True|False)")
GUARD = "`strict` guards lists of equal length: it is an assertion, which changes nothing while it holds"


@dataclass(frozen=True)
class Equivalent:
    """A mistake by its file and its line, as `make mutants-lab` prints it behind `-` and behind `+`."""

    path: str
    before: str
    after: str
    reason: str


EQUIVALENTS = (
    Equivalent(
        "lab/run/why.py",
        'return found if found.cause == "limit" else None',
        'return found if found.cause <= "limit" else None',
        "a diagnosis without slices is `limit` or `not-known`, which comes later in the alphabet",
    ),
    Equivalent(
        "lab/judge/sweep.py",
        "rounds, count = len(logs[0]), len(logs)",
        "rounds, count = len(logs[ -1]), len(logs)",
        "all arms have as many rounds",
    ),
)


def why(path: str, before: str, after: str, known: Sequence[Equivalent] = EQUIVALENTS) -> str | None:
    """The reason why a change of a line cannot be seen; None where it can."""
    if before != after and _STRICT.sub("", before) == _STRICT.sub("", after):
        return GUARD
    change = (path, before, after)
    return next((each.reason for each in known if (each.path, each.before, each.after) == change), None)
