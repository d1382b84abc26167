"""The lab's own errors: who is at fault decides the verdict and the exit code.

`UsageProblem` is bad input (exit 2), `LabFault` the lab's failure to be what it claims (INVALID, exit 4),
`ClientFault` the program under test (FAIL, exit 1; an AssertionError, so that Robot reports a failed test).
Every message is one line: the fault, its place and the remedy.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_USAGE = 2
EXIT_INCONCLUSIVE = 3
EXIT_INVALID = 4

# The codes of an OSError that mean: no room left to write.
DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class RoughwaterError(Exception):
    """Base of the errors that end in one clear line; `remedy` says what the reader can do."""

    exit_code = EXIT_INVALID

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} ({remedy})" if remedy else message)
        self.message = message
        self.remedy = remedy


class UsageProblem(RoughwaterError):
    """Bad input: a typo in YAML; an unknown unit, topology, suite or client; an option out of range."""

    exit_code = EXIT_USAGE


class NotSupported(UsageProblem):
    """A cell that its client cannot run. A suite skips it and goes on."""


class LabFault(RoughwaterError):
    """The lab, not the client, is at fault: the cell is INVALID."""

    exit_code = EXIT_INVALID


class ClientFault(RoughwaterError, AssertionError):
    """The client under test broke its promise: the cell FAILs."""

    exit_code = EXIT_FAIL


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown `word`: `; did you mean 'dsl-50'?`, or nothing where no known word is close."""
    # A module that only a mistake needs.
    from difflib import get_close_matches

    close = get_close_matches(word[:120], list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
