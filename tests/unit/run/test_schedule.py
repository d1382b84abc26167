"""Whose transfer is next, with samples that appear while the schedule is followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lab.judge.sweep import turn_order
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.results import CellResult, Sample
from lab.model.transfer import ClientSpec
from lab.run.schedule import Schedule, beside_baseline, fixed_rounds, round_robin, until_decided

MakeSample = Callable[..., Sample]

LOOKS = LookPlan(looks=(2, 4))
NAMES = ["16 KiB", "1 MiB", "16 MiB"]


def follow(schedule: Schedule, cells: int, take: Callable[[int, int], Sample]) -> tuple[list[int], list[list[Sample]]]:
    """The cells in the order of their turns; `take` gives sample n of a cell."""
    samples: list[list[Sample]] = [[] for _ in range(cells)]
    order = []
    for turn, goal in schedule(samples):
        assert len(samples[turn]) < goal
        order.append(turn)
        samples[turn].append(take(turn, len(samples[turn])))
    return order, samples


@pytest.fixture(name="rates")
def rate_taker(make_sample: MakeSample) -> Callable[[Sequence[Sequence[float]]], Callable[[int, int], Sample]]:
    def taker(rows: Sequence[Sequence[float]]) -> Callable[[int, int], Sample]:
        def take(turn: int, index: int) -> Sample:
            rate = rows[turn][index % len(rows[turn])]
            return make_sample(index, None, problem="" if rate else "cut off").model_copy(update={"body_byte_s": rate or None})

        return take

    return taker


def test_equal_settings_end_at_the_first_look(rates: Callable[..., Callable[[int, int], Sample]]) -> None:
    order, samples = follow(round_robin(NAMES, 0.9, LOOKS), 3, rates([[5e6], [5e6], [5e6]]))
    assert order == [*turn_order(3, 0), *turn_order(3, 1)]
    assert [len(own) for own in samples] == [2, 2, 2]


def test_an_open_verdict_goes_on_to_the_cap(rates: Callable[..., Callable[[int, int], Sample]]) -> None:
    order, _ = follow(round_robin(NAMES, 0.9, LOOKS), 3, rates([[5e6, 6e6], [6e6, 5e6], [5e6, 6e6]]))
    assert order == [turn for index in range(4) for turn in turn_order(3, index)]


def test_a_failed_transfer_ends_it_within_the_round(rates: Callable[..., Callable[[int, int], Sample]]) -> None:
    order, _ = follow(round_robin(NAMES, 0.9, LOOKS), 3, rates([[5e6], [5e6], [5e6, 0]]))
    assert order == [0, 1, 2, 2], "backwards in the second round"
    order, samples = follow(round_robin(NAMES, 0.9, LOOKS), 3, rates([[5e6], [0], [5e6]]))
    assert order == [0, 1]
    assert not samples[1][-1].ok


@pytest.mark.parametrize(("problem", "taken"), [("", 2), ("cut off", 1)])
def test_one_cell_until_decided(cell: CellResult, make_sample: MakeSample, problem: str, taken: int) -> None:
    asked = Cell(client=ClientSpec.parse("curl"), topology=cell.topology, transfer=cell.transfer, expectation=cell.expectation)
    order, _ = follow(until_decided(asked, LOOKS), 1, lambda _, index: make_sample(index, 0.0, problem=problem))
    assert order == [0] * taken


def test_rounds_that_decide_nothing_are_all_taken_unless_one_fails(rates: Callable[..., Callable[[int, int], Sample]]) -> None:
    order, _ = follow(fixed_rounds(3), 3, rates([[5e6], [9e6], [1e6]]))
    assert order == [turn for done in range(3) for turn in turn_order(3, done)]
    order, _ = follow(fixed_rounds(3), 3, rates([[5e6], [9e6], [1e6, 0]]))
    assert order == [0, 1, 2, 2]
    order, _ = follow(fixed_rounds(3), 3, rates([[0], [9e6], [1e6]]))
    assert order == [0]


def test_rounds_end_where_a_transfer_was_not_even_taken() -> None:
    assert list(fixed_rounds(3)([[], []])) == [(0, 3)]


def test_a_goal_is_that_of_the_next_look(rates: Callable[..., Callable[[int, int], Sample]]) -> None:
    samples: list[list[Sample]] = [[], [], []]
    take = rates([[5e6, 6e6], [6e6, 5e6], [5e6, 6e6]])
    goals = []
    for turn, goal in round_robin(NAMES, 0.9, LOOKS)(samples):
        goals.append(goal)
        samples[turn].append(take(turn, len(samples[turn])))
    assert goals == [2] * 6 + [4] * 6
    assert [goal for _, goal in fixed_rounds(5)([samples[0]])] == [5] * 5


@pytest.fixture
def asked(cell: CellResult) -> Cell:
    return Cell(client=ClientSpec.parse("curl"), topology=cell.topology, transfer=cell.transfer, expectation=cell.expectation)


def compared(
    asked: Cell, margin: float | None, own: Sequence[float], other: Sequence[float], make_sample: MakeSample
) -> list[int]:
    """The order of a candidate that keeps its limit, next to a baseline; rates by round, 0 fails."""

    def take(turn: int, index: int) -> Sample:
        rate = (own, other)[turn][index % len((own, other)[turn])]
        made = make_sample(index, 0.0, problem="" if rate else "cut off")
        return made.model_copy(update={"body_byte_s": rate or None})

    return follow(beside_baseline(asked, margin, LOOKS), 2, take)[0]


def test_a_pair_goes_on_while_either_question_is_open(asked: Cell, make_sample: MakeSample) -> None:
    steady, uneven = [5e6], [5e6, 6e6, 4e6, 7e6]
    both = [turn for done in range(2) for turn in turn_order(2, done)]
    assert compared(asked, 0.05, steady, steady, make_sample) == both
    assert compared(asked, None, steady, uneven, make_sample) == both, "only the candidate's own verdict is asked for"
    assert len(compared(asked, 0.05, steady, uneven, make_sample)) == 8


def test_after_a_baseline_that_failed_the_candidate_goes_on_alone(asked: Cell, make_sample: MakeSample) -> None:
    assert compared(asked, 0.05, [5e6], [0], make_sample) == [0, 1, 0]


def test_a_candidate_that_failed_ends_a_pair_at_once(asked: Cell, make_sample: MakeSample) -> None:
    assert compared(asked, 0.05, [0], [5e6], make_sample) == [0]
    assert compared(asked, 0.05, [5e6, 0], [5e6], make_sample) == [0, 1, 1, 0], "backwards in the second round"
