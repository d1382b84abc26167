"""Every figure of a sample, defined once: what it is called, how it is computed, on which clock it means something, how it is
printed, and how the samples of a cell are summed up. Pure.

The judge, `lab matrix`, `lab history`, `lab trend`, the exports and the reports all read `FIGURES`. To add a figure, add an
entry to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, Field

from lab.model.clock import Clock
from lab.model.numbers import geometric_mean, signed
from lab.model.sample import Sample

Needs = Literal["nothing", "pace", "processor"]
"""The basis that a figure needs to mean something. In virtual time the only cost of processing is the guest's charge for system
calls and page faults. So there is no `processor` there, and a `pace` only where the transfer has a limit or the link has a rate.
"""
Scale = Literal["ratio", "count", "signed"]
"""The comparison of two values: by their ratio, or by their difference where zero (`count`) or less (`signed`) is ordinary."""
Summary = Literal["geometric mean", "mean", "worst"]
"""The reduction of a cell's samples to one number."""
# A bound is judged as value / bound. A CPU clock that did not tick must not be infinitely far below it.
_LEAST_SHARE = 1e-3
_GB = 1e9


class Measured(Protocol):
    """The parts of a cell that a figure needs."""

    @property
    def clock(self) -> Clock: ...

    @property
    def paced(self) -> bool:
        """True if the transfer's limit or the link's rate sets the pace."""
        ...

    @property
    def limit_byte_s(self) -> int | None: ...

    @property
    def samples(self) -> Sequence[Sample]: ...


@dataclass(frozen=True)
class Unit:
    """A printed unit: `per` units of the stored value, called `base`, make one."""

    name: str = ""
    base: str = "1"
    per: float = 1.0
    digits: int | None = 2
    """Decimals; None prints a sign, and as many decimals as the value needs."""


@dataclass(frozen=True)
class Figure:
    """One figure; values are in the unit of the result's field."""

    name: str
    title: str
    of: Callable[[Sample], float | None]
    unit: Unit
    needs: Needs = "nothing"
    scale: Scale = "ratio"
    summary: Summary = "mean"
    more_is_better: bool = False
    target: float | None = None
    """The best value, where neither more nor less is better."""
    bound: float | None = None
    """The bound of `--NAME` in the name of a cell; None for a figure that a name alone cannot bound."""
    column: str = ""
    """Its short heading in a report's table of samples; empty for a figure that is not in it."""
    benchmark_unit: str = ""
    """Its unit in Go's benchmark format, where benchstat knows one."""
    from_limit: Callable[[Sample, float], float | None] | None = None
    """Computes it for a result that is older than its field."""

    def number(self, value: float) -> str:
        """The value in the printed unit, without the unit."""
        scaled = value / self.unit.per
        return signed(scaled) if self.unit.digits is None else f"{scaled:z.{self.unit.digits}f}"

    def text(self, value: float) -> str:
        """`7.1 MB`."""
        return f"{self.number(value)} {self.unit.name}".rstrip()

    @property
    def heading(self) -> str:
        """The title at the head of a column, with the unit: `Peak memory, MB`."""
        return f"{self.title[0].upper()}{self.title[1:]}{f', {self.unit.name}' if self.unit.name else ''}"

    def change(self, value: float) -> str:
        """A change of level: in percent for a figure on a ratio scale, else in the figure's own unit."""
        if self.scale == "ratio":
            return f"{value * 100:+.1f} %"
        return f"{value / self.unit.per:+.1f} {'% points' if self.unit.name == '%' else self.unit.name}".rstrip()

    def noise(self, value: float) -> str:
        """A spread from run to run: in percent for a figure on a ratio scale, else in the figure's own unit."""
        return f"{value * 100:.2f} %" if self.scale == "ratio" else self.text(value).removeprefix("+")

    def applies(self, cell: Measured) -> bool:
        """True if the figure means something on the cell's clock. The result keeps any other figure, and no page shows it."""
        return cell.clock == "real" or self.needs == "nothing" or (self.needs == "pace" and cell.paced)

    def value(self, cell: Measured, sample: Sample) -> float | None:
        """The figure of one sample of the cell; None where it is unknown or means nothing on the cell's clock."""
        if not self.applies(cell):
            return None
        value = self.of(sample)
        if value is None and self.from_limit and cell.limit_byte_s:
            return self.from_limit(sample, cell.limit_byte_s)
        return value

    def values(self, cell: Measured) -> list[float]:
        """The figure of every successful sample that has it, in the order taken."""
        found = (self.value(cell, sample) for sample in cell.samples if sample.ok)
        return [value for value in found if value is not None]

    def mean(self, values: Sequence[float]) -> float:
        """The mean of at least one value: geometric where that is the figure's summary and no value is zero."""
        geometric = self.summary == "geometric mean" and all(value > 0 for value in values)
        return (geometric_mean(values) if geometric else None) or fmean(values)

    def summarise(self, cell: Measured) -> float | None:
        """One number for the cell; None where no sample has the figure."""
        values = self.values(cell)
        if not values:
            return None
        if self.summary == "worst":
            return min(values) if self.more_is_better else max(values)
        return self.mean(values)

    def is_better(self, before: float, after: float, target: float | None = None) -> bool:
        """True if `after` is better than `before`: closer to the target where there is one, given or the figure's own."""
        best = self.target if target is None else target
        if best is not None:
            return abs(after - best) < abs(before - best)
        return (after > before) == self.more_is_better


@dataclass(frozen=True)
class Bound:
    """A figure and the value that it must not exceed, or must reach where more is better."""

    figure: Figure
    limit: float

    def fraction(self, sample: Sample) -> float | None:
        """The sample's excess over the bound, as a fraction of the bound; None where the sample does not have the figure."""
        value = self.figure.of(sample)
        if value is None or value < 0:
            return None
        share = max(value / self.limit, _LEAST_SHARE)
        return (1 / share if self.figure.more_is_better else share) - 1

    def value(self, fraction: float) -> float:
        """The figure whose fraction beyond the bound is given."""
        share = 1 + fraction
        return self.limit / share if self.figure.more_is_better else self.limit * share

    def text(self, fraction: float) -> str:
        """The figure behind a fraction, printed: `7.1 MB`."""
        return self.figure.text(self.value(fraction))

    def span(self, low: float, high: float) -> str:
        """An interval of fractions as figures, the smaller one first: `7.0 MB to 7.2 MB`."""
        return " to ".join(self.figure.text(value) for value in sorted((self.value(low), self.value(high))))

    def __str__(self) -> str:
        """`at most 64 MiB`."""
        unit = self.figure.unit
        in_mib = unit.name == "MB" and self.limit >= 1 << 20 and not self.limit % (1 << 20)
        amount = f"{self.limit / (1 << 20):g} MiB" if in_mib else f"{self.limit / unit.per:g} {unit.name}"
        return f"at {'least' if self.figure.more_is_better else 'most'} {amount.rstrip()}"


# ---------------------------------------------------------------------------------------------------------------------

_MB_S = Unit("MB/s", "B/s", 1e6, digits=3)
_MB = Unit("MB", "B", 1e6, digits=1)
_SECONDS = Unit("s", "s", digits=3)
_MS = Unit("ms", "s", 1e-3, digits=1)
_PERCENT = Unit("%", per=0.01, digits=None)
_COUNT = Unit(digits=0)


def _overall(sample: Sample) -> float | None:
    """By the time from the first packet to the process's end. None where each of several files has a limit."""
    if not (sample.total_byte_s and sample.body_byte_s and sample.deviation is not None) or sample.slowest_stream_byte_s:
        return None
    return sample.total_byte_s / (sample.body_byte_s / (1 + sample.deviation))


def _cpu_s(sample: Sample) -> float:
    return sample.cpu_user_s + sample.cpu_system_s


def _slowdown(sample: Sample) -> float | None:
    first, last = sample.first_hundred_s_per_file, sample.last_hundred_s_per_file
    return last / first - 1 if first and last else None


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "rate",
            "body rate",
            lambda sample: sample.body_byte_s,
            _MB_S,
            needs="pace",
            summary="geometric mean",
            more_is_better=True,
            column="MB/s",
            benchmark_unit="B/s",
        ),
        Figure(
            "total",
            "rate including connection set-up",
            lambda sample: sample.total_byte_s,
            _MB_S,
            needs="pace",
            summary="geometric mean",
            more_is_better=True,
        ),
        Figure("deviation", "deviation from the limit", lambda sample: sample.deviation, _PERCENT, scale="signed", target=0.0),
        Figure("slowdown", "last hundred files against the first, time per file", _slowdown, _PERCENT, scale="signed"),
        Figure(
            "burst",
            "fastest 100 ms, once begun, over what the limit allows",
            lambda sample: sample.burst_ratio,
            Unit(),
            bound=1.5,
            from_limit=lambda sample, limit: sample.series.begun_window_byte_s / limit if sample.series else None,
        ),
        Figure("overall", "bytes / complete time, over the limit", _overall, Unit(digits=4), more_is_better=True, bound=0.95),
        Figure(
            "fill",
            "body rate over the link's ideal goodput",
            lambda sample: sample.goodput_ratio,
            Unit(digits=3),
            more_is_better=True,
            bound=0.8,
        ),
        Figure(
            "peak",
            "fastest 100 ms on the wire",
            lambda sample: sample.series.worst_window_byte_s if sample.series else None,
            _MB_S,
            needs="pace",
            summary="worst",
            column="fastest 100 ms MB/s",
        ),
        Figure(
            "silence",
            "longest silence",
            lambda sample: sample.series.longest_gap_ms if sample.series else None,
            Unit("ms", "ms", digits=0),
            summary="worst",
            column="longest gap ms",
        ),
        Figure(
            "connect",
            "time to connect",
            lambda sample: sample.client.connect_s if sample.client else None,
            _MS,
            column="connect ms",
        ),
        Figure(
            "startup",
            "time to the first byte",
            lambda sample: sample.client.first_byte_s if sample.client else None,
            _MS,
            column="first byte ms",
        ),
        Figure("body", "first to last body byte", lambda sample: sample.body_s, _SECONDS, needs="pace", column="body s"),
        Figure(
            "wall",
            "process start to end",
            lambda sample: sample.wall_s,
            _SECONDS,
            needs="pace",
            column="process s",
            benchmark_unit="sec/op",
        ),
        Figure(
            "requests",
            "requests per second",
            lambda sample: sample.requests_per_s,
            _COUNT,
            needs="processor",
            more_is_better=True,
        ),
        Figure("processor", "CPU time", _cpu_s, _SECONDS, needs="processor", column="CPU s"),
        Figure(
            "cpu",
            "CPU seconds per second",
            lambda sample: _cpu_s(sample) / sample.wall_s if sample.wall_s > 0 else None,
            Unit(digits=3),
            needs="processor",
            bound=0.5,
        ),
        Figure(
            "cost",
            "CPU cost",
            lambda sample: _cpu_s(sample) / (sample.expected_bytes / _GB) if sample.expected_bytes else None,
            Unit("CPU s/GB", "CPU s/GB", digits=3),
            needs="processor",
            benchmark_unit="cpu-sec/GB",
        ),
        Figure(
            "memory",
            "peak memory",
            lambda sample: sample.max_rss_bytes,
            _MB,
            summary="worst",
            bound=float(64 << 20),
            column="RSS MB",
            benchmark_unit="peak-RSS-bytes",
        ),
        Figure(
            "retransmits",
            "segments sent again",
            lambda sample: sample.wire.retransmits if sample.wire else None,
            _COUNT,
            scale="count",
            column="retrans.",
        ),
        Figure(
            "drops",
            "packets dropped by the router",
            lambda sample: sample.wire.router_drops_down + sample.wire.router_drops_up if sample.wire else None,
            _COUNT,
            scale="count",
            column="drops",
        ),
    )
}
RATE, COST = FIGURES["rate"], FIGURES["cost"]
BOUNDED: tuple[str, ...] = tuple(figure.name for figure in FIGURES.values() if figure.scale != "signed")
"""Figures that an expectation may bound."""
BOUNDS: dict[str, float] = {figure.name: figure.bound for figure in FIGURES.values() if figure.bound is not None}
"""The bounds that the name of a cell asks for."""


def _known(name: str) -> str:
    if name not in FIGURES:
        raise ValueError(f"{name!r} is not one of {', '.join(FIGURES)}")
    return name


FigureName = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(FIGURES)})]
