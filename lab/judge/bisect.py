"""Which of an ordered row of candidates is the first bad one? Decides the next try, or the answer; pure.

A try runs one candidate to a verdict. PASS is good, FAIL bad. What is INCONCLUSIVE is tried again with more samples, what is
INVALID again with as many; what stays open is stepped around, and the answer is then a range and not a guess.

The search itself is git's. What differs, because a verdict here is a statistical one that errs in some 5 of 100:

| git bisect | here |
|---|---|
| believes both ends | judges them first, and refuses to search between ends that contradict what was said of them |
| one verdict each | the last good and the first bad must say the same twice; one that changes its mind is stepped around |
| skip is the user's | a candidate that cannot be judged in three tries is skipped |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from lab.judge.decide import LookPlan
from lab.result.models import VerdictName

UNDECIDED_TRIES = 3
"""Without a PASS or FAIL in so many, a candidate is one that cannot be judged."""
CONFIRMATIONS = 2
_MOST_TRIES = UNDECIDED_TRIES + CONFIRMATIONS
_MOST_TIMES = 4
_EXPECTED = 0.95

State = Literal["PASS", "FAIL", "open", "unclear"]
Tries = Mapping[str, Sequence[VerdictName]]


@dataclass(frozen=True)
class Try:
    """Run this candidate next, by this plan, on samples of its own."""

    candidate: str
    plan: LookPlan
    why: str


@dataclass(frozen=True)
class Answer:
    """The end of the search.

    found: `suspects` is the first bad candidate alone; range: it is among `suspects`; unknown: nothing can be said; refused: the
    ends are not what they were said to be.
    """

    kind: Literal["found", "range", "unknown", "refused"]
    reason: str
    last_good: str | None = None
    suspects: tuple[str, ...] = ()


def decide(candidates: Sequence[str], seen: Tries) -> Try | Answer:
    """What is due after the verdicts `seen`, per candidate in the order of its tries.

    `candidates` run from the good end to the bad one. Raises ValueError for fewer than two, for one named twice, and for a
    verdict on none of them.
    """
    if len(candidates) < 2:
        raise ValueError("a search needs two candidates at the least, a good one and a bad one")
    if len(set(candidates)) < len(candidates):
        raise ValueError(f"a candidate is named twice: {', '.join(candidates)}")
    if strangers := sorted(set(seen) - set(candidates)):
        raise ValueError(f"a verdict on what is no candidate: {', '.join(strangers)}")
    states = [_state(seen.get(name, ())) for name in candidates]
    return _judge_ends(candidates, states, seen) or _search(candidates, states, seen)


@dataclass(frozen=True)
class Expected:
    """A try that may be due some time; `before` of that candidate's went before it."""

    candidate: str
    plan: LookPlan
    before: int


def likely(candidates: Sequence[str], seen: Tries, most: int) -> list[Expected]:
    """The tries that may be due from here on, `most` at the most: first the one that is due, then the likeliest.

    Ends are expected to be what they were said to be, and a candidate to say again what it said; of any other nothing is known.
    """
    found: dict[Expected, None] = {}
    futures: list[tuple[float, int, dict[str, Sequence[VerdictName]]]] = [(-1.0, 0, dict(seen))]
    for number in range(1, 8 * most):
        if not futures or len(found) >= most:
            break
        share, _, tries = heappop(futures)
        due = decide(candidates, tries)
        if isinstance(due, Answer):
            continue
        own = tries.get(due.candidate, ())
        found.setdefault(Expected(due.candidate, due.plan, len(own)))
        for rank, (verdict, chance) in enumerate(_outlook(candidates, due.candidate, own)):
            heappush(futures, (share * chance, 2 * number + rank, {**tries, due.candidate: [*own, verdict]}))
    return list(found)


def longer(plan: LookPlan, times: int) -> LookPlan:
    """The same looks, each at so many times the samples; equally spaced looks keep their correction."""
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


def _judge_ends(candidates: Sequence[str], states: Sequence[State], seen: Tries) -> Try | Answer | None:
    ends: tuple[tuple[int, str, State], ...] = ((0, "good", "PASS"), (-1, "bad", "FAIL"))
    for end, word, meant in ends:
        name, state = candidates[end], states[end]
        if state == "open":
            return _try(name, seen, f"the {word} end")
        if state == "unclear":
            return Answer("unknown", f"{name}, the {word} end, cannot be judged here: {_told(name, seen)}")
        if state != meant:
            return Answer("refused", f"{name} was said to be {word}, and here it is {state}")
    return None


def _search(candidates: Sequence[str], states: Sequence[State], seen: Tries) -> Try | Answer:
    low = max(index for index, state in enumerate(states) if state == "PASS")
    high = min(index for index, state in enumerate(states) if state == "FAIL")
    good, bad = candidates[low], candidates[high]
    if high < low:
        reason = f"{bad} is FAIL and {good}, nearer to the bad end, PASS: there is more than one change between the ends"
        return Answer("unknown", reason)
    untried = [index for index in range(low + 1, high) if states[index] == "open"]
    if untried:
        middle = min(untried, key=lambda index: abs(2 * index - low - high))
        return _try(candidates[middle], seen, f"between {good} and {bad}")
    for name in (good, bad):
        if _agreeing(seen[name]) < CONFIRMATIONS and len(seen[name]) < _MOST_TRIES:
            return _try(name, seen, f"once more, because {'the last good' if name == good else 'the first bad'} decides")
    suspects = tuple(candidates[low + 1 : high + 1])
    once = [
        f"; {name} was judged only once: {_told(name, seen)}" for name in (good, bad) if _agreeing(seen[name]) < CONFIRMATIONS
    ]
    if len(suspects) == 1:
        return Answer("found", f"{bad} is the first that is FAIL, {good} the last that is PASS{''.join(once)}", good, suspects)
    unclear = "; ".join(f"{name} cannot be judged: {_told(name, seen)}" for name in suspects[:-1])
    return Answer("range", f"the first bad one comes after {good} and not after {bad}; {unclear}{''.join(once)}", good, suspects)


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
    # The lab's own faults say nothing of how many samples it takes.
    times = min(2 ** tries.count("INCONCLUSIVE"), _MOST_TIMES)
    again = f", after {_told(name, seen)}" if tries else ""
    return Try(name, longer(LookPlan(), times), why + again)


def _told(name: str, seen: Tries) -> str:
    return ", then ".join(seen.get(name, ())) or "never run"
