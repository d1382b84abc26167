"""How a client must behave when the network does something to it; pure functions of what was seen of it."""

from __future__ import annotations

from collections.abc import Sequence

from lab.result.finding import FindingRow
from lab.result.models import Verdict

REFUSED_WITHIN_S = 1.0
"""More than the round trip: starting a process costs some 10 ms, Windows' own repetition of a refused SYN about 2 s."""
ENDS_WITHIN_S = 60.0
"""After its connection has gone dead: twice ferry's own default stall timeout (30 s)."""


def refusal_problem(*, exit_code: int, timed_out: bool, wall_s: float, control_s: float, said: bool) -> str:
    """What is wrong with how a client took a refused connection; empty when nothing is.

    `control_s` is how long the refusal took a plain connect() on the same host: the round trip.
    """
    allowed_s = control_s + REFUSED_WITHIN_S
    if timed_out:
        return f"still running {wall_s:.1f} s after the connection was refused"
    if exit_code == 0:
        return "exit code 0 although the connection was refused"
    if wall_s > allowed_s:
        return f"reported the refusal after {wall_s:.2f} s, at most {allowed_s:.2f} s is at once"
    return "" if said else f"exit code {exit_code} without a word on why"


def names_problem(*, exit_code: int, timed_out: bool, queries: Sequence[str], content: str) -> str:
    """What is wrong with how a client fetched from localhost. `content` is what is wrong with what arrived."""
    if timed_out:
        return "still running, and was killed"
    if queries:
        return f"asked the resolver {len(queries)} times: {', '.join(dict.fromkeys(queries))}"
    if exit_code:
        return f"failed with exit code {exit_code}"
    return content


def interruption_problem(*, exit_code: int, timed_out: bool, waited_s: float, content: str, said: bool) -> str:
    """What is wrong with how a client came out of an interruption; a whole file and an error that is told are both right.

    `waited_s` is from the interruption to the client's end, `content` what is wrong with what arrived.
    """
    if timed_out:
        return f"was still running {waited_s:.0f} s after the interruption"
    if exit_code == 0:
        return f"exit code 0, but {content}" if content else ""
    return "" if said else f"exit code {exit_code} without a word on why"


def verdict_on(rows: Sequence[FindingRow], fine: str, faults: Sequence[str] = ()) -> Verdict:
    """INVALID for a fault of the lab, else FAIL for the first row with a problem, else PASS with the sentence `fine`."""
    if faults:
        return Verdict(name="INVALID", reason="; ".join(faults))
    if not rows:
        return Verdict(name="INVALID", reason="nothing was measured")
    wrong = [row for row in rows if row.problem]
    if wrong:
        count = f" ({len(wrong)} of {len(rows)} runs)" if len(rows) > 1 else ""
        return Verdict(name="FAIL", reason=f"{wrong[0].name}: {wrong[0].problem}{count}")
    return Verdict(name="PASS", reason=fine)
