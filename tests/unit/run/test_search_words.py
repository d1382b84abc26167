"""The steps of a bisection and its result in words, and the answer that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.clients import versions
from lab.judge.bisect import Conclusion
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.errors import EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_USAGE, UsageProblem
from lab.model.results import Cause, VerdictName
from lab.model.scenario import Scenario
from lab.run.bisection import bisection_answer, commit_words, keep_search
from lab.run.options import Options
from lab.run.revisions import Commit
from lab.run.search import SKIPPED, Found, for_try, step_answer, step_line, version_ready, versions_between, walk
from lab.store.run_dir import read_run

NAMES = ("a", "b", "c", "d", "e")
SCENARIO = Scenario.model_validate(
    {"name": "mine", "topology": "dsl-50", "transfer": "http1-get-5MiB-at-2MBps", "good": ("curl@8.8.0",), "bad": ()}
)
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def searched(truth: dict[str, tuple[VerdictName, Cause | None]], *, fix: bool = False, skip: Sequence[str] = ()) -> Found:
    """A search whose tries come to what `truth` says."""

    def judge(candidate: str, _: LookPlan) -> Answer:
        name, cause = truth[candidate]
        return step_answer(candidate, name, f"{name} of {candidate}", cause=cause)

    return walk(NAMES, judge, lambda _: None, fix=fix, skip=skip)


def upto(last_good: str) -> dict[str, tuple[VerdictName, Cause | None]]:
    return {name: ("PASS" if name <= last_good else "FAIL", None) for name in NAMES}


def test_a_search_names_the_first_bad_one_or_the_first_good_one() -> None:
    found = searched(upto("b"))
    assert (found.headline, found.exit_code) == ("first bad c, last good b", EXIT_PASS)
    assert [step.facts["number"] for step in found.steps] == [str(number) for number in range(1, len(found.steps) + 1)]
    assert searched(upto("b"), fix=True).headline == "fixed: first good b, last bad c"
    assert found.candidates == NAMES


def test_a_search_that_ends_at_several_names_them_all() -> None:
    found = searched(upto("b"), skip=["c", "x"])
    assert (found.headline, found.exit_code) == ("the first bad one is among c, d; b is good", EXIT_INCONCLUSIVE)
    assert found.skipped == {"c": SKIPPED}
    assert searched(upto("b"), skip=["c"], fix=True).headline == "the last bad one is among c, d; b is good"


def test_a_search_that_cannot_begin_is_refused_or_says_nothing() -> None:
    refused = Found(NAMES, Conclusion("refused", "the good end FAILs"), ())
    assert (refused.headline, refused.exit_code) == ("no search: the good end FAILs", EXIT_USAGE)
    ends = searched(upto("e"))
    assert ends.headline.startswith("no search: ")
    open_end = searched(dict.fromkeys(NAMES, ("INVALID", None)))
    assert (open_end.headline.partition(":")[0], open_end.exit_code) == ("nothing can be said", EXIT_INCONCLUSIVE)


def test_a_candidate_that_fails_in_another_way_than_the_bad_end_is_not_judged() -> None:
    truth = upto("b") | {"c": ("FAIL", "transfer")}
    found = searched(truth)
    step = next(step for step in found.steps if step.id == "c")
    assert (step.judged.name, step.judged.reason) == ("INVALID", "it FAILs in another way than e: FAIL of c")
    assert found.headline == "the first bad one is among c, d; b is good"
    by_transfer: dict[str, tuple[VerdictName, Cause | None]] = {
        name: ("PASS", None) if name <= "b" else ("FAIL", "transfer") for name in NAMES
    }
    assert searched(by_transfer).headline == "first bad c, last good b"


def test_what_cannot_be_made_ready_is_tried_once_and_listed() -> None:
    found = searched(upto("b") | {"c": ("INVALID", "setup")})
    assert found.skipped == {"c": "INVALID of c"}
    assert [step.id for step in found.steps].count("c") == 1


def test_a_step_is_one_line_with_its_run() -> None:
    step = step_answer("curl@8.5.0", "FAIL", "+1.2 %").model_copy(update={"facts": {"number": "3", "why": "halves what is left"}})
    assert step_line(step) == "3. curl@8.5.0 (halves what is left): FAIL, +1.2 %"
    assert step_line(step.model_copy(update={"run": "RUN"})).endswith("+1.2 % [RUN]")
    assert (step.question, step.run, step.clocks) == ("bisection-step", "", [])
    assert (step.arms[0].cell, step.arms[0].verdict) == ("", None)


def test_later_tries_have_longer_plans_and_other_seeds() -> None:
    options = Options(seed=7)
    first = LookPlan()
    assert for_try(options, first, 0) == replace(options, looks=first)
    twice = LookPlan(looks=tuple(look * 2 for look in first.looks))
    later = for_try(options, twice, 2)
    assert (later.looks, later.seed) == (twice, 9)
    assert later.virtual_looks.looks[0] == 2 * options.virtual_looks.looks[0]


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Versions that are built; `table` has more."""
    found: set[str] = set()
    monkeypatch.setattr(versions, "table", lambda _: ("8.9.0", "8.10.0", "8.11.1", "8.12.0"))
    monkeypatch.setattr(versions, "find", lambda name: Path(name) if name in found else None)
    return found


def test_versions_go_from_good_to_bad_by_their_numbers(known: set[str]) -> None:
    assert versions_between("curl@8.9.0", "curl@8.11.1") == (["curl@8.9.0", "curl@8.10.0", "curl@8.11.1"], False)
    assert versions_between("curl@8.12.0", "curl@8.10.0") == (["curl@8.12.0", "curl@8.11.1", "curl@8.10.0"], True)
    known.add("curl@8.11.1")
    assert versions_between("curl@8.9.0", "curl@8.12.0", "built")[0] == ["curl@8.9.0", "curl@8.11.1", "curl@8.12.0"]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("curl@8.9.0", "libcurl@8.10.0", "curl@8.9.0 and libcurl@8.10.0 are versions of two clients"),
        ("curl@8.9.0", "curl@8.9.0", "curl@8.9.0 cannot be both good and bad"),
        (f"curl@{versions.SYSTEM}", "curl@8.9.0", f"curl@{versions.SYSTEM} is not one of the known versions"),
    ],
)
def test_ends_without_a_way_between_them_are_refused(known: set[str], good: str, bad: str, message: str) -> None:
    del known
    with pytest.raises(UsageProblem) as caught:
        versions_between(good, bad)
    assert caught.value.message == message


@pytest.mark.parametrize(("build", "there", "builds"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_version_is_built_where_that_is_allowed_and_needed(
    known: set[str], monkeypatch: pytest.MonkeyPatch, build: bool, there: bool, builds: bool
) -> None:
    told: list[Any] = []
    known |= {"curl@8.9.0"} if there else set()
    monkeypatch.setattr(versions, "build", lambda *words: told.append(words))
    monkeypatch.setattr(versions, "program", told.append)
    assert version_ready(build, print)("curl@8.9.0") == "curl@8.9.0"
    assert told == [*([("curl@8.9.0", print)] if builds else []), "curl@8.9.0"]


# --- the answer -------------------------------------------------------------------------------------------------------


def test_an_answer_has_an_arm_for_every_step_and_the_result_as_facts() -> None:
    found = searched(upto("b"), skip=["d"])
    steps = tuple(step.model_copy(update={"clocks": ["real"], "run": f"run of {step.id}"}) for step in found.steps)
    answer = bisection_answer(replace(found, steps=steps), SCENARIO, "RUN", started_at=WHEN, facts={"repo": "/r"})
    assert (answer.question, answer.run, answer.clocks, answer.started_at) == ("bisection", "RUN", ["real"], WHEN)
    assert answer.id.endswith("--dsl-50--http1-get-5MiB-at-2MBps--bisection")
    first = answer.arms[0]
    assert (first.name, first.value, first.verdict) == ("1.", steps[0].id, steps[0].judged.name)
    assert first.facts == {"figure": steps[0].judged.reason, "why": steps[0].facts["why"], "run": f"run of {steps[0].id}"}
    assert answer.facts == {
        "good": "a",
        "bad": "e",
        "candidates": "5",
        "result": found.conclusion.reason,
        "repo": "/r",
    }
    assert (answer.judged.name, answer.judged.reason, answer.skipped) == ("PASS", found.headline, {"d": SKIPPED})
    open_end = bisection_answer(searched(upto("b"), skip=["c"]), SCENARIO, "RUN", started_at=WHEN, facts={})
    assert (open_end.judged.name, open_end.clocks) == ("INCONCLUSIVE", ["virtual"])


def test_a_search_is_kept_as_a_run_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path))
    run = keep_search(searched(upto("b")), SCENARIO, started_at=WHEN, facts={})
    record = read_run(run.path)
    assert "bisection-mine" in run.name
    assert (record.cells, record.exit_code, record.started_at) == ([], EXIT_PASS, WHEN)
    (answer,) = record.answers
    assert record.verdicts == {answer: "PASS"}
    assert run.answer_path(answer).is_file()


def test_a_commit_is_facts_with_a_line_per_file() -> None:
    assert commit_words(Commit("1a2b", "double it", "A", "2026-01-01", ("x | 1 +", "1 file changed"))) == {
        "commit": "1a2b",
        "subject": "double it",
        "author": "A",
        "date": "2026-01-01",
        "changed": "x | 1 +\n1 file changed",
    }
