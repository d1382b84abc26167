"""Which datagrams are printed, and with what times."""

from __future__ import annotations

import os
import signal
import struct
from typing import Any

import pytest

from lab.net import datagram_script
from lab.net.datagram_script import drain, line
from lab.net.datagrams import Datagram, parse_line
from tests.support.filtered import filtered
from tests.support.packets import ACK, CLIENT, CLIENT6, ICMP6, SERVER, SERVER6, End, datagram, ipv4, ipv6, segment
from tests.support.stepping_clock import SteppingClock

OFFSET_NS = 1_700_000_000 * 10**9
OUT = 4


@pytest.mark.parametrize(("client", "server"), [(CLIENT, SERVER), (CLIENT6, SERVER6)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("options", [b"", bytes(40)])
def test_size_and_first_byte_are_those_of_the_content(client: End, server: End, options: bytes) -> None:
    content = bytes([0xC1, 7, 8])
    up, down = datagram(client, server, content, options), datagram(server, client, content * 2, options)
    assert parse_line(line(5, up, 80)) == Datagram(up=True, t_ns=5, bytes=3, first=0xC1)
    assert parse_line(line(6, down, 80)) == Datagram(up=False, t_ns=6, bytes=6, first=0xC1)
    assert parse_line(line(6, datagram(client, server, b"\0"), 80)) == Datagram(up=True, t_ns=6, bytes=1, first=0)
    assert line(5, up, 81) == b""
    assert line(5, up, 40_000) == line(5, up, 80).replace(b">", b"<"), "the port is the other side's"
    assert line(5, datagram(client, server, b""), 80) == b"", "nothing in it"


def test_what_is_not_udp_is_not_printed() -> None:
    assert line(5, ipv6(CLIENT6[0], SERVER6[0], ICMP6, datagram(CLIENT6, SERVER6, b"abc")[40:]), 80) == b""


def test_the_filter_lets_headers_of_udp_and_all_of_ipv6_through() -> None:
    with filtered(datagram_script.attach) as passes:
        assert passes(datagram(CLIENT, SERVER, bytes(1200))) == 96
        assert passes(datagram(CLIENT, SERVER, b"a", bytes(40))) == 69
        assert passes(segment(CLIENT, SERVER, ACK, 1, 1448)) == 0
        assert passes(ipv4(CLIENT[0], SERVER[0], 18, bytes(64))) == 0
        assert passes(segment(CLIENT6, SERVER6, ACK, 1, words=0)) == 60
        # Only what calls itself IPv4 is asked for its protocol: ARP has a 17 nowhere that counts.
        assert passes(bytes([0x15]) + bytes(8) + bytes([16]) + bytes(40)) == 0


class Arrived:
    """A socket that has these packets: (seconds, nanoseconds, packet, kind)."""

    def __init__(self, *packets: tuple[int, int, bytes, int]) -> None:
        self.packets = list(packets)

    def recvmsg(self, size: int, room: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, tuple[str, int, int]]:
        if not self.packets:
            raise BlockingIOError
        seconds, ns, packet, kind = self.packets.pop(0)
        assert room >= 32, "a control message with two numbers of eight bytes"
        return packet[:size], [(1, 35, struct.pack("=qq", seconds, ns))], 0, ("lo", 0x0800, kind)


@pytest.mark.parametrize("loopback", [False, True])
def test_everything_that_came_is_read_with_the_kernels_times(loopback: bool) -> None:
    up, down = datagram(CLIENT, SERVER, bytes(1200)), datagram(SERVER, CLIENT, b"abc")
    other = datagram(CLIENT, (SERVER[0], 53), b"abc")
    tap: Any = Arrived((1_700_000_000, 7, up, 0), (1_700_000_001, 8, other, 0), (1_700_000_002, 9, down, OUT))
    text = b"".join(drain(tap, 80, OFFSET_NS, loopback=loopback))
    expected = [Datagram(up=True, t_ns=7, bytes=1200, first=0), Datagram(up=False, t_ns=2 * 10**9 + 9, bytes=3, first=ord("a"))]
    assert [parse_line(each) for each in text.splitlines()] == expected[: 1 if loopback else 2]
    assert drain(tap, 80, OFFSET_NS, loopback=loopback) == []


@pytest.mark.parametrize("interface", ["lo", "eth0"])
def test_everything_is_printed_every_ten_milliseconds(monkeypatch: pytest.MonkeyPatch, interface: str) -> None:
    """A late look is followed by the next instant of the grid."""
    clock = SteppingClock(0, offset_ns=OFFSET_NS)
    costs_ms = [0.0, 4.0, 17.0, 10.0, 1.0]
    written: list[bytes] = []

    def drained(tap: str, port: int, offset_ns: int, *, loopback: bool) -> list[bytes]:
        assert (tap, port, loopback) == (f"tap of {interface}", 443, interface == "lo")
        assert offset_ns == OFFSET_NS
        if not costs_ms:
            raise KeyboardInterrupt
        clock.now += round(costs_ms.pop(0) * 1e6)
        return [b"d 1\n", b"d 2\n"]

    monkeypatch.setattr(datagram_script, "time", clock)
    monkeypatch.setattr(datagram_script, "listen", lambda name: f"tap of {name}")
    monkeypatch.setattr(datagram_script, "drain", drained)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(os, "write", lambda number, text: written.append(text) if number == 1 else pytest.fail("not stdout"))
    with pytest.raises(KeyboardInterrupt):
        datagram_script.main(interface, 443)
    assert written[0] == f"roughwater-datagrams 1 {interface}\n".encode()
    assert {text.rsplit(b"t ", 1)[0] for text in written[1:]} == {b"d 1\nd 2\n"}
    assert [int(text.split()[-1]) / 1e6 for text in written[1:]] == [10, 20, 30, 47, 57]


def test_sigterm_ends_it_with_0() -> None:
    with pytest.raises(SystemExit) as ended:
        datagram_script.stop(15, None)
    assert ended.value.code == 0
