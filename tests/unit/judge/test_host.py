"""What a host's load means for a sample, a cell and several cells together."""

from __future__ import annotations

from typing import Any

import pytest

from lab.judge.host import (
    HostLimits,
    host_quality,
    judge_on_host,
    judge_together,
    most_set_aside,
    why_disturbed,
)
from lab.judge.tolerance import LookPlan
from lab.model.results import HostLoad, HostQuality, SetAside, Verdict, VerdictName
from tests.unit.store.conftest import make_cell, make_sample

LIMITS = HostLimits()
PLAN = LookPlan()


def load(**change: Any) -> HostLoad:
    quiet = {
        "span_s": 5.0,
        "steal_share": 0.002,
        "foreign_cores": 0.04,
        "lab_cores": 0.13,
        "cores": 2,
        "late_p99_ms": 0.4,
        "late_worst_ms": 5.0,
        "frequency_mhz": 2600.0,
        "load_1min": 3.0,
    }
    return HostLoad.model_validate(quiet | change)


def aside(count: int) -> list[SetAside]:
    why = why_disturbed(load(foreign_cores=1.4), LIMITS)
    assert why
    return [SetAside(reason=why, sample=make_sample(index, 0.2)) for index in range(count)]


def verdict(name: VerdictName) -> Verdict:
    return Verdict(name=name, reason="mean -9 %", warnings=["bimodal"])


def quality(*problems: str) -> HostQuality:
    return HostQuality(before=None, after=None, problems=list(problems))


def test_a_quiet_host_has_no_reason() -> None:
    assert why_disturbed(load(), LIMITS) is None
    assert why_disturbed(None, LIMITS) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"foreign_cores": 1.4}, "the host was busy: other processes took 1.40 of 2 cores (at most 0.26)"),
        ({"steal_share": 0.06}, "the host was busy: its hypervisor gave 6.0% of the CPU time to others (at most 2.4%)"),
        (
            {"late_p99_ms": 25.0},
            "the host was busy: one timer in a hundred woke 25 ms late or more (at most 10 ms) on idle cores",
        ),
    ],
)
def test_each_limit_has_its_words(change: dict[str, float], said: str) -> None:
    assert why_disturbed(load(**change), LIMITS) == said


def test_all_problems_are_in_one_reason() -> None:
    why = why_disturbed(load(foreign_cores=0.5, steal_share=0.06), LIMITS)
    assert why
    assert "hypervisor" in why
    assert "other processes" in why


@pytest.mark.parametrize("lab_cores", [1.2, 1.79, 2.0])
def test_cpu_of_the_client_does_not_disturb(lab_cores: float) -> None:
    assert why_disturbed(load(lab_cores=lab_cores, load_1min=40.0), LIMITS) is None


def test_late_timers_count_only_where_cpu_was_left() -> None:
    assert why_disturbed(load(lab_cores=1.70, late_p99_ms=25.0), LIMITS) is not None
    assert why_disturbed(load(lab_cores=1.78, late_p99_ms=25.0), LIMITS) is None, "with 0.04 of others 91 % of two cores"
    assert why_disturbed(load(lab_cores=None, late_p99_ms=25.0), LIMITS) is None, "nobody knows whether there was any left"


def test_a_figure_that_is_not_known_disturbs_nothing() -> None:
    blank = load(steal_share=None, foreign_cores=None, lab_cores=None, late_p99_ms=None, late_worst_ms=None)
    assert why_disturbed(blank, LIMITS) is None


def test_the_limit_grows_with_the_cores_and_where_ticks_are_coarse() -> None:
    assert why_disturbed(load(foreign_cores=0.9, cores=16), LIMITS) is None
    assert why_disturbed(load(foreign_cores=0.3), LIMITS) is not None
    assert why_disturbed(load(foreign_cores=0.3, span_s=0.3), LIMITS) is None, "four ticks too many in 300 ms are 0.13 cores"


def test_quality_names_each_side_and_the_last_of_too_many() -> None:
    busy = load(foreign_cores=1.4)
    assert host_quality(load(), load(), aside(4), LIMITS, PLAN).problems == []
    found = host_quality(busy, busy, aside(most_set_aside(PLAN)), LIMITS, PLAN)
    assert found.before == busy
    assert found.problems == [
        "before the samples other processes took 1.40 of 2 cores (at most 0.26)",
        "after the samples other processes took 1.40 of 2 cores (at most 0.26)",
        "5 transfers were set aside, the last because other processes took 1.40 of 2 cores (at most 0.26)",
    ]


def test_most_set_aside_is_the_first_look() -> None:
    assert [most_set_aside(plan) for plan in (PLAN, LookPlan(looks=(2, 3)))] == [5, 2]


@pytest.mark.parametrize("name", ["PASS", "FAIL", "INCONCLUSIVE", "INVALID"])
def test_a_quiet_host_changes_nothing(name: VerdictName) -> None:
    assert judge_on_host(verdict(name), quality(), enough=True) == verdict(name)
    assert judge_on_host(verdict(name), None, enough=True) == verdict(name)


def test_a_fail_on_a_host_with_problems_is_invalid_and_says_what_it_would_have_been() -> None:
    found = judge_on_host(verdict("FAIL"), quality("before the samples X"), enough=True)
    assert found.name == "INVALID"
    assert found.reason == ("the lab, not the client: the host was busy: before the samples X (would have been FAIL: mean -9 %)")
    assert found.warnings == ["bimodal"], "the reason has it already"


@pytest.mark.parametrize("name", ["PASS", "INCONCLUSIVE"])
def test_what_quiet_samples_decided_stands_with_a_warning(name: VerdictName) -> None:
    found = judge_on_host(verdict(name), quality("after the samples X"), enough=True)
    assert (found.name, found.reason) == (name, "mean -9 %")
    assert (found.warnings, found.host_notes) == (["bimodal"], ["after the samples X"])


def test_a_fail_stands_where_what_was_spoilt_was_set_aside() -> None:
    found = judge_on_host(verdict("FAIL"), quality(), set_aside=aside(2), enough=True)
    assert found.name == "FAIL"
    assert found.host_notes == [
        "2 transfers were set aside, the last because other processes took 1.40 of 2 cores (at most 0.26)"
    ]


@pytest.mark.parametrize("undecided", [None, verdict("INCONCLUSIVE")])
def test_without_a_first_look_it_is_the_host(undecided: Verdict | None) -> None:
    found = judge_on_host(undecided, quality("5 transfers were set aside"), set_aside=aside(5), enough=False)
    assert found.name == "INVALID"
    assert "5 transfers were set aside" in found.reason


def test_after_the_first_look_too_many_set_aside_leave_it_open() -> None:
    problems = host_quality(load(), load(), aside(5), LIMITS, PLAN)
    found = judge_on_host(verdict("INCONCLUSIVE"), problems, set_aside=aside(5), enough=True)
    assert found.name == "INCONCLUSIVE"
    assert len(found.host_notes) == 1, "told once"


def test_the_labs_own_problems_come_first_and_the_hosts_explain_them() -> None:
    found = judge_on_host(verdict("PASS"), quality("before the samples X"), enough=True, problems=["goodput is 9 % low"])
    assert found.name == "INVALID"
    assert found.reason.startswith("the lab, not the client: goodput is 9 % low; the host was busy: before the samples X")
    assert judge_on_host(None, None, enough=False).reason == "the lab, not the client: nothing was measured"


def test_what_spoils_one_of_several_cells_spoils_what_they_come_to() -> None:
    fine = make_cell().model_copy(update={"host": quality()})
    spoilt = fine.model_copy(update={"host": quality("after the samples X")})
    assert judge_together(verdict("FAIL"), [fine, fine], PLAN, problems=[]).name == "FAIL"
    found = judge_together(verdict("FAIL"), [spoilt, spoilt], PLAN, problems=[])
    assert found.name == "INVALID"
    assert found.reason.count("after the samples X") == 1
    few = spoilt.model_copy(update={"samples": fine.samples[:2], "set_aside": aside(5)})
    assert judge_together(verdict("INCONCLUSIVE"), [spoilt, few], PLAN, problems=[]).name == "INVALID"
    unwatched = fine.model_copy(update={"host": None})
    assert judge_together(verdict("PASS"), [unwatched, unwatched], PLAN, problems=[]) == verdict("PASS")
