"""Several claims at once: Holm by a worked example and by simulation, and the p value of one of them by scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge.family import holm
from lab.judge.regression import judge_ratios
from lab.judge.tolerance import LookPlan

probabilities = st.lists(st.floats(0, 1), max_size=30)


def test_worked_example() -> None:
    """Four claims: .005 x 4, .01 x 3, .03 x 2, .04 x 1 raised to the .06 before it; in the order given."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@given(probabilities)
def test_never_smaller_never_above_one_and_in_the_same_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= after <= 1 for p, after in zip(p_values, adjusted, strict=True))
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[index] for index in ranked] == sorted(adjusted)


@given(probabilities.filter(bool), st.floats(0.001, 0.2))
def test_between_bonferroni_and_no_correction(p_values: list[float], alpha: float) -> None:
    kept = {index for index, p in enumerate(holm(p_values)) if p <= alpha}
    assert {index for index, p in enumerate(p_values) if p * len(p_values) <= alpha} <= kept
    assert kept <= {index for index, p in enumerate(p_values) if p <= alpha}


def test_a_run_of_equals_raises_one_false_alarm_in_twenty_not_nineteen() -> None:
    runs = np.random.default_rng(1).uniform(size=(4000, 60)).tolist()
    assert sum(min(holm(run)) <= 0.05 for run in runs) / len(runs) <= 0.06
    assert sum(min(run) <= 0.05 for run in runs) / len(runs) > 0.9


@pytest.mark.parametrize("p_values", [[-0.1], [1.1], [math.nan]])
def test_refuses_a_p_value_outside_0_to_1(p_values: list[float]) -> None:
    with pytest.raises(ValueError, match="p value"):
        holm(p_values)


@given(st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=5).filter(lambda values: float(np.std(values)) > 1e-6))
def test_a_first_look_fails_where_p_is_below_its_alpha(ratios: list[float]) -> None:
    plan = LookPlan()
    p = float(stats.ttest_1samp(ratios, math.log1p(-0.05), alternative="less").pvalue)
    if abs(p - plan.alpha_per_look) > 1e-9:
        assert (judge_ratios(ratios, 0.05, plan).name == "FAIL") == (p < plan.alpha_per_look)
