"""What the tap makes of packets: places in a stream, in order, each byte once."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.errors import LabFault
from lab.net.tap import Acked, Content, Mark, Unread, Woken, parse_line
from lab.net.tap_script import Stream, Tap
from tests.support.packets import ACK, CLIENT, FIN, RST, SERVER, SYN, segment


def handshake(tap: Tap, client: int = 100, server: int = 500) -> None:
    tap.packet(1, 4, segment(CLIENT, SERVER, SYN, client))
    tap.packet(2, 0, segment(SERVER, CLIENT, SYN | ACK, server))


@given(st.integers(0, 2**32 - 1), st.randoms(use_true_random=False), st.integers(1, 40))
def test_a_stream_ends_where_its_bytes_end_in_whatever_order_they_come(first: int, draw: random.Random, pieces: int) -> None:
    cuts = sorted({0, *(draw.randrange(1, 5000) for _ in range(pieces)), 5000})
    segments = [(start, end - start) for start, end in itertools.pairwise(cuts)]
    again = [draw.choice(segments) for _ in range(5)]
    order = segments + again
    draw.shuffle(order)
    stream = Stream(first)
    reached = [0]
    for start, size in order:
        moved = stream.add((first + start) & 0xFFFFFFFF, size)
        assert moved == (stream.position > reached[-1])
        reached.append(stream.position)
    assert stream.position == 5000
    assert not stream.ahead


def test_the_way_of_a_segment_is_seen_from_the_opener() -> None:
    tap = Tap(loopback=False)
    handshake(tap)
    tap.packet(3, 4, segment(CLIENT, SERVER, ACK, 101, 80))
    tap.packet(4_000, 0, segment(SERVER, CLIENT, ACK, 501, 1448))
    tap.packet(5_000, 0, segment(SERVER, CLIENT, ACK, 501, 1448))
    tap.packet(6_000, 0, segment(SERVER, CLIENT, ACK, 1949, 1448))
    tap.packet(900_000, 4, segment(CLIENT, SERVER, ACK | FIN, 181))
    tap.flush()
    assert [parse_line(line) for line in tap.lines] == [
        Mark(0, 1, opened=True, port=40_000, peer_port=80),
        Content(0, from_opener=True, t0_ns=3, t_ns=3, position=80),
        Content(0, from_opener=False, t0_ns=4_000, t_ns=6_000, position=2896),
        Mark(0, 900_000, opened=False),
    ]
    assert not tap.open


def test_an_acknowledgement_is_printed_where_it_is_asked_for() -> None:
    tap = Tap(loopback=False, acks=True)
    handshake(tap)
    tap.packet(10, 4, segment(SERVER, CLIENT, ACK, 501, 1448))
    tap.packet(40, 0, segment(CLIENT, SERVER, ACK, 101, acked=1949))
    tap.packet(50, 0, segment(CLIENT, SERVER, ACK, 101, acked=1949))
    assert [parse_line(line) for line in tap.lines[1:]] == [Acked(0, from_opener=False, t_ns=40, position=1448)]


def test_a_hole_holds_back_what_follows_it() -> None:
    tap = Tap(loopback=False)
    handshake(tap)
    tap.packet(10, 0, segment(SERVER, CLIENT, ACK, 1001, 500))
    tap.packet(300_000, 0, segment(SERVER, CLIENT, ACK, 501, 500))
    tap.flush()
    assert parse_line(tap.lines[-1]) == Content(0, from_opener=False, t0_ns=300_000, t_ns=300_000, position=1000)


def test_a_repeated_syn_is_one_connection_and_a_reused_port_another() -> None:
    tap = Tap(loopback=False)
    tap.packet(1, 4, segment(CLIENT, SERVER, SYN, 100))
    tap.packet(2, 4, segment(CLIENT, SERVER, SYN, 100))
    assert tap.count == 1
    tap.packet(3, 4, segment(CLIENT, SERVER, RST, 101))
    tap.packet(4, 4, segment(CLIENT, SERVER, SYN, 7_000))
    assert tap.count == 2
    tap.packet(5, 4, segment(CLIENT, SERVER, ACK, 7_001, 10))
    tap.flush()
    assert parse_line(tap.lines[-1]) == Content(1, from_opener=True, t0_ns=5, t_ns=5, position=10)


def test_a_packet_of_the_loopback_counts_once() -> None:
    tap = Tap(loopback=True)
    for kind in (4, 0):
        tap.packet(1, kind, segment(CLIENT, SERVER, SYN, 100))
        tap.packet(2, kind, segment(CLIENT, SERVER, ACK, 101, 10))
    tap.flush()
    assert [type(parse_line(line)) for line in tap.lines] == [Mark, Content]


def test_what_the_tap_never_prints_is_a_fault_of_the_lab() -> None:
    assert parse_line(b"q 5 77") == Unread(5, 77)
    assert parse_line(b"w 7 60000") == Woken(7, 60000)
    assert parse_line(b"t 99") == 99
    for line in (b"", b"x 1", b"d 1 > 2", b"q five 77"):
        with pytest.raises(LabFault, match="the tap printed"):
            parse_line(line)
