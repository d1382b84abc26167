"""Packets that were counted against what a link was asked to do to them. Pure functions of numbers.

Every comparison is in standard deviations of what was asked: 4 of them are passed once in 16,000 times by chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from lab.model.impairments import GilbertElliott, Loss, StateLoss

ALLOWED_SIGMA = 4.0
# The least that a chi-square's class should be expected to hold (Cochran 1954).
_LEAST_EXPECTED = 5.0
# The correlations of a chain of states are summed until they are this small.
_NEGLIGIBLE = 1e-12
_MOST_LAGS = 100_000
TABLE_UNIT = 8192
"""tc's tables of distributions have the standard deviation in units of 1/8192 (NETEM_DIST_SCALE)."""


class Arrival(NamedTuple):
    """A received frame. Times are nanoseconds of one clock. `number` and `sent_ns` are 0 if the frame is damaged."""

    number: int
    sent_ns: int
    got_ns: int
    ecn: int
    intact: bool


@dataclass(frozen=True)
class Counted:
    """The outcome of `sent` numbered packets; `arrivals` are in the order in which they came."""

    sent: int
    arrivals: tuple[Arrival, ...]

    @property
    def intact(self) -> list[Arrival]:
        """Frames without a flipped bit, second copies too."""
        return [each for each in self.arrivals if each.intact]

    @property
    def corrupted(self) -> int:
        """Frames with a flipped bit."""
        return len(self.arrivals) - len(self.intact)

    @property
    def missing(self) -> list[int]:
        """The numbers that did not arrive intact, rising."""
        seen = {each.number for each in self.intact}
        return [number for number in range(self.sent) if number not in seen]

    @property
    def duplicated(self) -> int:
        """Numbers that arrived more than once."""
        return sum(times > 1 for times in Counter(each.number for each in self.intact).values())

    @property
    def marked(self) -> int:
        """Packets with the mark of congestion (CE, RFC 3168)."""
        return sum(each.ecn == 3 for each in self.intact)

    @property
    def delays_ns(self) -> list[int]:
        """One-way delay of each intact packet, in the order of arrival."""
        return [each.got_ns - each.sent_ns for each in self.intact]

    @property
    def overtaken(self) -> int:
        """Packets that arrived after one with a higher number."""
        found, highest = 0, -1
        for each in self.intact:
            found += each.number < highest
            highest = max(highest, each.number)
        return found


class Claim(NamedTuple):
    """One figure: what was asked, what was realised, and the standard deviation that chance gives it."""

    what: str
    asked: float
    realised: float
    sigma: float

    @property
    def deviation(self) -> float:
        """The realised value's distance from the asked one, in standard deviations."""
        off = self.realised - self.asked
        return off / self.sigma if self.sigma else math.copysign(math.inf, off) if off else 0.0

    @property
    def kept(self) -> bool:
        return abs(self.deviation) <= ALLOWED_SIGMA

    def __str__(self) -> str:
        return f"{self.what}: asked {self.asked:.6g}, realised {self.realised:.6g}, {self.deviation:+.2f} sigma"


def share_claim(what: str, asked: float, hits: int, packets: int, widened: float = 1.0) -> Claim:
    """A share of packets, each chosen by itself; `widened` multiplies the variance where they are not."""
    return Claim(what, asked, hits / packets, math.sqrt(widened * asked * (1 - asked) / packets))


class Chain(NamedTuple):
    """States with a loss each: `moves[i][j]` is the probability of going from i to j, per packet."""

    moves: tuple[tuple[float, ...], ...]
    loss: tuple[float, ...]

    def stationary(self) -> tuple[float, ...]:
        """The share of time in each state, to 1e-12."""
        now = (1.0,) + (0.0,) * (len(self.loss) - 1)
        for _ in range(_MOST_LAGS):
            after = self._moved(now)
            # Half of each: a chain that alternates settles too.
            after = tuple((a + b) / 2 for a, b in zip(now, after, strict=True))
            if max(abs(a - b) for a, b in zip(now, after, strict=True)) < _NEGLIGIBLE:
                return after
            now = after
        return now

    def share(self) -> float:
        """The share of packets lost in the long run."""
        return math.fsum(weight * loss for weight, loss in zip(self.stationary(), self.loss, strict=True))

    def widened(self) -> float:
        """The variance of a count of losses over that of independent ones: 1 + 2 x the sum of the correlations."""
        weights, share = self.stationary(), self.share()
        if not 0 < share < 1:
            return 1.0
        after_loss = tuple(weight * loss for weight, loss in zip(weights, self.loss, strict=True))
        total = 0.0
        for _ in range(_MOST_LAGS):
            after_loss = self._moved(after_loss)
            both = math.fsum(weight * loss for weight, loss in zip(after_loss, self.loss, strict=True)) - share * share
            total += both
            if abs(both) < _NEGLIGIBLE:
                break
        return 1 + 2 * total / (share * (1 - share))

    def _moved(self, weights: Sequence[float]) -> tuple[float, ...]:
        states = range(len(self.loss))
        return tuple(math.fsum(weights[i] * self.moves[i][j] for i in states) for j in states)


def chain_of(loss: Loss) -> Chain:
    """The chain of a loss, as sch_netem.c walks it."""
    if isinstance(loss, GilbertElliott):
        p, r = loss.p.value, loss.r.value
        return Chain(((1 - p, p), (r, 1 - r)), (loss.good.value, loss.bad.value))
    if isinstance(loss, StateLoss):
        return Chain(loss.chain(), (0.0, 0.0, 1.0, 1.0))
    return Chain(((1.0,),), (loss.value,))


def loss_claim(loss: Loss, counted: Counted) -> Claim:
    """The share of packets that were lost.

    A few rare bursts make a skewed count: with four bursts expected, four normal standard deviations above the mean are passed
    twice in a thousand times. Above the mean they are those of a gamma distribution (Wilson and Hilferty, 1931).
    """
    chain = chain_of(loss)
    claim = share_claim("loss", chain.share(), len(counted.missing), counted.sent, chain.widened())
    return claim._replace(sigma=_skewed_sigma(claim))


def _skewed_sigma(claim: Claim) -> float:
    if not 0 < claim.asked < claim.realised:
        return claim.sigma
    shape = (claim.asked / claim.sigma) ** 2
    deviation = 3 * math.sqrt(shape) * ((claim.realised / claim.asked) ** (1 / 3) - 1 + 1 / (9 * shape))
    # The transform is an approximation, which near the mean may be on its other side.
    return max(claim.sigma, (claim.realised - claim.asked) / deviation) if deviation > 0 else claim.sigma


def burst_claim(r: float, counted: Counted) -> Claim:
    """Lengths of bursts of loss against 1/r on average, geometric: a Gilbert-Elliott chain that loses all in its bad state."""
    numbers = counted.missing
    lengths = [len(list(run)) for _, run in groupby(enumerate(numbers), key=lambda each: each[1] - each[0])]
    return chi_square_claim("lengths of bursts", Counter(lengths), lambda length: r * (1 - r) ** (length - 1))


def chi_square_claim(what: str, found: Mapping[int, int], probability: Callable[[int], float]) -> Claim:
    """Counts of 1, 2, 3, ... against their probabilities, by chi-square.

    Classes are joined from the far end until each expects 5. In sigma by the cube root of Wilson and Hilferty (1931).
    """
    total = sum(found.values())
    classes: list[tuple[float, int]] = []
    left_expected, left_found, length = float(total), total, 1
    while left_expected - (expected := total * probability(length)) >= _LEAST_EXPECTED and expected >= _LEAST_EXPECTED:
        classes.append((expected, found.get(length, 0)))
        left_expected, left_found, length = left_expected - expected, left_found - found.get(length, 0), length + 1
    classes.append((left_expected, left_found))
    free = len(classes) - 1
    value = math.fsum((seen - expected) ** 2 / expected for expected, seen in classes)
    if not free:
        return Claim(f"{what} (too few)", 0.0, 0.0, 0.0)
    return Claim(
        f"{what}, chi-square of {free}",
        1 - 2 / (9 * free),
        (value / free) ** (1 / 3),
        math.sqrt(2 / (9 * free)),
    )


def moment_claims(what: str, asked_ns: Iterable[float], found_ns: Sequence[int]) -> list[Claim]:
    """Mean and standard deviation of delays against those of all values that were asked for, each as likely."""
    values = list(asked_ns)
    mean, variance, fourth = _moments(values)
    found_mean, found_variance, _ = _moments(found_ns)
    count = len(found_ns)
    spread = math.sqrt(variance)
    # The variance of a sample's variance is (m4 - s^4) / n; that of its root follows by the delta method.
    of_spread = math.sqrt(max(0.0, fourth - variance**2) / count) / (2 * spread)
    return [
        Claim(f"{what}: mean, ms", mean / 1e6, found_mean / 1e6, spread / math.sqrt(count) / 1e6),
        Claim(f"{what}: standard deviation, ms", spread / 1e6, math.sqrt(found_variance) / 1e6, of_spread / 1e6),
    ]


def _moments(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, second and fourth central moment."""
    mean = math.fsum(values) / len(values)
    second, fourth = (math.fsum((value - mean) ** power for value in values) / len(values) for power in (2, 4))
    return mean, second, fourth


def codel_drops(seconds: float, *, interval_s: float) -> int:
    """The number of packets that CoDel drops or marks in that time of a queue that never empties.

    The time begins with the first packet above the target. The first drop comes after an interval, each further one
    interval / sqrt(count) after the drop before (RFC 8289, 4.2).
    """
    at, drops = interval_s, 0
    while at <= seconds:
        drops += 1
        at += interval_s / math.sqrt(drops)
    return drops


def red_claim(probability: float, marked: int, packets: int) -> Claim:
    """Marks of a RED whose average queue stands still; `probability` is that of its curve.

    The kernel's red.h marks the packet at which count x probability reaches a random number from 0 to 1: the distance between two
    marks is uniform up to 1 / probability, and a renewal process of them has this mean and variance.
    """
    mean, variance = 1 / (2 * probability) + 0.5, 1 / (12 * probability**2)
    return Claim("marks of red", packets / mean, marked, math.sqrt(packets * variance / mean**3))
