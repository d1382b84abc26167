"""Harm and the bystander's percentiles, by hand."""

from __future__ import annotations

import pytest

from lab.judge.harm import delay, harm_of_delay, harm_of_goodput
from lab.judge.quantile import quantile


def test_percentiles_are_values_that_were_measured() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert [quantile(hundred, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50.0, 95.0, 99.0, 100.0]
    assert quantile([7.0], 0.95) == 7.0


def test_what_is_lost_counts_for_the_loss_and_not_for_the_delay() -> None:
    found = delay([30.0, None, 50.0, 40.0])
    assert found is not None
    assert (found.p50_ms, found.p95_ms, found.loss, found.count) == (40.0, 50.0, 0.25, 4)
    assert delay([None, None]) is None


@pytest.mark.parametrize(
    ("solo", "beside", "harm"), [(30.0, 30.0, 0.0), (30.0, 60.0, 0.5), (30.0, 20.0, 0.0), (0.0, 0.0, 0.0), (0.25, 0.5, 0.5)]
)
def test_harm_of_delay(solo: float, beside: float, harm: float) -> None:
    assert harm_of_delay(solo, beside) == harm


@pytest.mark.parametrize(
    ("solo", "beside", "harm"), [(8.0, 8.0, 0.0), (8.0, 2.0, 0.75), (8.0, 9.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.25, 0.5)]
)
def test_harm_of_goodput(solo: float, beside: float, harm: float) -> None:
    assert harm_of_goodput(solo, beside) == harm
