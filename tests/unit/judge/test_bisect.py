"""The search for the first bad candidate: right where it names one, honest where it cannot, and always at an end."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judge.bisect import CONFIRMATIONS, UNDECIDED_TRIES, Conclusion, Expected, Try, decide, likely, longer
from lab.judge.tolerance import LookPlan
from lab.model.results import VerdictName

Judge = Callable[[str, int], VerdictName]
VERDICTS: tuple[VerdictName, ...] = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")


def names(count: int) -> list[str]:
    return [f"v{index}" for index in range(count)]


def search(candidates: list[str], judge: Judge) -> tuple[Conclusion, list[Try]]:
    """Follow the decisions to their end; `judge` gives a candidate's n-th verdict."""
    seen: defaultdict[str, list[VerdictName]] = defaultdict(list)
    made: list[Try] = []
    while isinstance(due := decide(candidates, seen), Try):
        made.append(due)
        assert len(made) <= len(candidates) * (UNDECIDED_TRIES + CONFIRMATIONS), "it goes in circles"
        seen[due.candidate].append(judge(due.candidate, len(seen[due.candidate])))
    return due, made


def truth(first_bad: int) -> Judge:
    return lambda name, _: "FAIL" if int(name[1:]) >= first_bad else "PASS"


@given(st.integers(2, 200).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count - 1))))
def test_names_the_first_bad_in_few_tries(case: tuple[int, int]) -> None:
    count, first_bad = case
    answer, made = search(names(count), truth(first_bad))
    assert answer.kind == "found"
    assert (answer.last_good, answer.suspects) == (f"v{first_bad - 1}", (f"v{first_bad}",))
    assert len(made) <= 2 + math.ceil(math.log2(count)) + 2
    assert [made[0].candidate, made[1].candidate] == ["v0", f"v{count - 1}"], "the ends are judged first"


@given(st.data())
def test_what_cannot_be_judged_widens_the_answer_and_never_falsifies_it(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 30))
    first_bad = data.draw(st.integers(1, count - 1))
    dumb = data.draw(st.sets(st.integers(1, max(1, count - 2)))) - {0, count - 1}
    slow = data.draw(st.integers(0, UNDECIDED_TRIES - 1))
    what = data.draw(st.sampled_from(["INCONCLUSIVE", "INVALID"]))

    def judge(name: str, nth: int) -> VerdictName:
        return what if int(name[1:]) in dumb or nth < slow else truth(first_bad)(name, nth)  # type: ignore[return-value]

    answer, _ = search(names(count), judge)
    assert f"v{first_bad}" in answer.suspects
    # As narrow as possible: no candidate in the range, except its bad end, could be judged.
    assert {int(name[1:]) for name in answer.suspects[:-1]} <= dumb
    assert answer.kind == ("found" if len(answer.suspects) == 1 else "range")


@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_it_ends_whatever_the_verdicts_are(count: int, chance: object) -> None:
    answer, _ = search(names(count), lambda *_: chance.choice(VERDICTS))  # type: ignore[attr-defined]
    assert answer.reason
    assert bool(answer.suspects) == (answer.kind in ("found", "range"))


@pytest.mark.parametrize(("first_bad", "said"), [(0, "v0 was given as good"), (9, "v4 was given as bad")])
def test_ends_that_contradict_are_refused(first_bad: int, said: str) -> None:
    answer, made = search(names(5), truth(first_bad))
    assert answer.kind == "refused"
    assert said in answer.reason
    assert len(made) <= 2


@pytest.mark.parametrize("dumb", ["v0", "v4"])
def test_an_end_that_cannot_be_judged_ends_it(dumb: str) -> None:
    answer, _ = search(names(5), lambda name, nth: "INCONCLUSIVE" if name == dumb else truth(2)(name, nth))
    assert answer.kind == "unknown"
    assert "INCONCLUSIVE, then INCONCLUSIVE, then INCONCLUSIVE" in answer.reason


def test_inconclusive_asks_for_more_samples_and_invalid_for_as_many() -> None:
    def plan(*tries: VerdictName) -> LookPlan:
        due = decide(["old", "new"], {"old": tries})
        assert isinstance(due, Try)
        return due.plan

    assert plan() == LookPlan()
    assert plan("INCONCLUSIVE") == longer(LookPlan(), 2)
    assert plan("INCONCLUSIVE", "INCONCLUSIVE").cap == 4 * LookPlan().cap
    assert plan("INVALID", "INVALID") == LookPlan()
    assert longer(LookPlan(), 2).alpha_per_look == LookPlan().alpha_per_look


def test_the_two_that_decide_are_run_twice() -> None:
    _, made = search(names(9), truth(4))
    tried = [each.candidate for each in made]
    assert {name for name in tried if tried.count(name) == CONFIRMATIONS} == {"v3", "v4"}
    assert {each.candidate: each.why for each in made[-2:]} == {
        "v3": "once more, because the last good decides, after PASS",
        "v4": "once more, because the first bad decides, after FAIL",
    }


def test_a_candidate_with_two_verdicts_is_skipped() -> None:
    # v4 is bad; v3 was PASS by chance once and then not again.
    answer, _ = search(names(9), lambda name, nth: "FAIL" if name == "v3" and nth else truth(4)(name, nth))
    assert answer.kind == "range"
    assert (answer.last_good, answer.suspects) == ("v2", ("v3", "v4"))
    assert "v3 cannot be judged: PASS, then FAIL" in answer.reason


def test_a_confirmation_that_never_comes_is_reported() -> None:
    answer, _ = search(names(2), lambda name, nth: "INVALID" if nth else truth(1)(name, nth))
    assert answer.kind == "found"
    assert "v0 was judged only once" in answer.reason
    assert "v1 was judged only once" in answer.reason


def test_after_a_skip_the_next_try_is_far_from_it() -> None:
    """Revisions that cannot be built stand together: trying their neighbours would build a long row of them in vain."""
    ends: dict[str, list[VerdictName]] = {"v0": ["PASS"], "v64": ["FAIL"]}
    skipped: dict[str, str] = {}
    tried = []
    for _ in range(4):
        due = decide(names(65), ends, skipped)
        assert isinstance(due, Try)
        tried.append(due.candidate)
        skipped[due.candidate] = "cannot be built"
    assert tried == ["v32", "v16", "v48", "v8"]


def test_an_answer_names_a_few_of_many_that_were_skipped() -> None:
    answer = decide(names(20), {"v0": ["PASS", "PASS"], "v19": ["FAIL", "FAIL"]}, {f"v{i}": "no build" for i in range(1, 19)})
    assert isinstance(answer, Conclusion)
    assert (answer.kind, len(answer.suspects)) == ("range", 19)
    assert "v5 cannot be judged: no build; nor can 13 others" in answer.reason


def test_two_changes_end_the_search() -> None:
    known: dict[str, list[VerdictName]] = {"v0": ["PASS"], "v1": ["FAIL"], "v2": ["PASS"], "v3": ["FAIL"]}
    answer = decide(names(4), known)
    assert isinstance(answer, Conclusion)
    assert (answer.kind, answer.suspects) == ("unknown", ())
    assert "more than one change" in answer.reason


@pytest.mark.parametrize(("candidates", "seen"), [(["a"], {}), (["a", "b", "a"], {}), (["a", "b"], {"c": ["PASS"]})])
def test_a_search_that_makes_no_sense_is_refused(candidates: list[str], seen: dict[str, list[VerdictName]]) -> None:
    with pytest.raises(ValueError, match="candidate"):
        decide(candidates, seen)


# -- what may be due next -------------------------------------------------------------------------------------------


@given(st.data())
def test_what_is_due_is_always_the_first_of_what_is_expected(data: st.DataObject) -> None:
    candidates = names(data.draw(st.integers(2, 20)))
    seen: defaultdict[str, list[VerdictName]] = defaultdict(list)
    while isinstance(due := decide(candidates, seen), Try):
        found = likely(candidates, seen, 12)
        assert found[0] == Expected(due.candidate, due.plan, len(seen[due.candidate]))
        assert len(found) == len(set(found)) <= 12
        seen[due.candidate].append(data.draw(st.sampled_from(VERDICTS)))
    assert likely(candidates, seen, 12) == []


def test_both_ends_both_ways_and_both_neighbours_are_expected() -> None:
    candidates = names(8)
    ahead = [(each.candidate, each.before) for each in likely(candidates, {}, 5)]
    assert ahead[:3] == [("v0", 0), ("v7", 0), ("v3", 0)], "ends are expected to be what was said of them"
    assert set(ahead[3:]) == {("v1", 0), ("v5", 0)}, "of what is between, nothing is known"
    decided: dict[str, list[VerdictName]] = {"v0": ["PASS"], "v1": ["PASS"], "v2": ["PASS"], "v3": ["FAIL"], "v7": ["FAIL"]}
    assert [(each.candidate, each.before) for each in likely(candidates, decided, 5)] == [("v2", 1), ("v3", 1)]


def test_after_an_open_verdict_the_longer_plan_is_expected() -> None:
    (first, *_) = likely(names(3), {"v0": ["INCONCLUSIVE"]}, 3)
    assert (first.candidate, first.plan, first.before) == ("v0", longer(LookPlan(), 2), 1)
