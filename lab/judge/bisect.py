"""The search for the first bad one in an ordered row of candidates: it decides the next try, or the answer; pure.

A try runs one candidate to a verdict: PASS is good, FAIL bad. An INCONCLUSIVE candidate is tried again with more samples, an
INVALID one with as many. A candidate that stays open is skipped, and the answer is then a range instead of a guess.

The search is git's. It differs in three points, because a verdict is statistical and wrong in about 5 of 100:

| git bisect | lab bisect |
|---|---|
| believes both ends | judges them first, and refuses to search between ends that contradict the user |
| one verdict each | the last good and the first bad must get the same verdict twice; a candidate that gets two is skipped |
| the user skips | so does the lab, and a candidate that cannot be built or has no verdict after three tries |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Literal

from lab.judge.decide import LookPlan
from lab.model.results import VerdictName

UNDECIDED_TRIES = 3
"""A candidate without a PASS or FAIL after this number of tries cannot be judged."""
CONFIRMATIONS = 2
_MOST_TRIES = UNDECIDED_TRIES + CONFIRMATIONS
_MOST_TIMES = 4
_EXPECTED = 0.95
_MOST_NAMED = 5

State = Literal["PASS", "FAIL", "open", "unclear"]
Tries = Mapping[str, Sequence[VerdictName]]
Skipped = Mapping[str, str]
"""Candidates that are not tried, or not again, and why."""
_NONE_SKIPPED: Skipped = MappingProxyType({})


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


def decide(candidates: Sequence[str], seen: Tries, skipped: Skipped = _NONE_SKIPPED) -> Try | Conclusion:
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
    states = ["unclear" if name in skipped else _state(seen.get(name, ())) for name in candidates]
    past = _Past(seen, skipped)
    return _judge_ends(candidates, states, past) or _search(candidates, states, past)


@dataclass(frozen=True)
class _Past:
    """The verdicts on the candidates so far, and the reasons for those skipped."""

    seen: Tries
    skipped: Skipped

    def tries(self, name: str) -> Sequence[VerdictName]:
        return self.seen.get(name, ())

    def words(self, name: str) -> str:
        """`INCONCLUSIVE, then PASS`, or why it is skipped."""
        return self.skipped.get(name) or ", then ".join(self.tries(name)) or "never run"

    def agreeing(self, name: str) -> int:
        return sum(verdict in ("PASS", "FAIL") for verdict in self.tries(name))


@dataclass(frozen=True)
class Expected:
    """A try that may be due later, after `before` tries of the same candidate."""

    candidate: str
    plan: LookPlan
    before: int


def likely(candidates: Sequence[str], seen: Tries, most: int, skipped: Skipped = _NONE_SKIPPED) -> list[Expected]:
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
        due = decide(candidates, tries, skipped)
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


def _judge_ends(candidates: Sequence[str], states: Sequence[State], past: _Past) -> Try | Conclusion | None:
    ends: tuple[tuple[int, str, State], ...] = ((0, "good", "PASS"), (-1, "bad", "FAIL"))
    for end, word, meant in ends:
        name, state = candidates[end], states[end]
        if state == "open":
            return _try(name, past, f"the {word} end")
        if state == "unclear":
            return Conclusion("unknown", f"{name}, the {word} end, cannot be judged: {past.words(name)}")
        if state != meant:
            return Conclusion("refused", f"{name} was given as {word}, but it is {state}")
    return None


def _search(candidates: Sequence[str], states: Sequence[State], past: _Past) -> Try | Conclusion:
    low = max(index for index, state in enumerate(states) if state == "PASS")
    high = min(index for index, state in enumerate(states) if state == "FAIL")
    good, bad = candidates[low], candidates[high]
    if high < low:
        reason = f"{bad} is FAIL and {good}, nearer to the bad end, PASS: there is more than one change between the ends"
        return Conclusion("unknown", reason)
    untried = [index for index in range(low + 1, high) if states[index] == "open"]
    if untried:
        # Like git's, the search moves away from skipped candidates: revisions that cannot be built often follow each other.
        aim = low + (high - low) * _share(high - low - 1 - len(untried))
        middle = min(untried, key=lambda index: abs(index - aim))
        return _try(candidates[middle], past, f"between {good} and {bad}")
    for name in (good, bad):
        if past.agreeing(name) < CONFIRMATIONS and len(past.tries(name)) < _MOST_TRIES:
            return _try(name, past, f"once more, because {'the last good' if name == good else 'the first bad'} decides")
    suspects = tuple(candidates[low + 1 : high + 1])
    once = [f"; {name} was judged only once: {past.words(name)}" for name in (good, bad) if past.agreeing(name) < CONFIRMATIONS]
    if len(suspects) == 1:
        return Conclusion(
            "found", f"{bad} is the first that is FAIL, {good} the last that is PASS{''.join(once)}", good, suspects
        )
    unclear = "; ".join(f"{name} cannot be judged: {past.words(name)}" for name in suspects[:_MOST_NAMED][: len(suspects) - 1])
    if len(suspects) - 1 > _MOST_NAMED:
        unclear += f"; nor can {len(suspects) - 1 - _MOST_NAMED} others"
    return Conclusion(
        "range", f"the first bad one comes after {good} and not after {bad}; {unclear}{''.join(once)}", good, suspects
    )


def _share(skipped: int) -> float:
    """The place of the next try in a span, by the number of its candidates that cannot be judged: 1/2, 1/4, 3/4, 1/8, 5/8, ..."""
    share, step, number = 0.0, 0.5, skipped + 1
    while number:
        share += step * (number & 1)
        step, number = step / 2, number >> 1
    return share


def _state(tries: Sequence[VerdictName]) -> State:
    decided = {verdict for verdict in tries if verdict in ("PASS", "FAIL")}
    if decided == {"PASS"}:
        return "PASS"
    if decided == {"FAIL"}:
        return "FAIL"
    return "unclear" if decided or len(tries) >= UNDECIDED_TRIES else "open"


def next_plan(tries: Sequence[VerdictName]) -> LookPlan:
    """The plan of a candidate's next try: more samples after INCONCLUSIVE, as many after a fault of the lab."""
    return longer(LookPlan(), min(2 ** tries.count("INCONCLUSIVE"), _MOST_TIMES))


def _try(name: str, past: _Past, why: str) -> Try:
    tries = past.tries(name)
    again = f", after {past.words(name)}" if tries else ""
    return Try(name, next_plan(tries), why + again)
