"""The search for the first bad candidate, step by step: the words of each try and each answer, and which try comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lab.judge import bisect
from lab.judge.bisect import Conclusion, Expected, Try, decide, likely, longer, next_plan
from lab.judge.decide import LookPlan
from lab.model.results import VerdictName

PLAN = LookPlan()
GOOD: list[VerdictName] = ["PASS", "PASS"]
BAD: list[VerdictName] = ["FAIL", "FAIL"]


def names(count: int) -> list[str]:
    return [f"v{index}" for index in range(count)]


def seen(**tries: Sequence[VerdictName]) -> dict[str, Sequence[VerdictName]]:
    return tries


# --- tries --------------------------------------------------------------------------------------------------------------------


def test_the_ends_are_tried_first_and_again_while_they_are_open() -> None:
    assert decide(names(3), {}) == Try("v0", PLAN, "the good end")
    assert decide(names(3), seen(v0=["PASS"])) == Try("v2", PLAN, "the bad end")
    again = decide(names(3), seen(v0=["INVALID", "INCONCLUSIVE"]))
    assert again == Try("v0", longer(PLAN, 2), "the good end, after INVALID, then INCONCLUSIVE")


def test_then_the_middle_between_the_last_good_and_the_first_bad() -> None:
    ends = seen(v0=["PASS"], v8=["FAIL"])
    assert decide(names(9), ends) == Try("v4", PLAN, "between v0 and v8")
    assert decide(names(9), {**ends, "v4": ["PASS"]}) == Try("v6", PLAN, "between v4 and v8")
    assert decide(names(9), {**ends, "v4": ["FAIL"]}) == Try("v2", PLAN, "between v0 and v4")
    again = decide(names(9), {**ends, "v4": ["INVALID"]})
    assert again == Try("v4", PLAN, "between v0 and v8, after INVALID")


def test_a_candidate_that_cannot_be_judged_is_given_a_wide_berth() -> None:
    assert [bisect._share(skipped) for skipped in range(8)] == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8, 1 / 16]
    ends = seen(v0=["PASS"], v16=["FAIL"])
    skipped: dict[str, str] = {}
    for name in ("v8", "v4", "v12", "v2", "v10", "v6", "v14", "v1"):
        due = decide(names(17), ends, skipped)
        assert isinstance(due, Try)
        assert due.candidate == name
        skipped[name] = "no build"


def test_the_two_that_decide_are_confirmed_in_turn() -> None:
    ends = seen(v0=["PASS"], v1=["FAIL"])
    assert decide(names(2), ends) == Try("v0", PLAN, "once more, because the last good decides, after PASS")
    assert decide(names(2), {**ends, "v0": GOOD}) == Try("v1", PLAN, "once more, because the first bad decides, after FAIL")
    # Not by the order of their names.
    later = decide(["v9", "v10"], {"v9": GOOD, "v10": ["FAIL"]})
    assert later == Try("v10", PLAN, "once more, because the first bad decides, after FAIL")


def test_a_confirmation_is_tried_for_five_tries() -> None:
    tries: list[VerdictName] = ["PASS", "INVALID", "INCONCLUSIVE", "INVALID"]
    due = decide(names(2), seen(v0=tries, v1=BAD))
    words = "once more, because the last good decides, after PASS, then INVALID, then INCONCLUSIVE, then INVALID"
    assert due == Try("v0", longer(PLAN, 2), words)
    found = decide(names(2), seen(v0=[*tries, "INVALID"], v1=BAD))
    assert isinstance(found, Conclusion)
    assert found.kind == "found"


def test_a_plan_is_twice_as_long_after_each_open_verdict_but_four_times_at_most() -> None:
    assert [next_plan(["INCONCLUSIVE"] * count).looks[0] for count in range(5)] == [5, 10, 20, 20, 20]
    assert next_plan(["INVALID", "PASS", "FAIL"]) == PLAN
    assert longer(LookPlan((2, 4), 0.03), 3) == LookPlan((6, 12), 0.03)


# --- answers ------------------------------------------------------------------------------------------------------------------


def test_one_candidate_is_found() -> None:
    found = decide(names(3), seen(v0=GOOD, v1=BAD, v2=["FAIL"]))
    assert found == Conclusion("found", "v1 is the first that is FAIL, v0 the last that is PASS", "v0", ("v1",))
    assert decide(names(3), seen(v0=["PASS"] * 3, v1=["FAIL"] * 5, v2=["FAIL"])) == found, "more than twice is not once"


def test_an_answer_tells_what_was_judged_only_once() -> None:
    once: list[VerdictName] = ["FAIL", "INVALID", "INVALID", "INVALID", "INVALID"]
    found = decide(names(2), seen(v0=GOOD, v1=once))
    assert isinstance(found, Conclusion)
    assert found.reason == (
        "v1 is the first that is FAIL, v0 the last that is PASS; "
        "v1 was judged only once: FAIL, then INVALID, then INVALID, then INVALID, then INVALID"
    )


@pytest.mark.parametrize(("between", "more"), [(1, ""), (5, ""), (6, "; nor can 1 others"), (8, "; nor can 3 others")])
def test_a_range_names_five_that_cannot_be_judged(between: int, more: str) -> None:
    last = f"v{between + 1}"
    skipped = {f"v{index}": f"reason {index}" for index in range(1, between + 1)}
    found = decide(names(between + 2), {"v0": GOOD, last: BAD}, skipped)
    told = "; ".join(f"v{index} cannot be judged: reason {index}" for index in range(1, min(between, 5) + 1))
    assert found == Conclusion(
        "range", f"the first bad one comes after v0 and not after {last}; {told}{more}", "v0", (*skipped, last)
    )


@pytest.mark.parametrize(
    ("tries", "words"),
    [
        (["INVALID", "INVALID", "INVALID"], "INVALID, then INVALID, then INVALID"),
        (["INVALID"] * 4, "INVALID, then INVALID, then INVALID, then INVALID"),
        (["PASS", "FAIL"], "PASS, then FAIL"),
    ],
)
def test_an_end_that_cannot_be_judged_ends_the_search(tries: list[VerdictName], words: str) -> None:
    found = decide(names(2), seen(v0=tries))
    assert found == Conclusion("unknown", f"v0, the good end, cannot be judged: {words}")
    found = decide(names(2), seen(v0=["PASS"], v1=tries))
    assert found == Conclusion("unknown", f"v1, the bad end, cannot be judged: {words}")
    assert decide(names(2), {}, {"v0": "no build"}) == Conclusion("unknown", "v0, the good end, cannot be judged: no build")


def test_an_end_that_is_not_what_it_was_called_ends_the_search() -> None:
    assert decide(names(2), seen(v0=["FAIL"])) == Conclusion("refused", "v0 was given as good, but it is FAIL")
    found = decide(names(2), seen(v0=["PASS"], v1=["PASS"]))
    assert found == Conclusion("refused", "v1 was given as bad, but it is PASS")


def test_a_good_one_behind_a_bad_one_ends_the_search() -> None:
    found = decide(names(5), seen(v0=["PASS"], v1=["FAIL"], v3=["PASS"], v4=["FAIL"]))
    reason = "v1 is FAIL and v3, nearer to the bad end, PASS: there is more than one change between the ends"
    assert found == Conclusion("unknown", reason)


@pytest.mark.parametrize(
    ("candidates", "tries", "said"),
    [
        ([], {}, "a search needs at least two candidates, a good one and a bad one"),
        (["a"], {}, "a search needs at least two candidates, a good one and a bad one"),
        (["a", "b", "a"], {}, "a candidate is named twice: a, b, a"),
        (["a", "b"], {"d": ["PASS"], "c": ["PASS"]}, "a verdict on an unknown candidate: c, d"),
    ],
)
def test_a_search_that_cannot_be_is_refused_with_its_names(candidates: list[str], tries: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        decide(candidates, tries)


# --- what may be due ----------------------------------------------------------------------------------------------------------


def ahead(most: int, count: int = 8, **tries: Sequence[VerdictName]) -> list[tuple[str, int]]:
    return [(each.candidate, each.before) for each in likely(names(count), tries, most)]


def test_the_due_try_is_the_first_and_no_more_are_named_than_asked_for() -> None:
    assert likely(names(8), {}, 1) == [Expected("v0", PLAN, 0)]
    assert ahead(0) == []
    assert [len(ahead(most)) for most in (1, 2, 3, 9)] == [1, 2, 3, 9]


def test_an_end_is_expected_to_be_what_it_was_called_and_the_rest_is_open() -> None:
    assert ahead(9) == [
        *(("v0", 0), ("v7", 0), ("v3", 0), ("v1", 0), ("v5", 0)),
        *(("v0", 1), ("v2", 0), ("v4", 0), ("v6", 0)),
    ]


def test_a_judged_candidate_is_expected_to_be_judged_the_same() -> None:
    found = ahead(9, v0=["PASS"], v7=["FAIL"], v3=["FAIL"], v1=["PASS"], v2=["PASS"])
    assert found == [("v2", 1), ("v3", 1)]
    found = ahead(9, 2, v0=["INVALID", "PASS"], v1=["FAIL"])
    assert found == [("v0", 2), ("v1", 1)]


def test_a_skipped_candidate_is_never_expected() -> None:
    found = likely(names(3), {}, 9, {"v1": "no build"})
    assert [(each.candidate, each.before) for each in found] == [("v0", 0), ("v2", 0), ("v0", 1), ("v2", 1)]


def test_words_say_what_is_known_of_a_candidate() -> None:
    past = bisect._Past({"a": ["INVALID", "PASS"]}, {"b": "no build"})
    assert [past.words(name) for name in "abc"] == ["INVALID, then PASS", "no build", "never run"]
    assert [past.agreeing(name) for name in "abc"] == [1, 0, 0]
