"""The body of a transfer over QUIC, from sizes and first bits of datagrams."""

from __future__ import annotations

import struct

import pytest

from lab.model.errors import LabFault
from lab.net.datagram_script import line
from lab.net.datagrams import Datagram, parse_line, time_datagrams

MS = 1_000_000
SIZE = 100_000
LONG, SHORT = 0xC3, 0x41


def download(packets: int = 90, begin_ms: int = 60, every_ms: int = 10) -> list[Datagram]:
    """A handshake, tickets, then content, each acknowledged, and the goodbye of a client."""
    seen = [
        Datagram(up=True, t_ns=0, bytes=1200, first=LONG),
        Datagram(up=False, t_ns=30 * MS, bytes=1200, first=LONG),
        Datagram(up=True, t_ns=31 * MS, bytes=1200, first=LONG),
        Datagram(up=True, t_ns=32 * MS, bytes=80, first=SHORT),
        Datagram(up=False, t_ns=59 * MS, bytes=620, first=SHORT),
    ]
    for index in range(packets):
        t_ns = (begin_ms + index * every_ms) * MS
        seen += [Datagram(up=False, t_ns=t_ns, bytes=1200, first=SHORT), Datagram(up=True, t_ns=t_ns + MS, bytes=46, first=SHORT)]
    return seen


def test_a_download_without_a_limit_is_as_long_as_its_content_passes() -> None:
    seen = [*download(), Datagram(up=False, t_ns=5000 * MS, bytes=25, first=SHORT)]
    found = time_datagrams(seen, "get", SIZE, 6000 * MS, limited=False)
    assert found is not None
    assert (found.opened_ns, found.start_ns, found.end_ns, found.error_s) == (0, 60 * MS, 950 * MS, 0.0)


def test_a_limited_download_ends_with_its_clients_goodbye() -> None:
    seen = [*download(), Datagram(up=True, t_ns=1500 * MS, bytes=44, first=SHORT)]
    found = time_datagrams(seen, "get", SIZE, 1600 * MS, limited=True)
    assert found is not None
    assert (found.end_ns, round(found.error_s, 6)) == (1500 * MS, 0.1)


def test_a_client_that_says_no_goodbye_ends_a_limited_download_with_its_own_end() -> None:
    found = time_datagrams(download(), "get", SIZE, 4000 * MS, limited=True)
    assert found is not None
    assert (found.end_ns, found.error_s) == (4000 * MS, 0.0)


def test_an_upload_is_timed_towards_the_server() -> None:
    mirrored = [each._replace(up=not each.up) for each in download()]
    found = time_datagrams(mirrored, "put", SIZE, 6000 * MS, limited=True)
    assert found is not None
    assert found.seconds == pytest.approx(0.89)


@pytest.mark.parametrize(("packets", "size"), [(80, SIZE), (0, SIZE), (90, 1000)])
def test_too_little_is_not_timed(packets: int, size: int) -> None:
    assert time_datagrams(download(packets), "get", size, 6000 * MS, limited=False) is None


def test_a_printed_packet_is_read_back() -> None:
    udp = struct.pack("!HHHH", 50_000, 443, 8 + 1200, 0) + bytes([LONG])
    ipv4 = bytes([0x45]) + bytes(19)
    ipv6 = bytes([0x60, 0, 0, 0, 0, 0, 17]) + bytes(33)
    for header in (ipv4, ipv6):
        assert parse_line(line(7, header + udp, 443)) == Datagram(up=True, t_ns=7, bytes=1200, first=LONG)
    back = struct.pack("!HHHH", 443, 50_000, 8 + 30, 0) + bytes([SHORT])
    assert parse_line(line(8, ipv4 + back, 443)) == Datagram(up=False, t_ns=8, bytes=30, first=SHORT)


def test_other_packets_are_not_printed() -> None:
    other = struct.pack("!HHHH", 5000, 53, 20, 0) + b"x"
    assert line(1, bytes([0x45]) + bytes(19) + other, 443) == b""
    assert line(1, bytes([0x60, 0, 0, 0, 0, 0, 58]) + bytes(50), 443) == b""
    assert line(1, bytes([0x45]) + bytes(19) + other[:8], 443) == b""


def test_the_time_that_is_settled_is_read() -> None:
    assert parse_line(b"t 12\n") == 12
    for text in (b"d > 1 2", b"d > a 2 3", b"x", b""):
        with pytest.raises(LabFault):
            parse_line(text)


def test_the_goodbye_is_the_clients_last_datagram_before_its_end() -> None:
    """A limited download: what the server still sends is not about it, nor is what comes after the end."""
    late = [Datagram(up=False, t_ns=1700 * MS, bytes=25, first=SHORT), Datagram(up=True, t_ns=1900 * MS, bytes=44, first=SHORT)]
    seen = [*download(), Datagram(up=True, t_ns=1500 * MS, bytes=44, first=SHORT), *late]
    found = time_datagrams(seen, "get", SIZE, 1800 * MS, limited=True)
    assert found is not None
    assert (found.end_ns, found.error_s) == (1500 * MS, pytest.approx(0.3))


@pytest.mark.parametrize(("left_ms", "end_ms"), [(500, 1500), (501, 2001)])
def test_a_client_closes_within_half_a_second_or_says_nothing(left_ms: int, end_ms: int) -> None:
    seen = [*download(), Datagram(up=True, t_ns=1500 * MS, bytes=44, first=SHORT)]
    found = time_datagrams(seen, "get", SIZE, (1500 + left_ms) * MS, limited=True)
    assert found is not None
    assert (found.end_ns, found.error_s) == (end_ms * MS, pytest.approx(left_ms / 1000 if left_ms == 500 else 0))


def test_the_content_that_comes_last_ends_the_body_where_the_client_ended_before_it() -> None:
    found = time_datagrams(download(), "get", SIZE, 900 * MS, limited=True)
    assert found is not None
    assert found.end_ns == 950 * MS


@pytest.mark.parametrize(("size", "content"), [(99, False), (100, True)])
def test_content_has_at_least_100_bytes(size: int, content: bool) -> None:
    seen = [*download(), Datagram(up=False, t_ns=5000 * MS, bytes=size, first=SHORT)]
    found = time_datagrams(seen, "get", SIZE, 6000 * MS, limited=False)
    assert found is not None
    assert found.end_ns == (5000 if content else 950) * MS


@pytest.mark.parametrize(("size", "start_ms"), [(999, 60), (1000, 59)])
def test_the_first_full_datagram_begins_the_body(size: int, start_ms: int) -> None:
    seen = [
        Datagram(up=False, t_ns=0, bytes=1200, first=LONG),
        Datagram(up=False, t_ns=59 * MS, bytes=size, first=SHORT),
        *download()[5:],
    ]
    found = time_datagrams(seen, "get", SIZE, 6000 * MS, limited=False)
    assert found is not None
    assert found.start_ns == start_ms * MS


def test_as_many_bytes_as_asked_for_must_pass() -> None:
    seen = download()
    passed = sum(each.bytes for each in seen if not each.up and not each.handshake and each.bytes >= 100)
    assert time_datagrams(seen, "get", passed, 6000 * MS, limited=False)
    assert time_datagrams(seen, "get", passed + 1, 6000 * MS, limited=False) is None
