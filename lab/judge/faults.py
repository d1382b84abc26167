"""Check of a client's exit code against the file, after a fault; pure functions of the lab's observations.

Exit code 0 is a promise: the file is where it belongs, with identical bytes. Any other exit code is right as such, because a
script can act on it. A client that does not end says nothing, and that is its own outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lab.model.answer import Observation

Outcome = Literal["intact", "error", "wrong file", "no end"]
DEADLINE_S = 1200.0
"""After its start. Longer than TCP sends again (some 15 minutes) and than any client waits by default (wget: 15 minutes)."""


@dataclass(frozen=True)
class Left:
    """The files at the receiving end after the client's end; `size` is -1 where none has the file's name."""

    size: int
    differ: int = 0
    others: Mapping[str, int] = field(default_factory=dict)

    def problem(self, expected: int) -> str:
        """The fault of the file; empty if its content is the one sent."""
        if self.size < 0:
            return "there is no file"
        if self.size < expected:
            return f"{self.size} of {expected} bytes are there"
        if self.size > expected:
            return f"{self.size} bytes are there instead of {expected}"
        return f"{self.differ} of {expected} bytes differ" if self.differ else ""

    def words(self, expected: int) -> str:
        """The files left behind, in words."""
        problem = self.problem(expected)
        named = "the file" if not problem else problem if self.size < 0 else f"under its name: {problem}"
        if not self.others:
            return named
        return f"{named}; also {', '.join(f'{name} ({size} bytes)' for name, size in sorted(self.others.items())[:4])}"


def outcome(*, exit_code: int, timed_out: bool, content: str) -> Outcome:
    """`content` is the fault of the file; empty if there is none."""
    if timed_out:
        return "no end"
    if exit_code:
        return "error"
    return "wrong file" if content else "intact"


def fault_problem(*, exit_code: int, timed_out: bool, content: str, waited_s: float) -> str:
    """The client's fault; empty for an intact file and for a failure that it reports. `waited_s` is since the fault."""
    found = outcome(exit_code=exit_code, timed_out=timed_out, content=content)
    if found == "no end":
        return f"does not end: still running {waited_s:.0f} s after the fault"
    return f"exits 0 with a wrong file: {content}" if found == "wrong file" else ""


def summary(rows: Sequence[Observation]) -> str:
    """The sentence of a client that passed."""
    intact = [row for row in rows if row.facts["outcome"] == "intact"]
    slowest = max((row.figures["ended_after_s"] for row in rows), default=0.0)
    failed = f", {len(rows) - len(intact)} ended with an error" if len(intact) < len(rows) else ""
    return f"{len(intact)} of {len(rows)} files arrived intact{failed}, at most {slowest:.1f} s after the fault"
