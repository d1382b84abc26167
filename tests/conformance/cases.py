"""The types of a collection and its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """A case by its path in the source; `found` is what ferry did instead of what the case asks for, empty where it passed."""

    case: str
    found: str = ""


@dataclass(frozen=True)
class Excluded:
    """A case that asks for something ferry does not have, by a rule that does not look at what ferry makes of it."""

    rule: str


@dataclass(frozen=True)
class Allowed:
    """What ferry does instead of what a case asks for, where the standard leaves a client that choice or demands it.

    The outcome's `found` begins with `does`; `why` names the section.
    """

    does: str
    why: str


@dataclass(frozen=True)
class Collection:
    """Cases of one source that hold one part of ferry to something."""

    name: str
    source: str
    """Its name in sources.json."""
    holds: str
    run: Callable[[], Iterable[Outcome | Excluded]]
