"""Limited transfers by their complete time, connection included, as the mail of December 2023 printed them: a line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from lab.model.results import CellResult
from lab.model.sample import Sample


@dataclass(frozen=True)
class Total:
    """One transfer; rates in bit/s, `difference` and `percent` against the limit."""

    time_ms: int
    bytes: int
    speed: int
    difference: int
    percent: float

    def __str__(self) -> str:
        return (
            f"time={self.time_ms} ms, dnld={self.bytes} B, speed={self.speed} bps, spd_diff={self.difference} bps, "
            f"pct={self.percent:z.1f} %"
        )


@dataclass(frozen=True)
class Totals:
    """The transfers of one cell."""

    cell: str
    limit: int
    """In bit/s."""
    rows: tuple[Total, ...]

    def __str__(self) -> str:
        lines = [f"{self.cell}, max_speed={self.limit} bps ({self.limit // 8} B/s)", *map(str, self.rows)]
        return "\n".join(lines)

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def totals_of(cells: Iterable[CellResult]) -> Iterator[Totals]:
    """Every cell with a limit that has a successful transfer."""
    for cell in cells:
        if not cell.transfer.limit:
            continue
        limit = cell.transfer.limit.byte_s * 8
        rows = tuple(row for sample in cell.samples if (row := _total(sample, limit)))
        if rows:
            yield Totals(cell.id, limit, rows)


def total_deviation(cell: CellResult, sample: Sample) -> float | None:
    """The deviation of the rate of the complete time from the limit, as a fraction; None where either is missing."""
    if not cell.transfer.limit or not sample.ok or not sample.total_byte_s:
        return None
    return sample.total_byte_s / cell.transfer.limit.byte_s - 1


def _total(sample: Sample, limit: int) -> Total | None:
    if not sample.ok or not sample.total_byte_s:
        return None
    moved, speed = sample.expected_bytes, sample.total_byte_s * 8
    return Total(
        time_ms=round(moved / sample.total_byte_s * 1000),
        bytes=moved,
        speed=round(speed),
        difference=round(speed - limit),
        percent=(speed / limit - 1) * 100,
    )
