"""The sentences that travel with a verdict: their lead words, when they are due, and how often they are a false alarm."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.judge.caveats import (
    INTERRUPTED,
    about,
    bimodal_caveat,
    drift_caveat,
    interruption_caveat,
    outlier_caveat,
    predict_samples,
    size_caveat,
)
from lab.judge.interval import student_quantile

TWO_MODES = [-0.040, 0.001, -0.041, 0.0, 0.002, -0.039, -0.04, 0.001, 0.0, -0.042]


def test_lead_words_stay() -> None:
    found = [
        size_caveat([-0.5, 0.5, 0.0], (-0.05, 0.05), 0.016, 20),
        outlier_caveat([0.0, 0.001, 0.002, 0.001, -0.3], 0.05),
        bimodal_caveat(TWO_MODES, 0.05),
        drift_caveat([0.0, 0.01, 0.02, 0.03, 0.04], 0.05),
    ]
    leads = [caveat and caveat.split(": ")[0] for caveat in found]
    assert leads == ["n too small for this band", "outlier", "bimodal", "drift over the run"]


def test_the_lead_words_stay_in_front_of_whom_it_is_about() -> None:
    assert (
        about("1 MiB, of its round", "outlier: sample 3 (+2.00 %): far")
        == "outlier: 1 MiB, of its round: sample 3 (+2.00 %): far"
    )


def test_two_groups_are_named_with_their_sizes_and_means() -> None:
    told = bimodal_caveat(TWO_MODES, 0.05)
    assert told
    assert told.startswith("bimodal: 5 samples around -3.96 % and 5 samples around +0.08 %")
    assert bimodal_caveat(TWO_MODES, 0.05, lambda fraction: f"{fraction:.1f}!") != told


@pytest.mark.parametrize(
    "values",
    [
        TWO_MODES[:7],  # fewer than eight show no groups
        [0.0] * 10,
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.04],  # one of ten is an outlier, not a group
        [value / 100 for value in TWO_MODES],  # 0.04 % apart, of a band of 5 %
        [index / 100 for index in range(10)],
    ],
)
def test_no_two_groups(values: list[float]) -> None:
    assert bimodal_caveat(values, 0.05) is None


def test_two_values_in_two_groups_without_any_spread() -> None:
    assert bimodal_caveat([0.0] * 6 + [0.03] * 4, 0.05) is not None


@pytest.mark.parametrize("n", [8, 10, 15, 20, 40])
def test_normal_samples_are_seldom_called_bimodal(n: int) -> None:
    """The spread is far beyond the tolerance, so that relevance hides nothing."""
    draws = np.random.default_rng(4).normal(0, 1, (5000, n)).tolist()
    assert sum(bimodal_caveat(row, 0.05) is not None for row in draws) / len(draws) <= 0.02


@pytest.mark.parametrize("n", [10, 15, 20])
def test_two_clear_modes_are_found(n: int) -> None:
    random = np.random.default_rng(5)
    draws = random.normal(0, 0.002, (500, n)) + 0.04 * (np.arange(n) % 2)
    assert sum(bimodal_caveat(row, 0.05) is not None for row in draws.tolist()) / len(draws) >= 0.98


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.045])
@pytest.mark.parametrize("spread", [0.0, 0.001, 0.01, 0.03, 0.2])
def test_the_prediction_is_the_least_number_that_will_do(mean: float, spread: float) -> None:
    found = predict_samples(mean, spread, (-0.05, 0.05), 0.016)
    room = 0.05 - mean

    def enough(n: int) -> bool:
        return (student_quantile(0.984, n - 1) + 1.2815515655446004) * spread / math.sqrt(n) <= room

    wanted = next((n for n in range(2, 1001) if enough(n)), None)
    assert found == wanted


@pytest.mark.parametrize(
    ("interruptions", "where"),
    [([], ""), ([0, 0], ""), ([0, 3, 0], "sample 2 (3 interruptions)"), ([1, 0, 2], "2 samples (3 interruptions)")],
)
def test_interruptions_by_virtual_time_are_counted_and_placed(interruptions: list[int], where: str) -> None:
    said = interruption_caveat(interruptions)
    assert said is None if not where else said is not None and said.startswith(f"{INTERRUPTED}: ") and said.endswith(where)
