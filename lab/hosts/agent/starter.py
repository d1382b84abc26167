"""Starts a client at an instant, to the nanosecond, from PID 1 of a machine in virtual time; x86-64, as that machine is.

A Python that starts a program makes system calls of its own until it sleeps again, and touches memory: the machine's clock counts
both, and another Python or another length of a path makes other ones. `starter.s` is the program that a client's process is
before it is the client: it sleeps until the instant, executes the client, waits for its end, and says when that was.

Standard library only, and little of it: part of PID 1.
"""

from __future__ import annotations

import struct

BASE, RESULT, ORDER, ORDER_BYTES = 0x400000, 0x40F000, 0x410000, 0x100000
RESULT_BYTES = 176
SEED_BYTES = 32
_HEAD = struct.Struct("=QQQ32sQ")
_NS = 1_000_000_000

# `as` makes this of lab/hosts/virtual/starter.s; tests/unit/hosts/test_starter.py makes it again.
INSTRUCTIONS = bytes.fromhex(
    "4989e4bb00004100bd00f0400031c0bf0300000089deba000010000f0548837b10000f858c0000006a006affb80e0000"
    "0031ff4889e631d241ba080000000f05b83a0000000f0585c074444189c5b83d0000004489ef488d750831d24c8d5520"
    "0f05b8e4000000bf01000000488d75100f05b812000000bf0300000089eebab00000004531d20f0531ffe9c4000000b8"
    "0e000000bf02000000488d74240831d241ba080000000f05b803000000bf030000000f05b89d000000bf1d000000be01"
    "0000000f05b8e6000000bf01000000be010000004889da4531d20f0585c075e5b89d000000bf1d00000031f60f054883"
    "7b10007522b83b000000488b7b38488d7340498d5424180f0548f7d848894500bf7e000000eb3cb810000000bf040000"
    "00be0652000031d20f05b801000000bf04000000488d7318488b53100f05b810000000bf04000000be0752000031d20f"
    "0531ffb8e70000000f05"
)


def program() -> bytes:
    """An ELF file with one segment, its memory's end the order's."""
    head = 64 + 56
    size = head + len(INSTRUCTIONS)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = struct.pack("=16sHHIQQQIHHHHHH", ident, 2, 62, 1, BASE + head, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("=IIQQQQQQ", 1, 7, 0, BASE, BASE, size, ORDER + ORDER_BYTES - BASE, 0x1000)
    return elf + segment + INSTRUCTIONS


def client_order(at_ns: int, path: str, words: list[str]) -> bytes:
    """Execute `path` with these words at `at_ns` of CLOCK_MONOTONIC. Raises OSError for words that are too long."""
    texts = [text.encode(errors="surrogateescape") + b"\0" for text in (path, *words)]
    at = ORDER + _HEAD.size + 8 * (len(words) + 1)
    places = []
    for text in texts:
        places.append(at)
        at += len(text)
    if at > ORDER + ORDER_BYTES:
        raise OSError(7, "Argument list too long")
    head = _HEAD.pack(*divmod(at_ns, _NS), 0, b"", places[0])
    return head + struct.pack(f"={len(words) + 1}Q", *places[1:], 0) + b"".join(texts)


def seed_order(at_ns: int, seed: bytes) -> bytes:
    """Give the kernel's random numbers that seed at `at_ns`: at most 32 bytes."""
    return _HEAD.pack(*divmod(at_ns, _NS), len(seed), seed, 0)


class Result:
    """The end of a client: `errno` if it could not be executed, its status by wait(2), its last instant, and its peak memory."""

    def __init__(self, data: bytes) -> None:
        self.errno, self.status, seconds, nanoseconds = struct.unpack_from("=QI4xQQ", data)
        self.ended_ns = seconds * _NS + nanoseconds
        self.peak_bytes = struct.unpack_from("=Q", data, 64)[0] * 1024


def result(data: bytes) -> Result | None:
    """From the order's file; None where the starter did not live to write it."""
    if len(data) < RESULT_BYTES or not struct.unpack_from("=Q", data, 16)[0]:
        return None
    return Result(data[:RESULT_BYTES])
