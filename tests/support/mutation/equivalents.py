"""Mistakes that change nothing that a test could see, each with its reason. A score leaves them out.

A mutation score is the share that tests see of the mistakes that change what the program does (Jia and Harman 2011,
IEEE Transactions on Software Engineering 37, 649). Only a mistake that no test saw is looked up here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_STRICT = re.compile(r", strict=(?:True|False)")
GUARD = "`strict` guards lists of equal length: it is an assertion, which changes nothing while it holds"


@dataclass(frozen=True)
class Equivalent:
    """A mistake by its file and its change, as `make mutants-lab` prints it: `- before + after`."""

    path: str
    change: str
    reason: str


EQUIVALENTS: tuple[Equivalent, ...] = ()


def why(path: str, before: str, after: str, known: tuple[Equivalent, ...] = EQUIVALENTS) -> str | None:
    """The reason why a change of a line cannot be seen; None where it can."""
    if before != after and _STRICT.sub("", before) == _STRICT.sub("", after):
        return GUARD
    change = f"- {before} + {after}"
    return next((each.reason for each in known if (each.path, each.change) == (path, change)), None)
