"""The error rate of the gate, loosely: `lab simulate --gate` draws many more."""

from __future__ import annotations

import pytest

from lab.judge.decide import VIRTUAL_PLAN
from lab.judge.simulate_gate import failing_share, run_gates, scenarios, simulate_gates

BY_NAME = {each.name: each for each in scenarios()}


@pytest.mark.parametrize("name", [name for name in BY_NAME if name.startswith("equal")])
def test_equal_clients_are_seldom_called_worse(name: str) -> None:
    """1 % is asked; of 150 gates 6 or more would be less likely than 1 in 200."""
    assert run_gates(BY_NAME[name], 150, 1, rows=6, plan=VIRTUAL_PLAN).seen <= 5


@pytest.mark.parametrize(("share", "least", "most"), [("1", 0, 3), ("3", 35, 48), ("10", 40, 50)])
def test_a_figure_that_is_worse_is_seen(share: str, least: int, most: int) -> None:
    assert least <= run_gates(BY_NAME[f"one figure {share} % worse, stored"], 50, 1, rows=6, plan=VIRTUAL_PLAN).seen <= most


def test_the_same_seed_gives_the_same_table() -> None:
    one, other = ([*simulate_gates(3, 5, rows=2, plan=VIRTUAL_PLAN)] for _ in range(2))
    assert one == other
    assert [row.scenario for row in one] == [*BY_NAME]


@pytest.mark.parametrize(("gates", "rows", "seed"), [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_a_simulation_needs_something_to_draw(gates: int, rows: int, seed: int) -> None:
    with pytest.raises(ValueError, match="needs a gate, a row"):
        next(simulate_gates(gates, seed, rows=rows, plan=VIRTUAL_PLAN))


def test_what_fails_at_random_is_rarely_called_a_regression() -> None:
    assert failing_share(2000, 1, chance=0.0, plan=VIRTUAL_PLAN) == 0
    assert failing_share(2000, 1, chance=1 / 80, plan=VIRTUAL_PLAN) < 0.06
