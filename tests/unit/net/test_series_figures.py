"""Figures of a series at their edges: what is late, what counts as data, what a window and a gap are."""

from __future__ import annotations

from itertools import accumulate

import pytest

from lab.net.series import BodySpan, Reading, body_span, build_series, header_bytes, late_slots, payload_between

MS = 1_000_000


def readings(payloads: list[int], step_ms: int = 10, headers: int = 66) -> list[Reading]:
    """One packet with that payload per step, none for 0."""
    sizes = accumulate((size + headers if size else 0 for size in payloads), initial=0)
    packets = accumulate((1 if size else 0 for size in payloads), initial=0)
    return [Reading(index * step_ms * MS, size, number) for index, (size, number) in enumerate(zip(sizes, packets, strict=True))]


def test_a_datagram_of_quic_has_smaller_headers() -> None:
    assert header_bytes("h3") == 14 + 20 + 8
    assert {header_bytes(each) for each in ("http1", "https1", "h2", "sftp")} == {66}
    assert payload_between(Reading(0, 0, 0), Reading(1, 1242, 1), header_bytes("h3")) == 1200
    found = build_series(readings([1200] * 3, headers=42), headers=42)
    assert found
    assert found.goodput_bit_s == [960_000] * 3


@pytest.mark.parametrize(("off_ms", "late"), [(0, 0), (5, 0), (5.000001, 1), (9.9, 1)])
def test_more_than_half_an_interval_is_late(off_ms: float, late: int) -> None:
    base = 100 * MS
    times = [base, base + 10 * MS + round(off_ms * MS), base + 20 * MS]
    assert late_slots(times, base, 10 * MS) == late


def test_every_reading_that_never_came_is_late() -> None:
    assert late_slots([0, 10 * MS, 20 * MS], 0, 10 * MS) == 0
    assert late_slots([0, 20 * MS, 50 * MS], 0, 10 * MS) == 1 + 2
    assert late_slots([7 * MS, 17 * MS, 28 * MS], 7 * MS, 10 * MS) == 0, "counted from the first instant that was due"
    assert late_slots([0, 1 * MS, 2 * MS], 0, 10 * MS) == 0, "two readings of one slot make up for none"
    assert late_slots([], 0, 10 * MS) == 0


@pytest.mark.parametrize(("payload", "data"), [(63, False), (64, True)])
def test_from_64_bytes_on_it_is_data(payload: int, data: bool) -> None:
    assert (build_series(readings([0, payload, 0])) is not None) == data
    found = build_series(readings([1000, payload, payload, 1000]))
    assert found
    assert found.longest_gap_ms == (0 if data else 20)
    assert len(found.goodput_bit_s) == 4
    found = build_series(readings([payload, 1000, payload]))
    assert found
    assert len(found.goodput_bit_s) == (3 if data else 1)


def test_a_series_begins_and_ends_with_data() -> None:
    found = build_series(readings([0, 0, 100, 0, 200, 0]))
    assert found
    assert found.goodput_bit_s == [80_000, 0, 160_000]
    assert (found.slot_ms, found.longest_gap_ms, found.late_slots) == (10, 10, 0)


def test_what_was_late_is_handed_on() -> None:
    found = build_series(readings([100]), late=7)
    assert found
    assert found.late_slots == 7


def test_slots_may_be_longer_than_readings() -> None:
    found = build_series(readings([100, 300, 500]), slot_ns=20 * MS)
    assert found
    assert (found.slot_ms, found.goodput_bit_s) == (20, [400 * 8 * 50, 500 * 8 * 50])


def test_a_step_is_spread_over_the_slots_that_it_touches() -> None:
    rows = [Reading(0, 0, 0), Reading(25 * MS, 566, 1), Reading(30 * MS, 766, 2)]
    found = build_series(rows)
    assert found
    # 500 bytes in 25 ms, 134 in the last five.
    assert found.goodput_bit_s == pytest.approx([200 * 800, 200 * 800, 100 * 800 + 134 * 800])


@pytest.mark.parametrize(("slots", "windows"), [(9, (None, None)), (10, (1000, None)), (11, (1000, None)), (12, (1000, 1000))])
def test_a_window_is_ten_slots_and_the_slowest_leaves_both_ends_out(slots: int, windows: tuple[float | None, ...]) -> None:
    found = build_series(readings([100] * slots))
    assert found
    expected = tuple(None if each is None else pytest.approx(each * 10) for each in windows)
    assert (found.worst_window_byte_s, found.slowest_window_byte_s) == expected


def test_the_worst_window_is_the_fullest_and_the_slowest_the_emptiest() -> None:
    found = build_series(readings([100, *[100] * 5, *[400] * 10, *[100] * 12, *[200] * 10]))
    assert found
    assert found.worst_window_byte_s == pytest.approx(40_000)
    assert found.slowest_window_byte_s == pytest.approx(10_000)


def span(before: list[int], content: int, steps: int, after: list[int]) -> BodySpan | None:
    return body_span(readings([*before, *[content] * steps, *after]))


def test_a_body_begins_after_eight_kilobytes_and_ends_before_the_last() -> None:
    """Each end is in the middle of two readings."""
    found = span([2048, 2048, 2048, 2047], 10_000, 12, [1023])
    assert found == BodySpan(45 * MS, 155 * MS), "8191 bytes before it and 1023 after it"
    assert span([2048, 2048, 2048, 2048], 10_000, 12, [1023]) == BodySpan(45 * MS, 155 * MS)
    assert span([2048, 2048, 2048, 2049], 10_000, 12, [1023]) == BodySpan(35 * MS, 155 * MS), "one byte more is content"
    assert span([2048, 2048, 2048, 2048], 10_000, 12, [1024]) == BodySpan(45 * MS, 165 * MS)


def test_a_body_without_ten_readings_of_its_own_is_not_known() -> None:
    assert span([100], 9_000, 12, [0]) == BodySpan(15 * MS, 125 * MS)
    assert span([100], 20_000, 11, [0]) == BodySpan(15 * MS, 115 * MS)
    assert span([100], 20_000, 10, [0]) is None
    assert body_span(readings([9_000] * 20)) == BodySpan(5 * MS, 195 * MS)


def test_a_body_of_less_than_64_kilobytes_is_not_known() -> None:
    assert span([0], (64 << 10) // 16, 16, [0]) == BodySpan(35 * MS, 165 * MS)
    assert span([0], (64 << 10) // 16 - 1, 16, [0]) is None


def test_too_few_readings_are_not_looked_at() -> None:
    assert body_span(readings([50_000] * 8)) is None
    assert body_span([]) is None
