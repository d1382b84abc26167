"""What the tap reads of a packet's headers, and what the kernel's filter lets through to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.net import tap_script
from lab.net.tap import Acked, Content, Event, Mark, over_ipv6, parse_line
from lab.net.tap_script import Stream, Tap
from tests.support.filtered import filtered
from tests.support.packets import (
    ACK,
    CLIENT,
    CLIENT6,
    FIN,
    ICMP6,
    RST,
    SERVER,
    SERVER6,
    SYN,
    TCP,
    End,
    datagram,
    ipv4,
    ipv6,
    segment,
)

IN, OUT = 0, 4
PUSH = 8


def events(tap: Tap) -> list[Event | int]:
    tap.flush()
    return [parse_line(line) for line in tap.lines]


@pytest.mark.parametrize(("client", "server"), [(CLIENT, SERVER), (CLIENT6, SERVER6)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(("words", "options"), [(0, b""), (3, b""), (10, bytes(40))], ids=["short", "usual", "long"])
def test_content_is_what_the_lengths_of_all_headers_leave(client: End, server: End, words: int, options: bytes) -> None:
    tap = Tap(loopback=False)
    tap.packet(1, OUT, segment(client, server, SYN, 100, words=words, options=options))
    tap.packet(2, IN, segment(server, client, SYN | ACK, 500, words=words, options=options))
    tap.packet(3, OUT, segment(client, server, ACK, 101, words=words, options=options))
    tap.packet(4, OUT, segment(client, server, ACK | PUSH, 101, 7, words=words, options=options))
    tap.packet(5, IN, segment(server, client, ACK, 501, 1, words=words, options=options))
    assert events(tap) == [
        Mark(0, 1, opened=True, port=40_000, peer_port=80, ipv6=client == CLIENT6),
        Content(0, from_opener=True, t0_ns=4, t_ns=4, position=7),
        Content(0, from_opener=False, t0_ns=5, t_ns=5, position=1),
    ]


def test_what_is_cut_short_or_not_tcp_is_not_read() -> None:
    tap = Tap(loopback=False)
    # IPv4's protocol is looked at by the kernel's filter already.
    tap.packet(1, IN, ipv6(CLIENT6[0], SERVER6[0], ICMP6, segment(CLIENT6, SERVER6, SYN, 1)[40:]))
    for whole, head in ((segment(CLIENT, SERVER, SYN, 100), 20), (segment(CLIENT6, SERVER6, SYN, 100), 40)):
        tap.packet(1, IN, whole[: head + 13])
        assert not tap.lines
        tap.packet(1, IN, whole[: head + 14])
        assert len(tap.lines) == 1, "the flags are the last that is read"
        tap.lines.clear()


def test_packets_of_no_known_connection_are_not_read() -> None:
    tap = Tap(loopback=False)
    tap.packet(1, IN, segment(SERVER, CLIENT, SYN | ACK, 500))
    tap.packet(2, IN, segment(SERVER, CLIENT, ACK, 501, 10))
    tap.packet(3, IN, segment(SERVER, CLIENT, FIN | ACK, 511))
    assert (events(tap), tap.connections, tap.streams) == ([], {}, {})


def test_a_connection_is_its_addresses_and_both_ports() -> None:
    tap = Tap(loopback=False)
    other = (CLIENT[0], CLIENT[1] + 1)
    for number, client in enumerate((CLIENT, other)):
        tap.packet(number, OUT, segment(client, SERVER, SYN, 100 * number))
    tap.packet(5, IN, segment(SERVER, other, SYN | ACK, 900))
    tap.packet(6, IN, segment(SERVER, other, ACK, 901, 30))
    tap.packet(7, OUT, segment(CLIENT, SERVER, ACK, 1, 20))
    assert events(tap) == [
        Mark(0, 0, opened=True, port=40_000, peer_port=80),
        Mark(1, 1, opened=True, port=40_001, peer_port=80),
        Content(1, from_opener=False, t0_ns=6, t_ns=6, position=30),
        Content(0, from_opener=True, t0_ns=7, t_ns=7, position=20),
    ]


def test_without_its_syn_a_streams_first_segment_is_its_beginning() -> None:
    """The answer's SYN was not seen: its content counts from the first segment that is."""
    tap = Tap(loopback=False)
    tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 100))
    tap.packet(2, IN, segment(SERVER, CLIENT, ACK, 7_000, 30))
    tap.packet(300_000, IN, segment(SERVER, CLIENT, ACK, 7_030, 30))
    assert [each.position for each in events(tap) if isinstance(each, Content)] == [30, 60]


def test_a_stream_goes_on_where_its_numbers_begin_again() -> None:
    tap = Tap(loopback=False)
    tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 2**32 - 1))
    tap.packet(2, OUT, segment(CLIENT, SERVER, ACK, 0, 10))
    assert events(tap)[1:] == [Content(0, from_opener=True, t0_ns=2, t_ns=2, position=10)]
    tap = Tap(loopback=False)
    tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 5))
    tap.packet(2, IN, segment(SERVER, CLIENT, SYN | ACK, 2**32 - 1))
    tap.packet(3, IN, segment(SERVER, CLIENT, ACK, 0, 10))
    assert events(tap)[1:] == [Content(0, from_opener=False, t0_ns=3, t_ns=3, position=10)]


@pytest.mark.parametrize("first", [0, 2**32 - 500])
def test_half_of_all_numbers_are_behind_and_half_ahead(first: int) -> None:
    stream = Stream(first)
    assert not stream.add((first - 2**31 + 1) % 2**32, 100), "so old that it adds nothing"
    assert not stream.ahead
    assert not stream.add((first - 2**31) % 2**32, 100), "as far ahead as can be"
    assert len(stream.ahead) == 1
    stream = Stream(first)
    assert not stream.add((first - 10) % 2**32, 10)
    assert stream.add((first - 10) % 2**32, 11)
    assert stream.position == 1


def test_the_longer_of_two_segments_ahead_counts() -> None:
    stream = Stream(0)
    for size in (10, 30, 20):
        assert not stream.add(100, size)
    assert stream.add(0, 100)
    assert stream.position == 130


def test_segments_ahead_may_overlap_what_has_come_meanwhile() -> None:
    stream = Stream(0)
    stream.add(100, 50)
    stream.add(120, 10)
    stream.add(300, 5)
    assert stream.add(0, 110)
    assert (stream.position, stream.next, stream.ahead) == (150, 150, {300: 5})


def test_a_repeated_syn_opens_nothing_new() -> None:
    tap = Tap(loopback=False)
    for t_ns in (1, 2):
        tap.packet(t_ns, OUT, segment(CLIENT, SERVER, SYN, 100))
    tap.packet(3, IN, segment(SERVER, CLIENT, SYN | ACK, 500))
    tap.packet(4, OUT, segment(CLIENT, SERVER, SYN, 100))
    assert tap.count == 1
    tap.packet(5, OUT, segment(CLIENT, SERVER, ACK, 101, 10))
    tap.packet(6, OUT, segment(CLIENT, SERVER, SYN, 100))
    assert tap.count == 2, "content has passed since: another connection from the same port"
    tap.packet(7, OUT, segment(CLIENT, SERVER, SYN, 300))
    assert tap.count == 3


def test_a_connection_ends_with_fin_or_rst_of_either_side() -> None:
    for flags, source, target in ((FIN, CLIENT, SERVER), (RST, SERVER, CLIENT)):
        tap = Tap(loopback=False)
        tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 100))
        tap.packet(2, IN, segment(SERVER, CLIENT, SYN | ACK, 500))
        assert tap.open == {0}
        tap.packet(9, IN, segment(source, target, flags | ACK, 101 if source == CLIENT else 501, 5))
        content, end = events(tap)[1:]
        assert content == Content(0, from_opener=source == CLIENT, t0_ns=9, t_ns=9, position=5)
        assert end == Mark(0, 9, opened=False)
        assert tap.open == set()


def test_content_is_joined_where_it_follows_within_a_tenth_of_a_millisecond() -> None:
    tap = Tap(loopback=False)
    tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 0))
    for t_ns, sequence in ((1_000, 1), (100_999, 11), (101_000, 21), (101_500, 31)):
        tap.packet(t_ns, OUT, segment(CLIENT, SERVER, ACK, sequence, 10))
    assert events(tap)[1:] == [
        Content(0, from_opener=True, t0_ns=1_000, t_ns=100_999, position=20),
        Content(0, from_opener=True, t0_ns=101_000, t_ns=101_500, position=40),
    ]


def test_content_of_both_ways_is_not_joined() -> None:
    tap = Tap(loopback=False)
    tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 0))
    tap.packet(2, IN, segment(SERVER, CLIENT, SYN | ACK, 0))
    tap.packet(3, OUT, segment(CLIENT, SERVER, ACK, 1, 10))
    tap.packet(4, IN, segment(SERVER, CLIENT, ACK, 1, 10))
    tap.packet(5, OUT, segment(CLIENT, SERVER, ACK, 11, 10))
    assert [(each.from_opener, each.position) for each in events(tap) if isinstance(each, Content)] == [
        (True, 10),
        (False, 10),
        (True, 20),
    ]


def test_only_what_comes_in_makes_the_tap_look_as_usual() -> None:
    """`arrived` is about the host's own queues: what it sends itself fills none."""
    for kind, arrived in ((OUT, False), (IN, True), (3, True)):
        tap = Tap(loopback=False)
        tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 0))
        tap.packet(2, kind, segment(CLIENT, SERVER, ACK, 1))
        assert not tap.arrived, "without content"
        tap.packet(3, kind, segment(CLIENT, SERVER, ACK, 1, 10))
        assert tap.arrived == arrived
        tap.packet(4, OUT, segment(CLIENT, SERVER, ACK, 11, 10))
        assert tap.arrived == arrived


def test_acknowledgements_are_of_the_other_way_and_only_grow() -> None:
    tap = Tap(loopback=False, acks=True)
    tap.packet(1, OUT, segment(CLIENT, SERVER, SYN, 2**32 - 1))
    tap.packet(2, IN, segment(SERVER, CLIENT, ACK, 900, acked=0))
    assert len(tap.lines) == 1, "the answer's way has no stream yet, the opener's no content"
    tap.packet(2, IN, segment(SERVER, CLIENT, SYN | ACK, 500))
    tap.packet(3, OUT, segment(CLIENT, SERVER, ACK, 0, 100, acked=501))
    tap.packet(4, IN, segment(SERVER, CLIENT, ACK, 501, 50, acked=60))
    tap.packet(5, IN, segment(SERVER, CLIENT, ACK, 501, acked=40))
    tap.packet(6, IN, segment(SERVER, CLIENT, ACK, 501, acked=100))
    tap.packet(7, IN, segment(SERVER, CLIENT, PUSH, 501, acked=100))
    tap.packet(8, OUT, segment(CLIENT, SERVER, ACK, 100, acked=551))
    assert [each for each in events(tap) if isinstance(each, Acked)] == [
        Acked(0, from_opener=True, t_ns=4, position=60),
        Acked(0, from_opener=True, t_ns=6, position=100),
        Acked(0, from_opener=False, t_ns=8, position=50),
    ]


@pytest.fixture(name="passes")
def usual_filter() -> Iterator[Callable[[bytes], int]]:
    with filtered(lambda tap: tap_script.attach(tap, acks=False)) as passes:
        yield passes


def test_the_filter_lets_headers_of_content_through(passes: Callable[[bytes], int]) -> None:
    for options in (b"", bytes(40)):
        for words in (0, 3, 10):
            headers = 40 + len(options) + 4 * words
            content = segment(CLIENT, SERVER, ACK, 1, 1448, words=words, options=options)
            assert passes(content) == 128
            assert passes(segment(CLIENT, SERVER, ACK, 1, 1, words=words, options=options)) == min(128, headers + 1)
            assert passes(segment(CLIENT, SERVER, ACK, 1, words=words, options=options)) == 0, "no content"


@pytest.mark.parametrize("flags", [SYN, SYN | ACK, FIN | ACK, RST, RST | ACK])
def test_the_filter_lets_a_beginning_and_an_end_through(passes: Callable[[bytes], int], flags: int) -> None:
    assert passes(segment(CLIENT, SERVER, flags, 1)) == 52


def test_the_filter_stops_everything_else(passes: Callable[[bytes], int]) -> None:
    assert passes(segment(CLIENT, SERVER, PUSH | ACK, 1)) == 0
    assert passes(datagram(CLIENT, SERVER, bytes(600))) == 0
    assert passes(ipv4(CLIENT[0], SERVER[0], 1, bytes(64))) == 0
    arp = bytes([0, 1, 8, 0, 6, 4, 0, 1]) + bytes(20)
    assert passes(arp) == 0


def test_the_filter_lets_all_of_ipv6_through(passes: Callable[[bytes], int]) -> None:
    assert passes(segment(CLIENT6, SERVER6, ACK, 1, words=0)) == 60
    assert passes(ipv6(CLIENT6[0], SERVER6[0], ICMP6, bytes(500))) == 128


def test_the_filter_lets_acknowledgements_through_where_they_are_asked_for() -> None:
    with filtered(lambda tap: tap_script.attach(tap, acks=True)) as passes:
        assert passes(segment(CLIENT, SERVER, ACK, 1, words=0)) == 40
        assert passes(segment(CLIENT, SERVER, ACK, 1, 1448)) == 128
        assert passes(ipv4(CLIENT[0], SERVER[0], TCP + 1, bytes(64))) == 0


def test_the_family_of_a_transfer_is_that_of_most_content() -> None:
    tap = Tap(loopback=False)
    for at, (client, server, size) in enumerate(((CLIENT6, SERVER6, 7), (CLIENT, SERVER, 900))):
        tap.packet(at * 10, OUT, segment(client, server, SYN, 100))
        tap.packet(at * 10 + 1, IN, segment(server, client, SYN | ACK, 500))
        tap.packet(at * 10 + 2, IN, segment(server, client, ACK, 501, size))
    seen = events(tap)
    assert not over_ipv6(seen, otherwise=True)
    assert over_ipv6(seen[:2], otherwise=False)
    assert over_ipv6([], otherwise=True)
    assert not over_ipv6(None, otherwise=False)
