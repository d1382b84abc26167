"""`lab harm` without --size: what the line carries in twenty seconds."""

from __future__ import annotations

import pytest

from lab.cli.harm import _line_size
from lab.model.errors import UsageProblem
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.units import BitRate, Duration


def line(**link: object) -> Topology:
    return Topology(name="line", description="-", link=Link(rtt=Duration.parse("20 ms"), **link))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "size_bytes"),
    [("20 Mbit/s", 48_000_000), ("18 kbit/s", 1_000_000), ("1 Gbit/s", 100_000_000)],
    ids=["twenty seconds", "at least one megabyte", "at most a hundred"],
)
def test_the_line_decides_how_much_is_moved(rate: str, size_bytes: int) -> None:
    """20 Mbit/s carry 47.8 MB of payload in 20 s (95.6 %)."""
    assert _line_size(line(rate=BitRate.parse(rate)), "http1-get").bytes == size_bytes


def test_each_direction_has_its_own_rate() -> None:
    both = line(rate=BitRate.parse("20 Mbit/s"), up={"rate": BitRate.parse("4 Mbit/s")})
    assert (_line_size(both, "sftp-get").bytes, _line_size(both, "sftp-put").bytes) == (48_000_000, 10_000_000)


def test_a_line_without_a_rate_needs_a_size() -> None:
    with pytest.raises(UsageProblem, match="line has no rate"):
        _line_size(line(), "http1-get")
