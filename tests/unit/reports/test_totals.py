"""Limited transfers by their complete time, against rows of the report that had them so (public figures)."""

from __future__ import annotations

import pytest

from lab.model.results import CellResult
from lab.model.units import ByteRate, Size
from reports.totals import total_deviation, totals_of

# As published in December 2023: the limit and the rate in bit/s, then the line as printed.
PUBLISHED = [
    (8_000_000, 6473428, "time=6479 ms, dnld=5242880 B, speed=6473428 bps, spd_diff=-1526572 bps, pct=-19.1 %"),
    (16_000_000, 17831222, "time=2352 ms, dnld=5242880 B, speed=17831222 bps, spd_diff=1831222 bps, pct=11.4 %"),
    (8_000_000, 7968429, "time=5264 ms, dnld=5242880 B, speed=7968429 bps, spd_diff=-31571 bps, pct=-0.4 %"),
]


def limited(cell: CellResult, limit: int, speed: float | None, *, ok: bool = True) -> CellResult:
    transfer = cell.transfer.model_copy(update={"limit": ByteRate(limit // 8), "size": Size(5 << 20)})
    rate = None if speed is None else speed / 8
    sample = cell.samples[0].model_copy(update={"ok": ok, "total_byte_s": rate, "expected_bytes": 5 << 20})
    return cell.model_copy(update={"transfer": transfer, "samples": [sample]})


@pytest.mark.parametrize(("limit", "speed", "line"), PUBLISHED)
def test_a_line_is_as_published(cell: CellResult, limit: int, speed: int, line: str) -> None:
    found = limited(cell, limit, speed)
    (totals,) = totals_of([found])
    assert str(totals).splitlines() == [f"{cell.id}, max_speed={limit} bps ({limit // 8} B/s)", line]
    deviation = total_deviation(found, found.samples[0])
    assert deviation is not None
    assert f"{deviation * 100:.1f} %" == line.rpartition("pct=")[2]


def test_what_failed_or_has_no_limit_has_no_line(cell: CellResult) -> None:
    failed, unknown = limited(cell, 8_000_000, 6473428.0, ok=False), limited(cell, 8_000_000, None)
    free = failed.model_copy(update={"transfer": failed.transfer.model_copy(update={"limit": None})})
    assert not list(totals_of([failed, unknown, free]))
    assert [total_deviation(each, each.samples[0]) for each in (failed, unknown, free)] == [None] * 3
