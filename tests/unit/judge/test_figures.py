"""Bursts, memory, CPU and the filling of a link against their bounds: verdicts, their words, and their error rates."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge.tolerance import LookPlan, judge_samples, samples_wanted
from lab.model.results import Sample
from lab.model.transfer import BoundKind, Expectation

MakeSample = Callable[..., Sample]
MiB = 1 << 20

PLAN = LookPlan()
# What a sample calls the number, and its bound.
NUMBERS: dict[BoundKind, tuple[str, float]] = {
    "burst": ("burst_ratio", 1.5),
    "memory": ("max_rss_bytes", 64.0 * MiB),
    "cpu": ("cpu_user_s", 0.5),
    "fill": ("goodput_ratio", 0.8),
}


def expected(kind: BoundKind, bound: float | None = None) -> Expectation:
    return Expectation(kind=kind, bound=bound)


@pytest.fixture(name="samples")
def samples_of(make_sample: MakeSample) -> Callable[..., list[Sample]]:
    """Samples whose number is as many times its bound."""

    def made(kind: BoundKind, shares: list[float]) -> list[Sample]:
        name, bound = NUMBERS[kind]
        whole = name == "max_rss_bytes"
        values = [round(share * bound) if whole else share * bound for share in shares]
        return [make_sample(index, **{name: value}) for index, value in enumerate(values)]

    return made


@pytest.mark.parametrize("kind", ["burst", "memory", "cpu"])
@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ([0.9, 0.91, 0.89, 0.9, 0.9], "PASS"),
        ([0.01, 0.02, 0.015, 0.01, 0.012], "PASS"),
        ([1.0] * 5, "PASS"),
        ([1.1, 1.11, 1.09, 1.1, 1.12], "FAIL"),
        ([30.0, 31.0, 29.0, 30.0, 30.5], "FAIL"),
        ([0.9, 1.2, 0.8, 1.1, 1.0], "INCONCLUSIVE"),
    ],
)
def test_at_most_its_bound(samples: Callable[..., list[Sample]], kind: BoundKind, shares: list[float], name: str) -> None:
    verdict = judge_samples(samples(kind, shares), expected(kind), PLAN)
    assert (verdict.name, verdict.band_low, verdict.band_high) == (name, None, 0.0), verdict.reason


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ([1.1, 1.11, 1.09, 1.1, 1.12], "PASS"),
        ([1.0] * 5, "PASS"),
        ([0.9, 0.91, 0.89, 0.9, 0.9], "FAIL"),
        ([0.9, 1.2, 0.8, 1.1, 1.0], "INCONCLUSIVE"),
    ],
)
def test_at_least_its_bound(samples: Callable[..., list[Sample]], shares: list[float], name: str) -> None:
    assert judge_samples(samples("fill", shares), expected("fill"), PLAN).name == name


@pytest.mark.parametrize(
    ("kind", "shares", "words"),
    [
        (
            "memory",
            [0.5] * 5,
            ["mean peak memory 33.6 MB", "96.8 % interval 33.6 MB to 33.6 MB", "at most 64 MiB asked", "n = 5"],
        ),
        ("burst", [2.0] * 5, ["limit allows 3.00", "at most 1.5 asked"]),
        ("cpu", [0.1] * 5, ["CPU seconds per second 0.050", "at most 0.5 asked"]),
        ("fill", [1.2, 1.2, 1.2, 1.2, 1.1], ["goodput 0.943", "interval 0.892 to 0.998", "at least 0.8 asked"]),
        ("memory", [0.5] * 3, ["too few samples to be judged; the next look is at 5"]),
        ("memory", [0.5], ["1 of the 5 samples that a first look at at most 64 MiB needs"]),
    ],
)
def test_the_reason_has_the_figure_itself(
    samples: Callable[..., list[Sample]], kind: BoundKind, shares: list[float], words: list[str]
) -> None:
    reason = judge_samples(samples(kind, shares), expected(kind), PLAN).reason
    assert [each for each in words if each not in reason] == [], reason


def test_another_bound(samples: Callable[..., list[Sample]]) -> None:
    ten = samples("memory", [0.5] * 5)
    assert judge_samples(ten, expected("memory", 10e6), PLAN).name == "FAIL"
    assert "at most 10 MB asked" in judge_samples(ten, expected("memory", 10e6), PLAN).reason


@pytest.mark.parametrize("kind", ["burst", "memory", "fill"])
def test_a_number_the_lab_did_not_measure_is_the_labs_fault(
    samples: Callable[..., list[Sample]], make_sample: MakeSample, kind: BoundKind
) -> None:
    blind = [*samples(kind, [1.0] * 4), make_sample(4)]
    verdict = judge_samples(blind, expected(kind), PLAN)
    assert verdict.name == "INVALID"
    assert "of transfer 5" in verdict.reason
    assert samples_wanted(blind, expected(kind), PLAN) is None


def test_a_failed_transfer_fails_whatever_it_used(samples: Callable[..., list[Sample]], make_sample: MakeSample) -> None:
    failed = make_sample(5, ok=False, problem="3 of 5 bytes arrived")
    assert judge_samples([*samples("cpu", [0.1] * 5), failed], expected("cpu"), PLAN).name == "FAIL"


def test_an_undecided_figure_goes_on_to_the_next_look(samples: Callable[..., list[Sample]]) -> None:
    assert samples_wanted(samples("memory", [0.5]), expected("memory"), PLAN) == 5
    assert samples_wanted(samples("memory", [0.9, 1.2, 0.8, 1.1, 1.0]), expected("memory"), PLAN) == 10
    assert samples_wanted(samples("memory", [0.5] * 5), expected("memory"), PLAN) is None


def test_no_cpu_at_all_is_little_and_not_an_error(samples: Callable[..., list[Sample]]) -> None:
    assert judge_samples(samples("cpu", [0.0] * 5), expected("cpu"), PLAN).name == "PASS"


@pytest.mark.parametrize(
    ("kind", "shares", "warning"),
    [
        ("memory", [0.5, 0.5, 0.5, 0.5, 2.0], "sample 5 (134.2 MB) lies far from the others (median 33.6 MB)"),
        ("fill", [1.1, 1.2, 1.3, 1.4, 1.5], "drift by +"),
        ("cpu", [0.1, 0.11, 0.12, 0.13, 0.14], "drift by +"),
    ],
)
def test_caveats_are_in_its_unit_and_its_direction(
    samples: Callable[..., list[Sample]], kind: BoundKind, shares: list[float], warning: str
) -> None:
    warnings = judge_samples(samples(kind, shares), expected(kind), PLAN).warnings
    assert any(warning in each for each in warnings), warnings


def test_kinds_without_a_bound_have_no_figure() -> None:
    assert Expectation(kind="limit").bounded is None
    assert Expectation(kind="none").bounded is None


@given(values=st.lists(st.floats(0.5, 2.0), min_size=5, max_size=5).filter(lambda values: np.std(np.log(values)) > 1e-6))
def test_it_is_one_one_sided_test_on_the_logarithms(make_sample: MakeSample, values: list[float]) -> None:
    made = [make_sample(index, burst_ratio=1.5 * value) for index, value in enumerate(values)]
    p = float(stats.ttest_1samp(np.log(values), 0.0, alternative="less").pvalue)
    verdict = judge_samples(made, expected("burst"), PLAN)
    assert (verdict.name == "PASS") == (p <= PLAN.alpha_per_look)
    assert (verdict.name == "FAIL") == (p > 1 - PLAN.alpha_per_look)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("kind", "share", "least", "most"),
    [
        ("burst", 1.0, 0.0, 0.06),
        ("fill", 1.0, 0.0, 0.06),
        ("burst", 1.05, 0.0, 0.01),
        ("fill", 0.95, 0.0, 0.01),
        ("burst", 0.95, 0.95, 1.0),
        ("fill", 1.05, 0.95, 1.0),
    ],
)
def test_a_client_at_the_bound_seldom_passes_and_one_beyond_hardly_ever(
    make_sample: MakeSample, kind: BoundKind, share: float, least: float, most: float
) -> None:
    """2 % spread from run to run, as of speeds."""
    name, bound = NUMBERS[kind]
    draws = np.random.default_rng(20260102).normal(math.log(share), 0.02, (1000, PLAN.cap))
    passed = 0
    base = make_sample(0)
    for row in np.exp(draws) * bound:
        made = [base.model_copy(update={"index": index, name: float(value)}) for index, value in enumerate(row)]
        passed += judge_samples(made, expected(kind), PLAN).name == "PASS"
    assert least <= passed / 1000 <= most
