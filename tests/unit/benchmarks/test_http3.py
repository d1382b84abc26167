"""The study of HTTP/3: framing, the ratio of medians, and what counts as worse."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.http3 import Line, Taken, framing_of, rows_of, summary


def taken(protocol: str, rates: list[float], *, loss: float = 0.0, wire_bytes: int = 1_100_000) -> Taken:
    wire = {"wire_bytes_down": wire_bytes, "router_drops_down": 0}
    samples: list[dict[str, Any]] = [{"ok": True, "body_byte_s": rate, "wire": wire} for rate in rates]
    return Taken(Line(7, 30, loss), "ferry", protocol, "get", 1_000_000, "", samples)


def test_framing_is_what_arrived_besides_the_body() -> None:
    cells = [taken("h2", [1.0]), taken("h3", [1.0], wire_bytes=1_000_000)]
    assert framing_of(cells) == {("nginx", "ferry", "h2", "get"): pytest.approx(10 / 11), ("nginx", "ferry", "h3", "get"): 1.0}
    assert framing_of([taken("h2", [1.0], loss=1.0)]) == {}


def test_a_row_has_the_ratio_as_it_is_and_with_framing_counted() -> None:
    (row,) = rows_of([taken("h2", [1000.0]), taken("h3", [940.0], wire_bytes=1_120_000)])
    assert row["h3_to_h2"] == pytest.approx(0.94)
    assert row["h3_to_h2_framed"] == pytest.approx(0.94 * 112 / 110)
    assert row["medians"] is None
    assert row["h3_to_h2_most"] == row["h3_to_h2_framed"]
    assert "at least 0.95 of h2 on 1 of 1" in next(summary([row]))


@pytest.mark.parametrize(
    ("h3", "worse"),
    [([900.0] * 5, True), ([900.0, 900.0, 950.0, 1100.0, 1200.0], False), ([900.0] * 4, True), ([1100.0] * 5, False)],
)
def test_with_loss_h3_is_worse_where_the_interval_says_so(h3: list[float], worse: bool) -> None:
    (row,) = rows_of([taken("h2", [1000.0] * len(h3), loss=1.0), taken("h3", h3, loss=1.0)])
    assert (row["medians"] is None) == (len(h3) < 5)
    assert row["h3_to_h2_framed"] is None
    assert f"at least 1 of h2 on {0 if worse else 1} of 1" in next(summary([row]))


def test_a_line_on_which_h3_fails_counts_as_nothing() -> None:
    (row,) = rows_of([taken("h2", [1000.0]), taken("h3", [])])
    assert (row["h3_to_h2"], row["h3_to_h2_framed"], row["h3_to_h2_most"]) == (0.0, 0.0, 0.0)
