"""Series from counter readings, in virtual time: no clock is read here."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.net.series import HEADER_BYTES, SLOT_NS, Reading, body_span, build_series, late_slots, payload_between

MS = 1_000_000
FRAME = 1514


def readings(frames: list[int], steps_ms: list[int] | None = None, start_ns: int = 12_345_678) -> list[Reading]:
    """Full frames per interval; intervals of 10 ms unless said otherwise."""
    times = accumulate(steps_ms or [10] * len(frames), initial=0)
    return [
        Reading(start_ns + t * MS, 1000 + n * FRAME, 5 + n) for t, n in zip(times, accumulate(frames, initial=0), strict=True)
    ]


def test_payload_is_what_headers_leave() -> None:
    assert payload_between(Reading(0, 0, 0), Reading(1, 2 * FRAME, 2)) == 2 * 1448
    assert payload_between(Reading(0, 0, 0), Reading(1, 42, 1)) == 0  # an ARP reply


def test_constant_rate_is_constant() -> None:
    series = build_series(readings([0, 0, *[7] * 30, 0, 0]))
    assert series is not None
    assert series.goodput_bit_s == pytest.approx([7 * 1448 * 8 * 100] * 30)
    assert series.worst_window_byte_s == pytest.approx(7 * 1448 * 100)
    assert series.slowest_window_byte_s == pytest.approx(7 * 1448 * 100)
    assert series.longest_gap_ms == 0


def test_the_body_of_a_client_without_a_report_lies_between_its_handshake_and_its_farewell() -> None:
    # Three readings of key exchange, a silence, thirty of content, a silence.
    found = body_span(readings([1, 0, 1, 1, 0, *[50] * 30, 0, 0]))
    assert found is not None
    assert (found.start_ns - 12_345_678, found.end_ns - 12_345_678) == (55 * MS, 345 * MS)


@pytest.mark.parametrize(
    "frames",
    [[], [1] * 20, [0] * 20, [500] * 5, [0, *[500] * 8, 0, 0, 0, 0], [9000, *[0] * 20]],
    ids=["nothing", "little", "silence", "few", "short", "at once"],
)
def test_a_body_that_the_readings_do_not_show_clearly_has_no_span(frames: list[int]) -> None:
    assert body_span(readings(frames)) is None


@given(st.lists(st.integers(0, 1000), max_size=60))
def test_a_span_lies_within_its_readings(frames: list[int]) -> None:
    rows = readings(frames)
    found = body_span(rows)
    if found is not None:
        assert rows[0].t_ns < found.start_ns < found.end_ns < rows[-1].t_ns


def test_burst_and_silence_show() -> None:
    series = build_series(readings([5, *[0] * 40, 900, *[5] * 12]))
    assert series is not None
    assert series.longest_gap_ms == 400
    assert series.worst_window_byte_s == pytest.approx((900 + 9 * 5) * 1448 * 10)
    assert series.slowest_window_byte_s == 0


def test_a_late_reading_is_not_a_burst() -> None:
    """A reading 30 ms late holds four slots' data; spread over its time the rate stays the same."""
    series = build_series(readings([4, 4, 16, 4, 4], [10, 10, 40, 10, 10]))
    assert series is not None
    assert series.goodput_bit_s == pytest.approx([4 * 1448 * 8 * 100] * 8)


@pytest.mark.parametrize("frames", [[], [0], [0, 0, 0]])
def test_without_data_there_is_no_series(frames: list[int]) -> None:
    assert build_series(readings(frames)) is None


def test_handshake_and_acknowledgements_do_not_count_as_data() -> None:
    small = [Reading(0, 0, 0), Reading(10 * MS, 74, 1), Reading(20 * MS, 74 + 78, 2), Reading(30 * MS, 74 + 78 + 66, 3)]
    assert build_series(small) is None


def test_short_transfer_has_no_windows() -> None:
    series = build_series(readings([3, 3]))
    assert series is not None
    assert (series.worst_window_byte_s, series.slowest_window_byte_s) == (None, None)


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 90)), min_size=1, max_size=60), st.integers(0, 10**12))
def test_payload_is_conserved_and_windows_bound_the_mean(steps: list[tuple[int, int]], start_ns: int) -> None:
    rows = readings([frames for frames, _ in steps], [ms for _, ms in steps], start_ns)
    series = build_series(rows)
    total = payload_between(rows[0], rows[-1])
    if series is None:
        assert total == 0
        return
    assert sum(series.goodput_bit_s) * SLOT_NS / 8e9 == pytest.approx(total)
    assert min(series.goodput_bit_s) >= 0
    if series.worst_window_byte_s is not None and series.slowest_window_byte_s is not None:
        assert series.worst_window_byte_s >= series.slowest_window_byte_s
    assert 0 <= series.longest_gap_ms <= sum(ms for _, ms in steps)


def test_late_slots_counts_late_and_missing() -> None:
    on_time = [100, 110, 120]
    assert late_slots([t * MS for t in on_time], 100 * MS, 10 * MS) == 0
    assert late_slots([100 * MS, 116 * MS, 120 * MS], 100 * MS, 10 * MS) == 1
    assert late_slots([100 * MS, 140 * MS], 100 * MS, 10 * MS) == 3


def test_header_is_ethernet_ip_tcp_with_timestamps() -> None:
    assert HEADER_BYTES == 14 + 20 + 20 + 12
