"""The one number of a whole transfer that an expectation with a bound is about, and how it is told: in its own unit. Pure.

It is judged as value / bound - 1 (bound / value - 1 where more is better), which must be at most 0. That fraction is what the
verdict's interval holds; people are told the number itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.result.models import Interval, Sample
from lab.spec.models import BoundKind, Expectation

# So far below any bound that it decides alone: a CPU clock that did not tick is no infinite distance.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class Figure:
    """`of` a sample that knows it; `unit` is how many of the number's own are one of what is told, `name` what it is called."""

    name: str
    of: Callable[[Sample], float | None]
    digits: int = 2
    unit: float = 1.0
    suffix: str = ""
    at_least: bool = False

    def tell(self, value: float) -> str:
        return f"{value / self.unit:.{self.digits}f}{self.suffix}"


@dataclass(frozen=True)
class Asked:
    """A figure against its bound."""

    figure: Figure
    bound: float

    def fraction(self, sample: Sample) -> float | None:
        """Above 0 is beyond the bound; None where the sample does not have the number."""
        value = self.figure.of(sample)
        if value is None or value < 0:
            return None
        share = max(value / self.bound, _LEAST_SHARE)
        return (1 / share if self.figure.at_least else share) - 1

    def value(self, fraction: float) -> float:
        """The number whose fraction that is."""
        share = 1 + fraction
        return self.bound / share if self.figure.at_least else self.bound * share

    def told(self, fraction: float) -> str:
        """`7.1 MB`."""
        return self.figure.tell(self.value(fraction))

    def span(self, interval: Interval) -> str:
        """`7.0 MB to 7.2 MB`, the smaller number first."""
        low, high = sorted((self.value(interval.low), self.value(interval.high)))
        return f"{self.figure.tell(low)} to {self.figure.tell(high)}"

    def __str__(self) -> str:
        """`at most 64 MiB`."""
        whole = f"{self.bound / (1 << 20):g} MiB" if self.figure.suffix == " MB" and not self.bound % (1 << 20) else ""
        return f"at {'least' if self.figure.at_least else 'most'} {whole or self._bare()}"

    def _bare(self) -> str:
        return f"{self.bound / self.figure.unit:g}{self.figure.suffix}"


def asked(expectation: Expectation) -> Asked | None:
    """None for an expectation that is about something else."""
    if expectation.named is None or expectation.bound is None:
        return None
    return Asked(_FIGURES[expectation.named], expectation.bound)


def _cpu_share(sample: Sample) -> float | None:
    return (sample.cpu_user_s + sample.cpu_system_s) / sample.wall_s if sample.wall_s > 0 else None


_FIGURES: dict[BoundKind, Figure] = {
    "burst": Figure("fastest 100 ms, once begun, over what the limit allows", lambda sample: sample.burst_ratio),
    "memory": Figure("peak memory", lambda sample: sample.max_rss_bytes, digits=1, unit=1e6, suffix=" MB"),
    "cpu": Figure("CPU seconds per second", _cpu_share, digits=3),
    "fill": Figure("body rate over the link's ideal goodput", lambda sample: sample.goodput_ratio, digits=3, at_least=True),
}
