"""The host's limits at their edges, and the words of each rule."""

from __future__ import annotations

from typing import Any

import pytest

from lab.judge.host import (
    HostLimits,
    host_problems,
    host_quality,
    judge_on_host,
    judge_together,
    set_aside_words,
    why_disturbed,
)
from lab.judge.tolerance import LookPlan
from lab.model.results import HostLoad, HostQuality, SetAside, Verdict
from tests.unit.store.conftest import make_cell

LIMITS = HostLimits(steal_share=0.25, foreign_share=0.125, late_p99_ms=10.0, busy_share=0.75, counted_s=0.5)
PLAN = LookPlan((2, 4), 0.05)


def load(**change: Any) -> HostLoad:
    quiet: dict[str, Any] = {
        "span_s": 2.0,
        "steal_share": 0.0,
        "foreign_cores": 0.0,
        "lab_cores": 0.0,
        "cores": 4,
        "late_p99_ms": 0.0,
        "late_worst_ms": 0.0,
        "frequency_mhz": None,
        "load_1min": 0.0,
    }
    return HostLoad.model_validate(quiet | change)


def quality(*problems: str) -> HostQuality:
    return HostQuality(before=None, after=None, problems=list(problems))


def aside(*reasons: str) -> list[SetAside]:
    return [SetAside(reason=f"the host was busy: {reason}", sample=make_cell().samples[0]) for reason in reasons]


FAIL, PASS, OPEN = (Verdict.model_validate({"name": name, "reason": "r"}) for name in ("FAIL", "PASS", "INCONCLUSIVE"))


# --- the limits ---------------------------------------------------------------------------------------------------------------


def test_a_limit_is_a_share_and_what_the_counters_may_be_off_by() -> None:
    """Four cores for two seconds: half a second is a quarter of a core, and a sixteenth of all their time."""
    assert LIMITS.most_foreign_cores(load()) == 0.125 * 4 + 0.5 / 2
    assert LIMITS.most_steal_share(load()) == 0.25 + 0.5 / 8


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steal_share": 0.3125}, None),
        ({"steal_share": 0.313}, "its hypervisor gave 31.3% of the CPU time to others (at most 31.2%)"),
        ({"foreign_cores": 0.75}, None),
        ({"foreign_cores": 0.76}, "other processes took 0.76 of 4 cores (at most 0.75)"),
        ({"late_p99_ms": 10.0}, None),
        ({"late_p99_ms": 11.0}, "one timer in a hundred woke 11 ms late or more (at most 10 ms) on idle cores"),
        ({"late_p99_ms": 11.0, "lab_cores": 3.0}, None),
        (
            {"late_p99_ms": 11.0, "lab_cores": 2.5, "foreign_cores": None},
            "one timer in a hundred woke 11 ms late or more (at most 10 ms) on idle cores",
        ),
        ({"late_p99_ms": 11.0, "lab_cores": 2.5, "foreign_cores": 0.5}, None),
        ({"late_p99_ms": 11.0, "lab_cores": None}, None),
        ({"late_p99_ms": None, "steal_share": None, "foreign_cores": None}, None),
        (
            {"steal_share": 0.5, "foreign_cores": 2.0, "late_p99_ms": 20.0},
            "its hypervisor gave 50.0% of the CPU time to others (at most 31.2%), "
            "other processes took 2.00 of 4 cores (at most 0.75), "
            "one timer in a hundred woke 20 ms late or more (at most 10 ms) on idle cores",
        ),
    ],
)
def test_a_host_is_disturbed_above_a_limit(change: dict[str, float | None], said: str | None) -> None:
    assert why_disturbed(load(**change), LIMITS) == (f"the host was busy: {said}" if said else None)


def test_a_quality_has_both_sides_and_what_was_set_aside() -> None:
    busy, quiet = load(foreign_cores=2.0), load()
    words = "the samples other processes took 2.00 of 4 cores (at most 0.75)"
    assert host_quality(quiet, busy, aside("x"), LIMITS, PLAN) == HostQuality(
        before=quiet, after=busy, problems=[f"after {words}"]
    )
    found = host_quality(busy, None, aside("x", "y"), LIMITS, PLAN)
    assert found.problems == [f"before {words}", "2 transfers were set aside, the last because y"]
    assert host_quality(None, None, [], LIMITS, PLAN).problems == []


def test_a_transfer_that_was_set_aside_has_its_reason() -> None:
    assert set_aside_words(aside("x")) == "a transfer was set aside: x"
    assert set_aside_words(aside("x", "y", "z")) == "3 transfers were set aside, the last because z"


# --- the verdict --------------------------------------------------------------------------------------------------------------


def told(verdict: Verdict | None, host: HostQuality | None = None, **more: Any) -> tuple[str, str, list[str]]:
    found = judge_on_host(verdict=verdict, quality=host, **{"enough": True, **more})
    return found.name, found.reason, found.host_notes


def test_a_quiet_host_leaves_every_verdict_as_it_is() -> None:
    for verdict in (PASS, FAIL, OPEN):
        assert judge_on_host(verdict, quality(), enough=False) == judge_on_host(verdict, None, enough=True) == verdict
    assert told(None) == ("INVALID", "the lab, not the client: nothing was measured", [])


def test_a_noisy_host_spoils_a_fail_and_what_was_not_decided() -> None:
    noisy = quality("X", "Y")
    busy = "the lab, not the client: the host was busy: X; Y"
    assert told(FAIL, noisy) == ("INVALID", f"{busy} (would have been FAIL: r)", [])
    assert told(OPEN, noisy, enough=False) == ("INVALID", f"{busy} (would have been INCONCLUSIVE: r)", [])
    assert told(None, noisy) == ("INVALID", busy, [])
    assert told(PASS, noisy, enough=False) == told(PASS, noisy) == ("PASS", "r", ["X", "Y"])
    assert told(OPEN, noisy) == ("INCONCLUSIVE", "r", ["X", "Y"])


def test_the_labs_other_faults_spoil_every_verdict() -> None:
    assert told(PASS, problems=["no link", "no host"]) == (
        "INVALID",
        "the lab, not the client: no link; no host (would have been PASS: r)",
        [],
    )
    found = told(PASS, quality("X"), problems=["no link"])
    assert found == ("INVALID", "the lab, not the client: no link; the host was busy: X (would have been PASS: r)", [])


def test_what_was_set_aside_is_a_note_unless_the_reason_has_it() -> None:
    one = "a transfer was set aside: x"
    assert told(PASS, set_aside=aside("x")) == ("PASS", "r", [one])
    assert told(FAIL, set_aside=aside("x")) == ("FAIL", "r", [one])
    assert told(PASS, quality(one), set_aside=aside("x")) == ("PASS", "r", [one])
    assert told(FAIL, quality("X"), set_aside=aside("x"))[2] == [one]
    assert told(FAIL, quality(one), set_aside=aside("x"))[2] == []


def test_several_cells_are_judged_by_the_worst_of_their_hosts() -> None:
    cell = make_cell()
    one = cell.model_copy(update={"host": quality("X", "Y"), "samples": cell.samples[:2]})
    other = cell.model_copy(update={"host": quality("Y", "Z"), "set_aside": aside("x")})
    bare = cell.model_copy(update={"host": None})
    assert host_problems([one, bare, other]) == ["X", "Y", "Z"]
    found = judge_together(verdict=PASS, cells=[one, bare, other], plan=PLAN, problems=[])
    assert (found.name, found.host_notes) == ("PASS", ["X", "Y", "Z", "a transfer was set aside: x"])
    assert judge_together(OPEN, [one, other], PLAN, problems=[]).name == "INCONCLUSIVE"
    short = one.model_copy(update={"samples": cell.samples[:1]})
    assert judge_together(OPEN, [other, short], PLAN, problems=[]).name == "INVALID"
    assert judge_together(PASS, [bare], PLAN, problems=["no link"]).name == "INVALID"
