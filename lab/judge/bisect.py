"""Which of an ordered row of candidates is the first bad one? Decides the next try, or the answer; pure.

A try runs one candidate to a verdict: PASS is good, FAIL bad. An INCONCLUSIVE candidate is tried again with more samples, an
INVALID one with as many. A candidate that stays open is skipped, and the answer is then a range instead of a guess.

The search is git's. It differs in three points, because a verdict is statistical and wrong in about 5 of 100:

| git bisect | lab bisect |
|---|---|
| believes both ends | judges them first, and refuses to search between ends that contradict the user |
| one verdict each | the last good and the first bad must get the same verdict twice; a candidate that gets two is skipped |
| the user skips | a candidate without a verdict after three tries is skipped |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from lab.judge.decide import LookPlan
from lab.model.results import VerdictName

UNDECIDED_TRIES = 3
"""A candidate without a PASS or FAIL after this number of tries cannot be judged."""
CONFIRMATIONS = 2
_MOST_TRIES = UNDECIDED_TRIES + CONFIRMATIONS
_MOST_TIMES = 4
_EXPECTED = 0.95

State = Literal["PASS", "FAIL", "open", "unclear"]
Tries = Mapping[str, Sequence[VerdictName]]


@dataclass(frozen=True)
class Try:
    """Run this candidate next, by this plan, on new samples."""

    candidate: str
    plan: LookPlan
    why: str


@dataclass(frozen=True)
class Conclusion:
    """The end of the search.

    found: `suspects` holds the first bad candidate only; range: it is among `suspects`; unknown: there is no answer; refused: an
    end is not what the user called it.
    """

    kind: Literal["found", "range", "unknown", "refused"]
    reason: str
    last_good: str | None = None
    suspects: tuple[str, ...] = ()


def decide(candidates: Sequence[str], seen: Tries) -> Try | Conclusion:
    """The next step after the verdicts `seen`, per candidate in the order of its tries.

    `candidates` run from the good end to the bad one. Raises ValueError for fewer than two, for a duplicate, and for a verdict on
    an unknown candidate.
    """
    if len(candidates) < 2:
        raise ValueError("a search needs at least two candidates, a good one and a bad one")
    if len(set(candidates)) < len(candidates):
        raise ValueError(f"a candidate is named twice: {', '.join(candidates)}")
    if strangers := sorted(set(seen) - set(candidates)):
        raise ValueError(f"a verdict on an unknown candidate: {', '.join(strangers)}")
    states = [_state(seen.get(name, ())) for name in candidates]
    return _judge_ends(candidates, states, seen) or _search(candidates, states, seen)


@dataclass(frozen=True)
class Expected:
    """A try that may be due later, after `before` tries of the same candidate."""

    candidate: str
    plan: LookPlan
    before: int


def likely(candidates: Sequence[str], seen: Tries, most: int) -> list[Expected]:
    """At most `most` tries that may be due from now on: first the due one, then the likeliest.

    Expects the ends to be what the user called them and a judged candidate to get the same verdict again. Any other candidate is
    as likely to be good as bad.
    """
    found: dict[Expected, None] = {}
    futures: list[tuple[float, int, dict[str, Sequence[VerdictName]]]] = [(-1.0, 0, dict(seen))]
    for number in range(1, 8 * most):
        if not futures or len(found) >= most:
            break
        share, _, tries = heappop(futures)
        due = decide(candidates, tries)
        if isinstance(due, Conclusion):
            continue
        own = tries.get(due.candidate, ())
        found.setdefault(Expected(due.candidate, due.plan, len(own)))
        for rank, (verdict, chance) in enumerate(_outlook(candidates, due.candidate, own)):
            heappush(futures, (share * chance, 2 * number + rank, {**tries, due.candidate: [*own, verdict]}))
    return list(found)


def longer(plan: LookPlan, times: int) -> LookPlan:
    """The same looks at `times` as many samples each; equally spaced looks keep their correction."""
    return LookPlan(looks=tuple(look * times for look in plan.looks), alpha_per_look=plan.alpha_per_look)


def _outlook(candidates: Sequence[str], name: str, tries: Sequence[VerdictName]) -> list[tuple[VerdictName, float]]:
    decided = [verdict for verdict in tries if verdict in ("PASS", "FAIL")]
    if decided:
        return [(decided[-1], _EXPECTED)]
    if name == candidates[0]:
        return [("PASS", _EXPECTED)]
    if name == candidates[-1]:
        return [("FAIL", _EXPECTED)]
    return [("FAIL", 0.5), ("PASS", 0.5)]


def _judge_ends(candidates: Sequence[str], states: Sequence[State], seen: Tries) -> Try | Conclusion | None:
    ends: tuple[tuple[int, str, State], ...] = ((0, "good", "PASS"), (-1, "bad", "FAIL"))
    for end, word, meant in ends:
        name, state = candidates[end], states[end]
        if state == "open":
            return _try(name, seen, f"the {word} end")
        if state == "unclear":
            return Conclusion("unknown", f"{name}, the {word} end, cannot be judged: {_history(name, seen)}")
        if state != meant:
            return Conclusion("refused", f"{name} was given as {word}, but it is {state}")
    return None


def _search(candidates: Sequence[str], states: Sequence[State], seen: Tries) -> Try | Conclusion:
    low = max(index for index, state in enumerate(states) if state == "PASS")
    high = min(index for index, state in enumerate(states) if state == "FAIL")
    good, bad = candidates[low], candidates[high]
    if high < low:
        reason = f"{bad} is FAIL and {good}, nearer to the bad end, PASS: there is more than one change between the ends"
        return Conclusion("unknown", reason)
    untried = [index for index in range(low + 1, high) if states[index] == "open"]
    if untried:
        middle = min(untried, key=lambda index: abs(2 * index - low - high))
        return _try(candidates[middle], seen, f"between {good} and {bad}")
    for name in (good, bad):
        if _agreeing(seen[name]) < CONFIRMATIONS and len(seen[name]) < _MOST_TRIES:
            return _try(name, seen, f"once more, because {'the last good' if name == good else 'the first bad'} decides")
    suspects = tuple(candidates[low + 1 : high + 1])
    once = [
        f"; {name} was judged only once: {_history(name, seen)}" for name in (good, bad) if _agreeing(seen[name]) < CONFIRMATIONS
    ]
    if len(suspects) == 1:
        return Conclusion(
            "found", f"{bad} is the first that is FAIL, {good} the last that is PASS{''.join(once)}", good, suspects
        )
    unclear = "; ".join(f"{name} cannot be judged: {_history(name, seen)}" for name in suspects[:-1])
    return Conclusion(
        "range", f"the first bad one comes after {good} and not after {bad}; {unclear}{''.join(once)}", good, suspects
    )


def _state(tries: Sequence[VerdictName]) -> State:
    decided = {verdict for verdict in tries if verdict in ("PASS", "FAIL")}
    if decided == {"PASS"}:
        return "PASS"
    if decided == {"FAIL"}:
        return "FAIL"
    return "unclear" if decided or len(tries) >= UNDECIDED_TRIES else "open"


def _agreeing(tries: Sequence[VerdictName]) -> int:
    return sum(verdict in ("PASS", "FAIL") for verdict in tries)


def _try(name: str, seen: Tries, why: str) -> Try:
    tries = seen.get(name, ())
    # A fault of the lab does not show how many samples the verdict needs.
    times = min(2 ** tries.count("INCONCLUSIVE"), _MOST_TIMES)
    again = f", after {_history(name, seen)}" if tries else ""
    return Try(name, longer(LookPlan(), times), why + again)


def _history(name: str, seen: Tries) -> str:
    return ", then ".join(seen.get(name, ())) or "never run"
