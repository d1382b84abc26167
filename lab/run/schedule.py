"""The choice of the cell for the next transfer, when cells share a link. Looks at the samples taken so far, and takes none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lab.judge.regression import pairs_wanted
from lab.judge.sweep import Arm, rounds_wanted, turn_order
from lab.judge.tolerance import LookPlan, samples_wanted
from lab.model.cell import Cell
from lab.model.results import Sample

Turn = tuple[int, int]
"""The cell's index, and how many samples of it the next look needs."""

Schedule = Callable[[Sequence[Sequence[Sample]]], Iterator[Turn]]
"""Given lists of samples per cell that grow while it is iterated, yields turns until there is nothing more to learn."""


def until_decided(cell: Cell, looks: LookPlan) -> Schedule:
    """One cell, look by look; a failed transfer ends it."""

    def turns(samples: Sequence[Sequence[Sample]]) -> Iterator[Turn]:
        (own,) = samples
        while (goal := samples_wanted(own, cell.expectation, looks)) is not None:
            while len(own) < goal:
                yield 0, goal
                if not own[-1].ok:
                    return

    return turns


def round_robin(names: Sequence[str], floor: float, looks: LookPlan) -> Schedule:
    """Several settings, a transfer of each per round, look by look; a failed transfer ends it within the round."""

    def turns(samples: Sequence[Sequence[Sample]]) -> Iterator[Turn]:
        arms = [Arm(name, own) for name, own in zip(names, samples, strict=True)]
        while (goal := rounds_wanted(arms, floor, looks)) is not None:
            while (done := len(samples[0])) < goal:
                for index in turn_order(len(arms), done):
                    yield index, goal
                    if not samples[index][-1].ok:
                        return

    return turns


def fixed_rounds(rounds: int) -> Schedule:
    """Several cells, a transfer of each per round, and no look: nothing is to be decided. A failed transfer ends it."""

    def turns(samples: Sequence[Sequence[Sample]]) -> Iterator[Turn]:
        for done in range(rounds):
            for index in turn_order(len(samples), done):
                yield index, rounds
                if not samples[index] or not samples[index][-1].ok:
                    return

    return turns


def compared(wanted: Callable[[Sequence[Sample], Sequence[Sample]], int | None]) -> Schedule:
    """A candidate's cell (the first) and a baseline's, a transfer of each per round, up to the number that `wanted` says.

    It goes on after a failed transfer: whether the other one fails as well is part of the question.
    """

    def turns(samples: Sequence[Sequence[Sample]]) -> Iterator[Turn]:
        own, other = samples
        while (goal := wanted(own, other)) is not None:
            while (done := len(own)) < goal:
                for index in turn_order(2, done):
                    yield index, goal

    return turns


def beside_baseline(cell: Cell, margin: float | None, looks: LookPlan) -> Schedule:
    """A candidate's cell (the first) and a baseline's, a transfer of each per round, while either question is open.

    They are the candidate's own verdict and, with a `margin`, the comparison. A failed transfer of the candidate ends it; after
    one of the baseline the candidate goes on alone.
    """

    def turns(samples: Sequence[Sequence[Sample]]) -> Iterator[Turn]:
        own, other = samples

        def wanted() -> int | None:
            alone = samples_wanted(own, cell.expectation, looks)
            compared = pairs_wanted(own, other, margin, looks) if margin is not None else None
            return max((goal for goal in (alone, compared) if goal is not None), default=None)

        while (goal := wanted()) is not None:
            while (done := len(own)) < goal:
                failed = any(not sample.ok for sample in other)
                for index in [0] if failed else turn_order(2, done):
                    yield index, goal
                    if own and not own[-1].ok:
                        return

    return turns
