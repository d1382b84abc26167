"""The server's side of TLS 1.3 by hand (RFC 8446), for messages and records that no library would send.

One suite (TLS_AES_128_GCM_SHA256), one group (x25519), an EC certificate; no resumption and no client certificates.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lab.servers.certificates import Certificates

ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23
SERVER_HELLO, NEW_SESSION_TICKET, ENCRYPTED_EXTENSIONS, CERTIFICATE, CERTIFICATE_VERIFY, FINISHED = 2, 4, 8, 11, 15, 20
SUPPORTED_GROUPS, SUPPORTED_VERSIONS, KEY_SHARE, ALPN = 10, 43, 51, 16
X25519, X25519MLKEM768 = 29, 0x11EC
RECORD = 16_384
_EMPTY = hashlib.sha256(b"").digest()


def vector(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "big") + data


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + vector(body, 3)


def extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + vector(body, 2)


def ticket(size: int) -> bytes:
    """A NewSessionTicket (section 4.6.1) whose ticket has `size` bytes."""
    return message(NEW_SESSION_TICKET, bytes(8) + vector(b"nonce", 1) + vector(os.urandom(size), 2) + vector(b"", 2))


def expand(secret: bytes, label: str, context: bytes, size: int) -> bytes:
    """HKDF-Expand-Label (section 7.1); one block is enough for every key."""
    info = size.to_bytes(2, "big") + vector(b"tls13 " + label.encode(), 1) + vector(context, 1)
    return hmac.digest(secret, info + b"\1", "sha256")[:size]


@dataclass
class _Keys:
    secret: bytes
    number: int = 0

    def _nonce(self) -> bytes:
        mask = int.from_bytes(expand(self.secret, "iv", b"", 12), "big")
        self.number += 1
        return (mask ^ (self.number - 1)).to_bytes(12, "big")

    def _cipher(self) -> AESGCM:
        return AESGCM(expand(self.secret, "key", b"", 16))

    def seal(self, kind: int, data: bytes) -> bytes:
        """One record."""
        header = bytes([APPLICATION_DATA, 3, 3]) + (len(data) + 17).to_bytes(2, "big")
        return header + self._cipher().encrypt(self._nonce(), data + bytes([kind]), header)

    def open(self, header: bytes, data: bytes) -> tuple[int, bytes]:
        plain = self._cipher().decrypt(self._nonce(), data, header).rstrip(b"\0")
        return plain[-1], plain[:-1]


@dataclass
class Tls13:
    """A connection whose handshake is through; `records` makes them, `sock` takes them as the test wants."""

    sock: socket.socket
    # The extensions of the client's hello, in its order.
    offered: dict[int, bytes]
    _ours: _Keys
    _theirs: _Keys
    _lines: bytes = field(default=b"")

    def records(self, kind: int, data: bytes, size: int = RECORD) -> bytes:
        return b"".join(self._ours.seal(kind, data[at : at + size]) for at in range(0, len(data), size))

    def request(self) -> bytes:
        """The head of an HTTP/1.1 request."""
        while b"\r\n\r\n" not in self._lines:
            header, data = _record(self.sock)
            kind, plain = self._theirs.open(header, data)
            assert kind == APPLICATION_DATA, (kind, plain)
            self._lines += plain
        head, _, self._lines = self._lines.partition(b"\r\n\r\n")
        return head

    def goodbye(self) -> None:
        """close_notify."""
        self.sock.sendall(self.records(ALERT, bytes([1, 0])))


def accept(sock: socket.socket, certificates: Certificates, alpn: bytes = b"http/1.1") -> Tls13:
    """The handshake (section 2), as its server."""
    key = serialization.load_pem_private_key(certificates.server_key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    der = x509.load_pem_x509_certificate(certificates.server_pem).public_bytes(serialization.Encoding.DER)
    _, hello = _record(sock)
    session, extensions = _client_hello(hello)
    theirs = dict(shares(extensions[KEY_SHARE]))[X25519]
    ours = x25519.X25519PrivateKey.generate()
    shared = ours.exchange(x25519.X25519PublicKey.from_public_bytes(theirs))
    public = ours.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    choices = extension(SUPPORTED_VERSIONS, b"\3\4") + extension(KEY_SHARE, X25519.to_bytes(2, "big") + vector(public, 2))
    said = message(SERVER_HELLO, b"\3\3" + os.urandom(32) + vector(session, 1) + b"\x13\x01\0" + vector(choices, 2))
    sock.sendall(bytes([HANDSHAKE, 3, 3]) + vector(said, 2))
    transcript = hello + said

    early = hmac.digest(bytes(32), bytes(32), "sha256")
    handshake = hmac.digest(expand(early, "derived", _EMPTY, 32), shared, "sha256")
    server, client = (_traffic(handshake, f"{side} hs traffic", transcript) for side in ("s", "c"))
    out = _Keys(server)

    chosen = extension(ALPN, vector(vector(alpn, 1), 2))
    flight = message(ENCRYPTED_EXTENSIONS, vector(chosen, 2))
    flight += message(CERTIFICATE, b"\0" + vector(vector(der, 3) + b"\0\0", 3))
    to_sign = b" " * 64 + b"TLS 1.3, server CertificateVerify\0" + hashlib.sha256(transcript + flight).digest()
    signature = key.sign(to_sign, ec.ECDSA(hashes.SHA256()))
    flight += message(CERTIFICATE_VERIFY, b"\4\3" + vector(signature, 2))
    finished = expand(server, "finished", b"", 32)
    flight += message(FINISHED, hmac.digest(finished, hashlib.sha256(transcript + flight).digest(), "sha256"))
    sock.sendall(out.seal(HANDSHAKE, flight))
    transcript += flight

    master = hmac.digest(expand(handshake, "derived", _EMPTY, 32), bytes(32), "sha256")
    # The client's Finished, behind the ChangeCipherSpec that middleboxes want (appendix D.4).
    header, data = _record(sock)
    while header[0] != APPLICATION_DATA:
        header, data = _record(sock)
    kind, plain = _Keys(client).open(header, data)
    assert (kind, plain[0]) == (HANDSHAKE, FINISHED)
    ours_now, theirs_now = (_Keys(_traffic(master, f"{side} ap traffic", transcript)) for side in ("s", "c"))
    return Tls13(sock, extensions, ours_now, theirs_now)


def _traffic(secret: bytes, label: str, transcript: bytes) -> bytes:
    return expand(secret, label, hashlib.sha256(transcript).digest(), 32)


def _record(sock: socket.socket) -> tuple[bytes, bytes]:
    header = _exactly(sock, 5)
    return header, _exactly(sock, int.from_bytes(header[3:], "big"))


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def _client_hello(hello: bytes) -> tuple[bytes, dict[int, bytes]]:
    """Session id and extensions (section 4.1.2); the suite is known to be offered."""
    at = 4 + 2 + 32
    session = hello[at + 1 : at + 1 + hello[at]]
    at += 1 + len(session)
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    return session, dict(_pairs(hello[at + 2 :]))


def shares(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Groups and keys of the extension key_share, in the client's order."""
    return _pairs(body[2:])


def _pairs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """A number of two bytes, and as many bytes as the next two say."""
    while data:
        kind, size = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
        yield kind, data[4 : 4 + size]
        data = data[4 + size :]
