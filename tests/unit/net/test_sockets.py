"""What is read of a kernel's connections."""

from __future__ import annotations

import pytest

from lab.model.errors import LabFault
from lab.net.sockets import Look, parse_line
from lab.net.watch import is_policer

LOOK = Look(*range(1, 22))


def test_a_line_is_a_look_or_a_time() -> None:
    assert parse_line(b"k " + " ".join(map(str, LOOK)).encode()) == LOOK
    assert parse_line(b"t 7") == 7


@pytest.mark.parametrize("line", [b"", b"t", b"k 1 2", b"k x", b"q 1"])
def test_anything_else_is_the_labs_fault(line: bytes) -> None:
    with pytest.raises(LabFault, match="cannot be read"):
        parse_line(line)


def test_a_policer_is_a_bucket_without_a_queue() -> None:
    assert is_policer({"kind": "tbf", "options": {"limit": 1514}})
    assert not is_policer({"kind": "tbf", "options": {"limit": 100_000}})
    assert not is_policer({"kind": "netem", "options": {"limit": 10}})


@pytest.mark.parametrize(
    ("unsent", "mss", "cwnd", "unacked", "waits"),
    [
        (1448, 1448, 10, 9, True),
        (1447, 1448, 10, 9, False),  # Nagle may hold back less than a segment
        (1, 1, 10, 9, True),
        (0, 0, 10, 9, False),
        (0, 1448, 10, 10, True),
        (0, 1448, 10, 11, True),
        (0, 1448, 1, 1, True),
        (0, 1448, 0, 0, False),
    ],
)
def test_a_sender_waits_for_the_network_with_a_segment_unsent_or_its_window_used_up(
    unsent: int, mss: int, cwnd: int, unacked: int, waits: bool
) -> None:
    assert LOOK._replace(unsent=unsent, mss=mss, cwnd=cwnd, unacked=unacked).waits_for_network == waits


@pytest.mark.parametrize(
    ("ssthresh", "retransmits", "slow"), [(0x7FFFFFFF, 0, True), (0x7FFFFFFF, 1, False), (0x7FFFFFFE, 0, False)]
)
def test_slow_start_lasts_until_something_was_lost(ssthresh: int, retransmits: int, slow: bool) -> None:
    assert LOOK._replace(ssthresh=ssthresh, retransmits=retransmits).slow_start == slow
