"""The behaviour demanded of a client in events of the network; pure functions of the lab's observations."""

from __future__ import annotations

from collections.abc import Sequence

from lab.model.answer import Observation
from lab.model.results import Verdict

REFUSED_WITHIN_S = 1.0
"""Beyond the round trip. Starting a process takes about 10 ms; Windows repeats a refused SYN, which takes about 2 s."""
GIVES_UP_WITHIN_S = 140.0
"""Without an answer to its SYN and without a time-out of its own: Linux gives up after 127 to 131 s (tcp_syn_retries)."""
FALLS_BACK_WITHIN_S = 2.0
"""To a name's other address: the longest delay between two attempts that RFC 8305 (section 8) recommends."""
ENDS_WITHIN_S = 60.0
"""After its connection has gone dead: twice ferry's own default stall timeout (30 s)."""


def refusal_problem(*, exit_code: int, timed_out: bool, wall_s: float, control_s: float, said: bool) -> str:
    """The client's fault after a refused connection, in words; empty for a client without fault.

    `control_s` is the time that the refusal of a plain connect() takes on the same host: the round trip.
    """
    allowed_s = control_s + REFUSED_WITHIN_S
    if timed_out:
        return f"still running {wall_s:.1f} s after the connection was refused"
    if exit_code == 0:
        return "exit code 0 although the connection was refused"
    if wall_s > allowed_s:
        return f"reported the refusal after {wall_s:.2f} s, at most {allowed_s:.2f} s counts as immediate"
    return "" if said else f"exit code {exit_code} without a message"


def silence_problem(*, exit_code: int, timed_out: bool, wall_s: float, asked_s: float | None, said: bool) -> str:
    """The client's fault after an unanswered connection request; empty without fault. `asked_s`: its own time-out, if any."""
    allowed_s = GIVES_UP_WITHIN_S if asked_s is None else asked_s + REFUSED_WITHIN_S
    if timed_out:
        return f"still trying after {wall_s:.0f} s"
    if exit_code == 0:
        return "exit code 0 although no server answered"
    if wall_s > allowed_s:
        return f"gave up after {wall_s:.1f} s, at most {allowed_s:.0f} s were expected"
    return "" if said else f"exit code {exit_code} without a message"


def fallback_problem(*, exit_code: int, timed_out: bool, wall_s: float, both_s: float, content: str) -> str:
    """The fault of a client that could reach one of a name's two addresses; `both_s` is its time when both serve."""
    if timed_out:
        return f"still trying after {wall_s:.0f} s"
    if exit_code:
        return f"failed with exit code {exit_code} although the other address serves"
    if wall_s > both_s + FALLS_BACK_WITHIN_S:
        return (
            f"took {wall_s - both_s:.1f} s longer than with both addresses, at most {FALLS_BACK_WITHIN_S:g} s count as a fallback"
        )
    return content


def names_problem(*, exit_code: int, timed_out: bool, queries: Sequence[str], content: str) -> str:
    """The fault of a client that fetched from localhost; empty if there is none. `content` is the fault of the file."""
    if timed_out:
        return "still running, and was killed"
    if queries:
        return f"asked the resolver {len(queries)} times: {', '.join(dict.fromkeys(queries))}"
    if exit_code:
        return f"failed with exit code {exit_code}"
    return content


def interruption_problem(*, exit_code: int, timed_out: bool, waited_s: float, content: str, said: bool) -> str:
    """The fault of a client after an interruption; empty for an intact file and for a reported error.

    `waited_s` is the time from the interruption to the client's end, `content` the fault of the file.
    """
    if timed_out:
        return f"was still running {waited_s:.0f} s after the interruption"
    if exit_code == 0:
        return f"exit code 0, but {content}" if content else ""
    return "" if said else f"exit code {exit_code} without a message"


def verdict_on(rows: Sequence[Observation], fine: str, faults: Sequence[str] = ()) -> Verdict:
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
