"""IP packets as bytes, without checksums, to feed what reads headers."""

from __future__ import annotations

import struct

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, UDP, ICMP6 = 6, 17, 58
End = tuple[bytes, int]
"""An address of four or sixteen bytes, and a port."""
CLIENT: End = (bytes([10, 77, 1, 2]), 40_000)
SERVER: End = (bytes([10, 77, 2, 2]), 80)
CLIENT6: End = (bytes(15) + b"\1", 40_000)
SERVER6: End = (bytes(15) + b"\2", 80)


def ipv4(source: bytes, target: bytes, protocol: int, content: bytes, options: bytes = b"") -> bytes:
    """The size of `options` is a multiple of four."""
    head = 0x45 + len(options) // 4
    size = 20 + len(options) + len(content)
    return struct.pack("!BBHHHBBH", head, 0, size, 1, 0, 64, protocol, 0) + source + target + options + content


def ipv6(source: bytes, target: bytes, protocol: int, content: bytes) -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(content), protocol, 64) + source + target + content


def ip(source: bytes, target: bytes, protocol: int, content: bytes, options: bytes = b"") -> bytes:
    return ipv4(source, target, protocol, content, options) if len(source) == 4 else ipv6(source, target, protocol, content)


def segment(
    source: End, target: End, flags: int, sequence: int, size: int = 0, *, acked: int = 0, words: int = 3, options: bytes = b""
) -> bytes:
    """TCP with `words` words of its own options, and IPv4's `options`."""
    tcp = struct.pack("!HHIIBBHHH", source[1], target[1], sequence, acked, (5 + words) << 4, flags, 100, 0, 0)
    return ip(source[0], target[0], TCP, tcp + bytes(4 * words + size), options)


def datagram(source: End, target: End, content: bytes, options: bytes = b"") -> bytes:
    udp = struct.pack("!HHHH", source[1], target[1], 8 + len(content), 0)
    return ip(source[0], target[0], UDP, udp + content, options)
