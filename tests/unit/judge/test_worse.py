"""One figure of a candidate against its baseline's: margins, floors, alarms, what is accepted, files that fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.judge.gate import corrected, row_verdict
from lab.judge.worse import (
    Gate,
    HarmDecision,
    alarm_looks,
    claim_words,
    claims_of,
    count_claims,
    decide_harms,
    has_figures,
    margin_of,
    measures_of,
    rounds_wanted,
    sign_p,
    verdict_of,
)
from lab.model.answer import ARRIVES, Claim
from lab.model.results import Sample
from lab.model.transfer import ClientSpec
from lab.run.release import ReleaseRow
from tests.unit.store.conftest import make_cell

MakeSample = Callable[..., Sample]
PLAN = VIRTUAL_PLAN
GATE = Gate(30)
LIMITED = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps").cell(ClientSpec(name="new"))
FREE = ReleaseRow.named("metro-200--sftp-put-50MB").cell(ClientSpec(name="new"))


@pytest.fixture(name="take")
def taker(make_sample: MakeSample) -> Callable[..., list[Sample]]:
    def take(count: int, *, fail: Sequence[int] = (), **figures: object) -> list[Sample]:
        usual = {"wall_s": 5.4, "max_rss_bytes": 12_000_000, "deviation": 0.0, "burst_ratio": 1.0}
        return [
            make_sample(index, ok=index not in fail, problem="1 byte differs" if index in fail else "", **(usual | figures))
            for index in range(count)
        ]

    return take


Take = Callable[..., list[Sample]]


def of(claims: Sequence[Claim], figure: str) -> Claim:
    return next(claim for claim in claims if claim.figure == figure)


# --- what is compared -----------------------------------------------------------------------------------------------------


def test_a_row_answers_rate_time_bursts_files_and_memory() -> None:
    assert [each.figure for each in measures_of(LIMITED, "virtual")] == ["rate", "wall", "burst", "memory"]
    assert [each.figure for each in measures_of(FREE, "virtual")] == ["rate", "wall", "memory"]
    assert (count_claims(LIMITED, "virtual"), count_claims(FREE, "virtual")) == (5, 4)


@pytest.mark.parametrize(
    ("row", "clock", "own"),
    [
        ("far-50--h2-put-15MB--fill", "virtual", None),
        ("dsl-50--http1-get-3MiB-at-2MBps--burst", "virtual", None),
        ("metro-200--sftp-get-200x20kB", "virtual", "slowdown"),
        ("dsl-50--http1-get-5MiB-at-2MBps--cpu", "virtual", None),
        ("dsl-50--http1-get-5MiB-at-2MBps--cpu", "real", "cpu"),
    ],
)
def test_a_row_adds_the_figure_that_it_asks_about(row: str, clock: str, own: str | None) -> None:
    figures = [each.figure for each in measures_of(ReleaseRow.named(row).cell(ClientSpec(name="new")), clock)]  # type: ignore[arg-type]
    assert len(figures) == len(set(figures))
    assert [name for name in figures if name not in ("rate", "wall", "burst", "memory")] == ([own] if own else [])


def test_without_a_pace_only_memory_means_something_in_virtual_time() -> None:
    cell = ReleaseRow.named("link-local--http1-get-100MB").cell(ClientSpec(name="new"))
    assert [each.figure for each in measures_of(cell, "virtual")] == ["memory"]
    assert [each.figure for each in measures_of(cell, "real")] == ["rate", "wall", "memory"]


def test_margins_by_clock() -> None:
    assert [margin_of("virtual"), margin_of("real"), margin_of("virtual", 0.03), margin_of("real", 0.03)] == [
        0.02,
        0.05,
        0.03,
        0.03,
    ]
    assert measures_of(FREE, "virtual", Gate(1, margin=0.07))[0].margin == 0.07


# --- the looks ------------------------------------------------------------------------------------------------------------


def decided(harms: Sequence[float], gate: Gate = GATE, plan: LookPlan = PLAN) -> HarmDecision:
    return decide_harms(harms, [math.log1p(0.02)] * len(harms), plan, gate)


def test_a_pass_needs_five_pairs_and_an_alarm_twenty() -> None:
    assert decided([0.01] * 5).standing == "fine"
    assert decided([0.05] * 10).standing == "open"
    found = decided([0.05] * 40)
    assert (found.standing, found.used, found.beyond) == ("regression", 20, 20)
    assert found.p == pytest.approx(3 / 2**20), "times the three looks that may alarm"


def test_an_alarm_is_as_strict_as_the_number_of_figures_asks() -> None:
    values = [0.05] * 17 + [-0.03] * 3
    assert sign_p(17, 20) == pytest.approx(0.00129, rel=0.01)
    plan = LookPlan(looks=(5, 10, 20))
    assert decided(values, Gate(1), plan).standing == "regression"
    assert decided(values, Gate(30), plan).standing != "regression"


def test_a_difference_inside_the_margin_raises_no_alarm_however_certain() -> None:
    """Every pair is 1 % worse: beyond zero in twenty of twenty."""
    assert decided([0.01] * 80).standing == "fine"
    mixed = [0.012 + 0.01 * (-1) ** (index % 3) for index in range(80)]
    assert decided(mixed).standing == "fine"


def test_stalls_in_a_quarter_of_the_transfers_are_an_alarm() -> None:
    """The baseline has none: 20 of 80 pairs are 50 % worse, and none is better."""
    stalls = [0.4 if index % 4 == 3 else 0.001 for index in range(80)]
    found = decided(stalls)
    assert (found.standing, found.used, found.beyond, found.better) == ("regression", 80, 20, 0)


def test_two_speeds_raise_no_alarm_however_alike_five_pairs_are() -> None:
    """Equal clients, each 7 % slower in half of its transfers: an interval of zero width says nothing here."""
    rng = np.random.default_rng(4)
    slow = rng.random((2, 3000, 80)) < 0.5
    harms = (slow[0].astype(float) - slow[1]) * 0.07
    assert any(all(value > 0 for value in row[:5]) for row in harms), "five of five were beyond the margin"
    standings = [decided(row.tolist()).standing for row in harms[:300]]
    assert "regression" not in standings
    assert standings.count("open") <= 3, "what scatters is decided too"
    assert standings.count("scattered") > 200


def test_a_short_plan_alarms_at_its_end() -> None:
    assert alarm_looks(LookPlan(looks=(2, 4))) == [4]
    assert alarm_looks(PLAN) == [20, 40, 80]


@pytest.mark.parametrize(("claims", "alpha"), [(0, 0.01), (1, 0.0), (1, 0.5)])
def test_a_gate_has_claims_and_an_error_rate(claims: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="a gate needs claims"):
        Gate(claims, alpha)


# --- figures --------------------------------------------------------------------------------------------------------------


def compared(cell: object, ours: list[Sample], theirs: list[Sample], **accepted: float) -> list[Claim]:
    return claims_of(measures_of(cell, "virtual"), ours, theirs, PLAN, GATE, accepted=accepted)  # type: ignore[arg-type]


def test_equal_clients_are_fine_after_five_pairs(take: Take) -> None:
    claims = compared(LIMITED, take(5), take(5))
    assert {claim.standing for claim in claims} == {"fine"}
    assert rounds_wanted(claims, 5, PLAN) is None
    assert verdict_of(claims) == "PASS"
    assert row_verdict(claims).reason.startswith("no figure is worse by more than its margin, n = 5 pairs (rate")


def test_before_the_first_look_everything_is_open(take: Take) -> None:
    assert rounds_wanted(compared(LIMITED, [], []), 0, PLAN) == 5
    assert rounds_wanted(compared(LIMITED, take(3), take(3)), 3, PLAN) == 5


@pytest.mark.parametrize(("seconds", "standing"), [(5.4 * 1.019, "fine"), (5.4 * 1.03, "regression"), (5.4 * 0.9, "better")])
def test_time_to_complete(take: Take, seconds: float, standing: str) -> None:
    claim = of(compared(FREE, take(20, wall_s=seconds), take(20)), "wall")
    assert (claim.standing, claim.candidate, claim.baseline) == (standing, pytest.approx(seconds), pytest.approx(5.4))
    assert claim.worse
    assert claim.worse.mean == pytest.approx(seconds / 5.4 - 1)


def test_a_floor_forgives_what_is_small(take: Take) -> None:
    claims = compared(FREE, take(20, wall_s=0.109), take(20, wall_s=0.1))
    assert of(claims, "wall").standing == "fine", "9 ms of a tick of 10"
    assert of(compared(FREE, take(20, wall_s=0.112), take(20, wall_s=0.1)), "wall").standing == "regression"
    memory = [take(20, max_rss_bytes=size) for size in (3_000_000, 4_000_000, 4_100_000)]
    assert of(compared(FREE, memory[1], memory[0]), "memory").standing == "fine"
    assert of(compared(FREE, memory[2], memory[0]), "memory").standing == "regression"


@pytest.mark.parametrize(
    ("ours", "theirs", "standing"),
    [
        (0.03, 0.0, "regression"),
        (-0.03, 0.0, "regression"),
        (0.0, 0.03, "better"),
        (-0.2, 0.2, "regression"),
        (0.05, -0.05, "fine"),
    ],
)
def test_with_a_limit_worse_is_further_from_it(take: Take, ours: float, theirs: float, standing: str) -> None:
    assert of(compared(LIMITED, take(20, deviation=ours), take(20, deviation=theirs)), "rate").standing == standing


def test_time_below_what_the_limit_allows_does_not_count(take: Take) -> None:
    """5 MiB at 1 MB/s take 5.24 s; a baseline that is done after 2 s broke its promise."""
    assert of(compared(LIMITED, take(20, wall_s=5.3), take(20, wall_s=2.0)), "wall").standing == "fine"
    assert of(compared(LIMITED, take(20, wall_s=5.5), take(20, wall_s=2.0)), "wall").standing == "regression"
    assert of(compared(LIMITED, take(20, wall_s=2.0), take(20, wall_s=4.0)), "wall").standing == "fine"


def test_one_more_burst(take: Take) -> None:
    """16 KiB of the 100 kB that a limit of 1 MB/s allows in 100 ms are the least that counts."""
    assert of(compared(LIMITED, take(20, burst_ratio=1.15), take(20, burst_ratio=1.0)), "burst").standing == "fine"
    assert of(compared(LIMITED, take(20, burst_ratio=1.2), take(20, burst_ratio=1.0)), "burst").standing == "regression"


def test_a_figure_that_was_not_measured_is_left_out(take: Take) -> None:
    claims = compared(LIMITED, take(5, max_rss_bytes=None), take(5))
    assert "memory" not in {claim.figure for claim in claims}
    assert verdict_of(claims) == "PASS"


def test_a_lab_that_measured_no_speed_is_at_fault(take: Take) -> None:
    cell = make_cell()
    blind = cell.model_copy(update={"samples": take(5, body_byte_s=None, total_byte_s=None)})
    measures = measures_of(LIMITED, "virtual")
    assert not has_figures(blind, measures)
    assert has_figures(blind, [])
    assert has_figures(cell, measures)
    assert has_figures(blind.model_copy(update={"samples": take(5, fail=range(5), body_byte_s=None)}), measures)


# --- files ----------------------------------------------------------------------------------------------------------------


def test_one_wrong_file_is_a_regression_once_the_baseline_had_its_chance(take: Take) -> None:
    claims = compared(LIMITED, take(5, fail=[3]), take(5))
    assert of(claims, ARRIVES).standing == "open"
    assert rounds_wanted(claims, 5, PLAN) == 10
    claim = of(compared(LIMITED, take(80, fail=[3]), take(80)), ARRIVES)
    assert (claim.standing, claim.candidate, claim.baseline, claim.p) == ("regression", 1, 0, None)
    assert claim_words(claim) == "1 of 80 transfers failed, of the baseline 0 (1 byte differs)"


def test_a_client_that_always_fails_needs_no_eighty(take: Take) -> None:
    claim = of(compared(LIMITED, take(20, fail=range(20)), take(20)), ARRIVES)
    assert (claim.standing, claim.n) == ("regression", 20)


def test_what_both_fail_is_known(take: Take) -> None:
    claims = compared(LIMITED, take(5, fail=range(5)), take(5, fail=range(5)))
    assert [claim.standing for claim in claims] == ["known"], "nothing arrived that could be fast"
    assert rounds_wanted(claims, 5, PLAN) is None
    assert verdict_of(claims) == "PASS"
    more = compared(LIMITED, take(20, fail=range(20)), take(20, fail=[0]))
    assert of(more, ARRIVES).standing == "regression", "it fails nineteen times more"


def test_a_baseline_that_fails_alone_is_better_now(take: Take) -> None:
    assert of(compared(LIMITED, take(5), take(5, fail=[0])), ARRIVES).standing == "better"


def test_too_few_files_arrived_to_compare_their_rates(take: Take) -> None:
    both = [take(80, fail=range(77)) for _ in range(2)]
    assert [claim.figure for claim in compared(LIMITED, *both)] == [ARRIVES]


# --- what is accepted -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "standing", "note"),
    [
        (1.12, "accepted", ""),
        (1.139, "accepted", ""),
        (1.15, "regression", ""),
        (1.06, "accepted", "better than accepted"),
        (1.0, "accepted", "no longer worse"),
    ],
)
def test_an_accepted_figure_may_be_as_bad_and_no_worse(take: Take, ours: float, standing: str, note: str) -> None:
    claim = of(compared(FREE, take(20, wall_s=5.4 * ours), take(20), wall=0.12), "wall")
    assert (claim.standing, claim.note, claim.accepted) == (standing, note, 0.12)


def test_accepted_failures_are_a_share(take: Take) -> None:
    def arrival(failed: int, share: float) -> tuple[str, str]:
        claim = of(compared(LIMITED, take(20, fail=range(failed)), take(20), arrives=share), ARRIVES)
        return claim.standing, claim.note

    assert arrival(4, 0.2) == ("accepted", "1 byte differs")
    assert arrival(0, 0.2) == ("accepted", "no longer fails")
    assert arrival(20, 0.2)[0] == "regression"


# --- all rows together ------------------------------------------------------------------------------------------------------


def claim(p: float | None, standing: str = "open") -> Claim:
    return Claim(figure="rate", margin=0.02, n=20, beyond=18, p=p, standing=standing)  # type: ignore[arg-type]


def test_holm_keeps_alarms_and_may_add_one() -> None:
    gate = Gate(4)
    first, second = corrected([[claim(0.001, "regression"), claim(None, "fine")], [claim(0.003), claim(0.5)]], gate)
    assert [each.standing for each in (*first, *second)] == ["regression", "fine", "regression", "open"]
    assert [each.p_adjusted for each in (*first, *second)] == [
        pytest.approx(0.004),
        None,
        pytest.approx(0.009),
        pytest.approx(1.0),
    ]
    assert corrected([[claim(0.004)], [claim(0.9)] * 3], gate)[0][0].standing == "open"


def test_the_reason_names_the_figure_its_size_and_the_pairs(take: Take) -> None:
    claims = compared(FREE, take(20, wall_s=5.4 * 1.05), take(20))
    (final,) = corrected([claims], GATE)
    verdict = row_verdict(final)
    assert verdict.name == "FAIL"
    assert verdict.reason.startswith(
        "regression: time to complete 5.00 % worse (+5.00 to +5.00 %), more than 2 % worse in 20 of 20 pairs (p = "
    )
