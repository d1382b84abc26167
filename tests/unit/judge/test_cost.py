"""CPU seconds per GB, and what makes them comparable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.judge.cost import SCORE_FACT, cost_note, hashed_mb_per_gb
from lab.model.figures import COST


def sample(cpu_s: float, *, ok: bool = True) -> Any:
    return SimpleNamespace(cpu_user_s=cpu_s / 4, cpu_system_s=cpu_s * 3 / 4, expected_bytes=200_000_000, ok=ok)


def cell(cpu_s: float, score: object) -> Any:
    facts = {} if score is None else {SCORE_FACT: score}
    return SimpleNamespace(clock="real", id="c--t--x", samples=[sample(cpu_s)], before=SimpleNamespace(hosts={"client": facts}))


def test_only_successful_transfers_count() -> None:
    counted = SimpleNamespace(clock="real", samples=[sample(1.0), sample(2.0), sample(9.0, ok=False)])
    assert COST.summarise(counted) == pytest.approx(7.5)  # type: ignore[arg-type]
    assert COST.summarise(SimpleNamespace(clock="real", samples=[sample(9.0, ok=False)])) is None  # type: ignore[arg-type]


def test_normalised_cost_does_not_depend_on_the_processors_speed() -> None:
    slow, quick = COST.of(sample(1.0)), COST.of(sample(0.25))
    assert slow is not None
    assert quick is not None
    assert hashed_mb_per_gb(slow, 300.0) == pytest.approx(hashed_mb_per_gb(quick, 1200.0)) == pytest.approx(1500.0)


def test_two_runs_are_shown_side_by_side_only_where_both_have_a_score() -> None:
    assert cost_note(cell(1.0, 300.0), cell(0.25, 1200.0)) == (
        "c--t--x: A 5.00 CPU s per GB x 300 MB/s = 1500 MB hashed per GB; B 1.25 CPU s per GB x 1200 MB/s = 1500 MB hashed per GB"
    )
    assert cost_note(cell(1.0, 300.0), cell(1.0, None)) == ""
