"""The speed-up that an automatic send buffer brings: a ratio of paired times."""

from __future__ import annotations

import pytest

from lab.result.finding import FindingRow
from lab.runner.send_buffers import judge, speed_up
from lab.spec.units import Size

FIXED = Size(64 << 10)


def rows(*pairs: tuple[float, float]) -> list[FindingRow]:
    made = []
    for fixed, automatic in pairs:
        for name, time_s in (("fixed", fixed), ("automatic", automatic)):
            made.append(FindingRow(name=name, figures={"time_s": time_s}))
    return made


def test_the_speed_up_is_the_ratio_of_each_round() -> None:
    found = speed_up(rows((10.0, 2.0), (5.0, 1.0), (20.0, 4.0)))
    assert found is not None
    assert (found.n, found.mean, found.low, found.high) == (3, *[pytest.approx(5.0)] * 3)
    slower = speed_up(rows((1.0, 2.0), (1.0, 4.0)))
    assert slower is not None
    assert slower.low < slower.mean == pytest.approx(8**-0.5)


def test_one_round_has_no_interval_and_a_failed_upload_fails() -> None:
    assert speed_up(rows((1.0, 2.0))) is None
    assert judge(rows((1.0, 2.0)), FIXED).name == "PASS"
    verdict = judge([*rows((10.0, 2.0), (5.0, 1.0)), FindingRow(name="fixed", problem="short", figures={"time_s": 1.0})], FIXED)
    assert (verdict.name, verdict.interval) == ("FAIL", None)
    assert "5.00 times as fast" in judge(rows((10.0, 2.0), (5.0, 1.0)), FIXED).reason
