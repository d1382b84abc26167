"""The statistics of counted packets."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from lab.link import counting
from lab.link.counting import Arrival, Chain, Counted
from lab.model.impairments import GilbertElliott, StateLoss


def test_a_gilbert_chain_has_its_known_share_and_memory() -> None:
    loss = GilbertElliott.model_validate({"model": "gilbert-elliott", "p": "2 %", "r": "20 %"})
    chain = counting.chain_of(loss)
    assert chain.share() == pytest.approx(loss.value) == pytest.approx(1 / 11)
    # Correlation 1 - p - r = 0.78 per packet.
    assert chain.widened() == pytest.approx(1.78 / 0.22, rel=1e-6)
    assert Chain(((1.0,),), (0.3,)).widened() == pytest.approx(1)


def test_the_share_of_the_four_states_is_that_of_their_chain() -> None:
    words = {"p13": "3 %", "p31": "20 %", "p32": "30 %", "p23": "40 %", "p14": "1 %"}
    loss = StateLoss.model_validate({"model": "state", **words})
    assert counting.chain_of(loss).share() == pytest.approx(loss.value, rel=1e-6)


def test_chi_square_tells_lengths_from_others() -> None:
    draw = random.Random(1)
    found: Counter[int] = Counter()
    for _ in range(500):
        length = 1
        while draw.random() > 0.25:
            length += 1
        found[length] += 1

    def geometric(r: float) -> counting.Claim:
        return counting.chi_square_claim("lengths", found, lambda length: r * (1 - r) ** (length - 1))

    assert geometric(0.25).kept
    assert not geometric(0.4).kept
    assert not geometric(0.15).kept


def test_a_claim_is_kept_up_to_four_sigma() -> None:
    assert counting.share_claim("loss", 0.5, 5200, 10_000).deviation == pytest.approx(4)
    assert counting.share_claim("loss", 0.5, 5199, 10_000).kept
    assert not counting.share_claim("loss", 0.5, 5201, 10_000).kept
    assert not counting.share_claim("loss", 0.0, 1, 10_000).kept


def test_what_was_counted() -> None:
    arrivals = [Arrival(number, 0, 5, ecn, intact) for number, ecn, intact in ((0, 0, True), (2, 3, True), (1, 0, True))]
    found = Counted(5, (*arrivals, arrivals[0], Arrival(0, 0, 9, 0, intact=False)))
    assert (found.missing, found.duplicated, found.corrupted, found.marked) == ([3, 4], 1, 1, 1)
    assert found.overtaken == 2, "number 1, and the second copy of 0"


def test_codel_and_red_by_hand() -> None:
    # 0.1, 0.2, 0.2707, 0.3284 s.
    assert [counting.codel_drops(seconds, interval_s=0.1) for seconds in (0.05, 0.15, 0.25, 0.33)] == [0, 1, 2, 4]
    assert counting.red_claim(0.1, 182, 1000).kept
    assert not counting.red_claim(0.1, 300, 1000).kept


def test_a_few_rare_bursts_are_kept_and_many_are_not() -> None:
    """Four bursts of five packets are expected; by four normal sigma some ten of these counts would be a deviation."""
    loss = GilbertElliott.model_validate({"model": "gilbert-elliott", "p": "0.02 %", "r": "20 %"})
    draw, packets = random.Random(1), 20_000

    def claim(lost: int) -> counting.Claim:
        return counting.loss_claim(
            loss, Counted(packets, tuple(Arrival(number, 0, 0, 0, True) for number in range(packets - lost)))
        )

    def geometric(p: float) -> int:
        return int(math.log(1 - draw.random()) / math.log(1 - p)) + 1

    counts: Counter[int] = Counter()
    for _ in range(5_000):
        at, lost = geometric(0.0002), 0
        while at <= packets:
            length = geometric(0.2)
            lost, at = lost + length, at + length + geometric(0.0002)
        counts[lost] += 1
    kept = {lost: claim(lost).kept for lost in [*counts, 130, 400]}
    assert sum(number for lost, number in counts.items() if not kept[lost]) <= 1
    assert not kept[400]
    assert not kept[130]
