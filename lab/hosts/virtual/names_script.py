"""Runs on the router of a machine in virtual time: a resolver that knows the server's name, and takes its time.

usage: names_script.py ADDRESS NAME KIND:DELAY_NS:ANSWER:RECORD ...

Standard library only. KIND is `a` or `aaaa`; ANSWER is `address`, `failure` or `silence`; RECORD may be empty: there is none.
Another name is answered with "no such name", another kind of question with "no such record". Messages are those of
RFC 1035, over UDP; a question over TCP meets no listener. Ends with exit 0 on SIGTERM.
"""

from __future__ import annotations

import heapq
import signal
import socket
import sys
import time

PORT = 53
_KINDS = {1: "a", 28: "aaaa"}
_TTL_S = 60
_HEAD_BYTES, _LEAST_BYTES = 12, 17
_ANSWERS, _RECURSIVE, _SERVFAIL, _NXDOMAIN = 0x8400, 0x0080, 2, 3
_POINTER_TO_QUESTION = b"\xc0\x0c"


class Lookup:
    """The answers to one kind of question."""

    def __init__(self, words: str) -> None:
        self.kind, delay_ns, self.answer, record = words.split(":", 3)
        self.delay_ns = int(delay_ns)
        family = socket.AF_INET if self.kind == "a" else socket.AF_INET6
        self.record = socket.inet_pton(family, record) if record else b""


def stop(_number: int, _frame: object) -> None:
    sys.exit(0)


def question(message: bytes) -> tuple[str, int, bytes] | None:
    """The name, the number of the kind, and the question as it was written; None for anything but one question."""
    if len(message) < _LEAST_BYTES or message[2] & 0x80 or message[4:6] != b"\0\1":
        return None
    labels, at = [], _HEAD_BYTES
    while at < len(message) and message[at]:
        size = message[at]
        labels.append(message[at + 1 : at + 1 + size].decode("ascii", "replace"))
        at += 1 + size
    if at + 5 > len(message):
        return None
    return ".".join(labels).lower(), int.from_bytes(message[at + 1 : at + 3], "big"), message[_HEAD_BYTES : at + 5]


def answer(message: bytes, asked: bytes, code: int, record: bytes, kind: int) -> bytes:
    """The message that answers `asked`, with one record or none."""
    flags = _ANSWERS | (message[2] << 8 & 0x0100) | _RECURSIVE | code
    counts = b"\0\1" + (b"\0\1" if record else b"\0\0") + b"\0\0\0\0"
    text = message[:2] + flags.to_bytes(2, "big") + counts + asked
    if record:
        text += _POINTER_TO_QUESTION + kind.to_bytes(2, "big") + b"\0\1" + _TTL_S.to_bytes(4, "big")
        text += len(record).to_bytes(2, "big") + record
    return text


def reply(message: bytes, name: str, lookups: dict[str, Lookup]) -> tuple[bytes, int]:
    """The answer to a message, and its delay in ns; no bytes where nothing answers."""
    found = question(message)
    if found is None:
        return b"", 0
    asked_name, number, asked = found
    lookup = lookups.get(_KINDS.get(number, ""))
    if asked_name.removesuffix(".") != name:
        return answer(message, asked, _NXDOMAIN, b"", number), lookup.delay_ns if lookup else 0
    if lookup is None:
        return answer(message, asked, 0, b"", number), 0
    if lookup.answer == "silence":
        return b"", 0
    code, record = (_SERVFAIL, b"") if lookup.answer == "failure" else (0, lookup.record)
    return answer(message, asked, code, record, number), lookup.delay_ns


def main(address: str, name: str, *words: str) -> int:
    signal.signal(signal.SIGTERM, stop)
    lookups = {each.kind: each for each in map(Lookup, words)}
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, PORT))
    due: list[tuple[int, int, bytes, tuple[str, int]]] = []
    count = 0
    while True:
        sock.settimeout(max(0.0, (due[0][0] - time.monotonic_ns()) / 1e9) if due else None)
        try:
            message, peer = sock.recvfrom(4096)
            text, delay_ns = reply(message, name, lookups)
            if text:
                count += 1
                heapq.heappush(due, (time.monotonic_ns() + delay_ns, count, text, peer))
        except (TimeoutError, BlockingIOError):
            pass
        while due and due[0][0] <= time.monotonic_ns():
            _, _, text, peer = heapq.heappop(due)
            sock.sendto(text, peer)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
