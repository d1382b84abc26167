"""Runs on the receiving host: notes every frame that the sender's datagrams arrive in. Standard library only; needs root.

usage: count_receiver_script.py DEVICE PORT SIZE FLOWS

Frames are read in front of the IP layer, which would throw corrupted ones away. Prints `ready`; on SIGTERM a line with the number
of frames that the socket had no room for, and a record per frame in the order of arrival (`RECORD`: number, ns of CLOCK_REALTIME
when it was sent and when it arrived, size of the IP packet, flow, ECN bits, 1 if it is intact).
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
import zlib

RECORD = "<QqqHBBB"
_RECORD = struct.Struct(RECORD)
_HEAD = struct.Struct("!QQI")
_ETHERNET, _IP, _UDP = 14, 20, 8
_ETH_P_ALL = 3
_OUTGOING = 4
_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_PACKET, _STATISTICS = 263, 6
_BUFFER_BYTES = 256 << 20
_IPV4, _UDP_NUMBER = b"\x08\x00", 17


class Ended(Exception):
    """The lab has seen enough."""


def end(_number: int, _frame: object) -> None:
    raise Ended


def valid(data: bytes) -> bool:
    """The Internet checksum (RFC 1071): one's complement sums leave 0 modulo 65535."""
    return int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 65535 == 0


def datagram_is_valid(frame: bytes) -> bool:
    """UDP with its pseudo header. A sender's kernel may leave the sum of the pseudo header alone to the card."""
    datagram = frame[_ETHERNET + _IP :]
    pseudo = frame[26:34] + struct.pack("!HH", _UDP_NUMBER, len(datagram))
    half = int.from_bytes(pseudo, "big") % 65535
    return valid(pseudo + datagram) or int.from_bytes(datagram[6:8], "big") % 65535 == half


class Reader:
    """Knows the frames of the sender by the first ones, of which the most is intact."""

    def __init__(self, port: int, size: int, flows: int) -> None:
        self.ports = {port + index: index for index in range(flows)}
        self.size = size
        self.filling = (bytes(range(256)) * 6)[: size - _IP - _UDP - _HEAD.size]
        self.frames: list[tuple[bytes, int]] = []

    def records(self) -> bytes:
        headers = [frame[:_ETHERNET] for frame, _ in self.frames]
        ours = max(set(headers), key=headers.count) if headers else b""
        return b"".join(self.record(frame, got, ours) for frame, got in self.frames)

    def record(self, frame: bytes, got_ns: int, header: bytes) -> bytes:
        body = frame[_ETHERNET + _IP + _UDP :]
        number, sent_ns, check = _HEAD.unpack_from(body)
        port = int.from_bytes(frame[_ETHERNET + _IP + 2 : _ETHERNET + _IP + 4], "big")
        intact = (
            frame[:_ETHERNET] == header
            and valid(frame[_ETHERNET : _ETHERNET + _IP])
            and port in self.ports
            and check == zlib.crc32(body[:16])
            and body[_HEAD.size :] == self.filling
            and datagram_is_valid(frame)
        )
        # After a flipped bit the numbers mean nothing.
        number, sent_ns = (number, sent_ns) if intact else (0, 0)
        return _RECORD.pack(number, sent_ns, got_ns, len(frame) - _ETHERNET, self.ports.get(port, 255), frame[15] & 3, intact)


def main(device: str, port: str, size: str, flows: str) -> None:
    reader = Reader(int(port), int(size), int(flows))
    signal.signal(signal.SIGTERM, end)
    # Sockets that are never read: without them the kernel would answer each datagram with an ICMP message.
    sinks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in reader.ports]
    for sink, number in zip(sinks, reader.ports, strict=True):
        sink.bind(("", number))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        try:
            tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        except PermissionError:
            # Only the machine's root may exceed net.core.rmem_max, not that of a user namespace.
            tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        tap.bind((device, _ETH_P_ALL))
        print("ready", flush=True)
        try:
            while True:
                frame, extra, _, address = tap.recvmsg(2048, 64)
                if address[2] != _OUTGOING and len(frame) == reader.size + _ETHERNET:
                    seconds, ns = struct.unpack("qq", extra[0][2])
                    reader.frames.append((frame, seconds * 10**9 + ns))
        except Ended:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        missed = struct.unpack("II", tap.getsockopt(_PACKET, _STATISTICS, 8))[1]
    sys.stdout.buffer.write(b"%d\n" % missed + reader.records())


if __name__ == "__main__":
    main(*sys.argv[1:5])
