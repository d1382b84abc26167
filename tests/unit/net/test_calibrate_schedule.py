"""How long a calibration counts."""

from __future__ import annotations

import pytest

from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.calibrate import schedule


@pytest.mark.parametrize(
    ("rate", "rtt", "real_s", "virtual_s"),
    [
        ("7 Mbit/s", "2 ms", 1.04, 30.0),
        ("20 Mbit/s", "20 ms", 0.75, 12.1),
        ("1 Gbit/s", "600 ms", 3.0, 3.0),
        ("100 kbit/s", "2 ms", 12.11, 30.0),
    ],
)
def test_windows_in_virtual_time_hold_more_packets(rate: str, rtt: str, real_s: float, virtual_s: float) -> None:
    link = Link(rate=BitRate.parse(rate), rtt=Duration.parse(rtt))
    assert schedule(link, "up").window_s == pytest.approx(real_s, abs=0.02)
    assert schedule(link, "up", "virtual").window_s == pytest.approx(virtual_s, abs=0.1)
