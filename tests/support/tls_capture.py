"""TLS 1.3 records of a capture, decrypted by the keys that a client wrote (RFC 8446, sections 5.2 and 7.3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

APPLICATION_DATA, HANDSHAKE = 23, 22
_SUITES: dict[int, tuple[type[AESGCM] | type[ChaCha20Poly1305], hashes.HashAlgorithm, int]] = {
    0x1301: (AESGCM, hashes.SHA256(), 16),
    0x1302: (AESGCM, hashes.SHA384(), 32),
    0x1303: (ChaCha20Poly1305, hashes.SHA256(), 32),
}


def answers(capture: Path, keys: Path) -> bytes:
    """The plain text of all that the server of port 443 sent as application data. Raises KeyError without the keys."""
    from_client, from_server = (_stream(capture, to_server) for to_server in (True, False))
    hello, answer = next(_records(from_client))[1], next(_records(from_server))[1]
    # Behind the type, the length and the version: 32 random bytes, then the session's name, then the suite.
    client_random = hello[6:38]
    suite = int.from_bytes(answer[39 + answer[38] :][:2], "big")
    secrets = {
        (label, bytes.fromhex(random)): bytes.fromhex(secret)
        for label, random, secret in (line.split() for line in keys.read_text().splitlines() if not line.startswith("#"))
    }
    return b"".join(_decrypted(from_server, secrets["SERVER_TRAFFIC_SECRET_0", client_random], suite))


def _decrypted(stream: bytes, secret: bytes, suite: int) -> Iterator[bytes]:
    """The handshake's records, which have other keys, do not fit and are passed over."""
    cipher, digest, size = _SUITES[suite]
    key, mask = _expand(secret, "key", size, digest), int.from_bytes(_expand(secret, "iv", 12, digest), "big")
    number = 0
    for head, body in _records(stream):
        if head[0] != APPLICATION_DATA:
            continue
        try:
            plain = cipher(key).decrypt((mask ^ number).to_bytes(12, "big"), body, head)
        except InvalidTag:
            assert number == 0, f"record {number} cannot be decrypted"
            continue
        number += 1
        inner = plain.rstrip(b"\0")
        if inner[-1] == APPLICATION_DATA:
            yield inner[:-1]


def _expand(secret: bytes, label: str, size: int, digest: hashes.HashAlgorithm) -> bytes:
    name = b"tls13 " + label.encode()
    return HKDFExpand(digest, size, size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0").derive(secret)


def _records(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Heads of five bytes with their bodies."""
    at = 0
    while at + 5 <= len(stream):
        size = int.from_bytes(stream[at + 3 : at + 5], "big")
        yield stream[at : at + 5], stream[at + 5 : at + 5 + size]
        at += 5 + size


def _stream(capture: Path, to_server: bool) -> bytes:
    """The bytes of one direction of the capture's one connection with port 443, in order."""
    data, at, parts = capture.read_bytes(), 24, dict[int, bytes]()
    first = None
    while at < len(data):
        _, _, kept, length = struct.unpack_from("<4I", data, at)
        packet = data[at + 16 : at + 16 + kept]
        assert kept == length, "a packet was cut"
        at += 16 + kept
        ip = packet[14:]
        tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        if packet[12:14] != b"\x08\0" or ip[9] != 6 or int.from_bytes(tcp[2:4] if to_server else tcp[:2], "big") != 443:
            continue
        sequence = int.from_bytes(tcp[4:8], "big")
        if tcp[13] & 2:  # SYN
            first = sequence + 1
        if first is not None and (content := tcp[(tcp[12] >> 4) * 4 :]):
            parts[(sequence - first) % (1 << 32)] = content
    whole = b""
    for place, content in sorted(parts.items()):
        whole += content[max(0, len(whole) - place) :] if place <= len(whole) else b""
    return whole
