"""The receiver of counted packets: it knows a frame with one flipped bit, and whose a frame is."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import pytest

from lab.net import count_receiver_script as receiver

SIZE, PORT = 80, 4711
SENT_NS, GOT_NS = 1_700_000_000_000_000_000, 1_700_000_000_000_000_555
ADDRESSES = bytes((10, 77, 1, 2, 10, 77, 2, 2))
HEADER = bytes(range(12)) + b"\x08\x00"


class Record(NamedTuple):
    number: int
    sent_ns: int
    got_ns: int
    size: int
    flow: int
    ecn: int
    intact: int


def summed(data: bytes) -> bytes:
    """The checksum of RFC 1071: one's complement of the sum of 16-bit words."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def frame(size: int = SIZE, port: int = PORT, tos: int = 0, *, offloaded: bool = False, number: int = 7) -> bytes:
    """A datagram with all of its sums. `offloaded`: the card is left to add what is behind the pseudo header."""
    ip = struct.pack("!BBHHHBBH", 0x45, tos, size, 0, 0x4000, 63, 17, 0) + ADDRESSES
    ip = ip[:10] + summed(ip) + ip[12:]
    head = struct.pack("!QQ", number, SENT_NS)
    body = head + struct.pack("!I", zlib.crc32(head)) + bytes(range(size - 48))
    udp = struct.pack("!HHHH", 40_000, port, len(body) + 8, 0)
    pseudo = ADDRESSES + struct.pack("!HH", 17, len(body) + 8)
    half = struct.pack("!H", 65535 - int.from_bytes(summed(pseudo), "big"))
    return HEADER + ip + udp[:6] + (half if offloaded else summed(pseudo + udp + body)) + body


def record(data: bytes, size: int = SIZE, flows: int = 1, header: bytes = HEADER) -> Record:
    return Record(*struct.unpack(receiver.RECORD, receiver.Reader(PORT, size, flows).record(data, GOT_NS, header)))


def test_any_flipped_bit_is_seen() -> None:
    whole = frame()
    assert record(whole).intact
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not record(bytes(damaged)).intact, bit


@pytest.mark.parametrize("offloaded", [False, True])
@pytest.mark.parametrize("size", [64, 79, 80, 300])
def test_an_intact_frame_has_all_of_its_figures(size: int, offloaded: bool) -> None:
    whole = frame(size, offloaded=offloaded)
    assert record(whole, size) == Record(7, SENT_NS, GOT_NS, size, 0, 0, 1)


def test_a_damaged_frame_says_only_when_it_came_and_whose_it_may_be() -> None:
    damaged = bytearray(frame(port=PORT + 1, tos=1))
    damaged[-1] ^= 1
    assert record(bytes(damaged), flows=2) == Record(0, 0, GOT_NS, SIZE, 1, 1, 0)


def test_the_port_says_which_flow_it_is() -> None:
    assert [record(frame(port=PORT + index), flows=3).flow for index in range(3)] == [0, 1, 2]
    for port in (PORT - 1, PORT + 3):
        found = record(frame(port=port), flows=3)
        assert (found.flow, found.intact) == (255, 0)


@pytest.mark.parametrize("tos", [0, 1, 2, 3, 0xFC, 0xFE])
def test_the_last_two_bits_of_the_service_are_the_congestions(tos: int) -> None:
    assert record(frame(tos=tos)) == Record(7, SENT_NS, GOT_NS, SIZE, 0, tos & 3, 1)


def test_frames_of_another_sender_are_not_intact() -> None:
    """The header that most frames have is the sender's own."""
    reader = receiver.Reader(PORT, SIZE, 1)
    assert reader.records() == b""
    other = bytes(14) + frame()[14:]
    reader.frames = [(frame(number=1), 10), (other, 11), (frame(number=2), 12)]
    found = [Record(*each) for each in struct.iter_unpack(receiver.RECORD, reader.records())]
    assert [(each.number, each.got_ns, each.intact) for each in found] == [(1, 10, 1), (0, 11, 0), (2, 12, 1)]


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"\x12\x34\xed\xcb", b"\x01", b"\x01\x02\x03"])
def test_a_sum_is_right_with_its_complement(data: bytes) -> None:
    even = data + bytes(len(data) % 2)
    assert receiver.valid(even + summed(data))
    assert not receiver.valid(even + bytes([summed(data)[0] ^ 1]) + summed(data)[1:])
