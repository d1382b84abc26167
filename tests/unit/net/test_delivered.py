"""What a link delivered against its trace: a frame or 1 % in a slot, 0.1 % in the mean."""

from __future__ import annotations

import pytest

from lab.net.delivered import compare

FRAME = 1514


def slots(*frames: float) -> list[int]:
    return [round(count * FRAME) for count in frames]


def test_the_trace_itself_is_right() -> None:
    found = compare(slots(100, 0, 50), slots(100, 0, 50), FRAME)
    assert (found.problems, found.worst_slot_frames, found.mean_error) == ([], 0, 0)


def test_a_frame_in_a_slot_is_allowed_and_two_are_not() -> None:
    assert compare(slots(11, 9, 10), slots(10, 10, 10), FRAME).problems == []
    found = compare(slots(12, 8, 10), slots(10, 10, 10), FRAME)
    assert found.worst_slot_frames == pytest.approx(2)
    assert found.problems == [
        "2 slots of 100 ms differ from the trace by more than 1% and a frame, the first after 0 s by +2.0 frames"
    ]


def test_a_percent_of_a_large_slot_is_allowed() -> None:
    assert compare(slots(1009, 991), slots(1000, 1000), FRAME).problems == []
    assert compare(slots(1011, 989), slots(1000, 1000), FRAME).problems


def test_what_is_missing_everywhere_is_found_in_the_mean() -> None:
    found = compare(slots(*[998.0] * 10), slots(*[1000.0] * 10), FRAME)
    assert found.problems == ["the mean is -0.200% from the trace (allowed 0.1%)"]


def test_something_in_a_stall_is_found() -> None:
    assert compare(slots(10, 2), slots(10, 0), FRAME).problems
