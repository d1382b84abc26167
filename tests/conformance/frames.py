"""http2-frame-test-case, restated: one frame of a server each, which is right by itself, or wrong in one thing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.conformance.cases import Outcome
from tests.conformance.program import answers
from tests.support.hostile_http import ACK, DATA, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame

PRIORITY, PUSH_PROMISE, CONTINUATION = 2, 5, 9
PADDED, WITH_PRIORITY, END_HEADERS = 8, 0x20, 4
PROTOCOL_ERROR, FRAME_SIZE_ERROR = 1, 6
_NO_HPACK = b"not a header block"


@dataclass(frozen=True)
class Case:
    """`codes` are the errors of which one is right; none: the frame is right."""

    name: str
    wire: bytes
    codes: tuple[int, ...] = ()


def _u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _padded(data: bytes, padding: bytes) -> bytes:
    return bytes([len(padding)]) + data + padding


# The right ones are all of the suite's kinds; their contents are ours.
CASES = (
    Case("continuation/header", frame(CONTINUATION, _NO_HPACK, stream=50)),
    Case("continuation/normal", frame(CONTINUATION, stream=50)),
    Case("data/normal", frame(DATA, _padded(b"some data", b"\0" * 6), flags=PADDED, stream=2)),
    Case("goaway/normal", frame(GOAWAY, _u32(30, 9) + b"debug data")),
    Case("headers/normal", frame(HEADERS, _NO_HPACK, flags=END_HEADERS, stream=1)),
    Case(
        "headers/priority",
        frame(HEADERS, _padded(_u32(1 << 31 | 20) + b"\x09" + _NO_HPACK, b"\0" * 16),
              flags=PADDED | WITH_PRIORITY | END_HEADERS, stream=3),
    ),
    Case("ping/normal", frame(PING, b"8 octets")),
    Case("priority/normal", frame(PRIORITY, _u32(11) + b"\x07", stream=9)),
    Case(
        "push_promise/normal",
        frame(PUSH_PROMISE, _padded(_u32(12) + _NO_HPACK, b"\0" * 6), flags=PADDED | END_HEADERS, stream=10),
    ),
    Case("rst_stream/normal", frame(RST_STREAM, _u32(8), stream=5)),
    Case("settings/normal", frame(SETTINGS, struct.pack(">HIHI", 1, 8192, 3, 5000))),
    Case("window_update/normal", frame(WINDOW_UPDATE, _u32(1000), stream=50)),
    Case("error/data-frame-padding", frame(DATA, b"\x04abc", flags=PADDED, stream=1), (PROTOCOL_ERROR,)),
    # The head announces 32,768 octets, twice what a receiver has to take.
    Case("error/data-frame-size", b"\x00\x80\x00\x00\x00\x00\x00\x00\x01" + b"data", (FRAME_SIZE_ERROR,)),
    Case("error/data-frame-stream", frame(DATA, b"a"), (PROTOCOL_ERROR,)),
    Case("error/goaway-frame-size", frame(GOAWAY, _u32(2)), (FRAME_SIZE_ERROR,)),
    Case("error/goaway-frame-stream", frame(GOAWAY, _u32(2, 3), stream=1), (PROTOCOL_ERROR,)),
    Case("error/headers-frame-padding", frame(HEADERS, b"\x04abc", flags=PADDED, stream=1), (PROTOCOL_ERROR,)),
    Case("error/headers-frame-stream", frame(HEADERS, b"a"), (PROTOCOL_ERROR,)),
    Case("error/ping-frame-size", frame(PING, b"four"), (FRAME_SIZE_ERROR,)),
    Case("error/ping-frame-stream", frame(PING, b"8 octets", stream=1), (PROTOCOL_ERROR,)),
    Case("error/priority-frame-size", frame(PRIORITY, _u32(1, 2), stream=2), (FRAME_SIZE_ERROR,)),
    Case("error/priority-frame-stream", frame(PRIORITY, _u32(1) + b"\x07"), (PROTOCOL_ERROR,)),
    Case(
        "error/push_promise-frame-padding",
        frame(PUSH_PROMISE, b"\x04abc", flags=PADDED, stream=1),
        (PROTOCOL_ERROR, FRAME_SIZE_ERROR),
    ),
    Case("error/push_promise-frame-promised_stream-odd", frame(PUSH_PROMISE, _u32(1), stream=1), (PROTOCOL_ERROR,)),
    Case("error/push_promise-frame-promised_stream-zero", frame(PUSH_PROMISE, _u32(0), stream=1), (PROTOCOL_ERROR,)),
    Case("error/push_promise-frame-stream", frame(PUSH_PROMISE, _u32(2)), (PROTOCOL_ERROR,)),
    Case("error/rst_stream-frame-size", frame(RST_STREAM, _u32(1, 2), stream=2), (FRAME_SIZE_ERROR,)),
    Case("error/rst_stream-frame-stream", frame(RST_STREAM, _u32(1)), (PROTOCOL_ERROR,)),
    Case("error/settings-frame-ack-size", frame(SETTINGS, struct.pack(">HI", 1, 1), flags=ACK), (FRAME_SIZE_ERROR,)),
    Case("error/settings-frame-size", frame(SETTINGS, struct.pack(">HIH", 1, 1, 2)), (FRAME_SIZE_ERROR,)),
    Case("error/settings-frame-stream", frame(SETTINGS, struct.pack(">HI", 1, 1), stream=1), (PROTOCOL_ERROR,)),
    Case("error/window_update-frame-increment", frame(WINDOW_UPDATE, _u32(0), stream=1), (PROTOCOL_ERROR,)),
    Case("error/window_update-frame-size", frame(WINDOW_UPDATE, b"abc", stream=1), (FRAME_SIZE_ERROR,)),
)  # fmt: skip


def frames() -> Iterator[Outcome]:
    """A wrong frame ends the connection or a stream with a code that is given, a right one does not."""
    given = [{"kind": "h2", "wire": case.wire.hex()} for case in CASES]
    for case, answer in zip(CASES, answers(given), strict=True):
        got = [answer["error"]["code"]] if answer["error"] else [each[2] for each in answer["events"] if each[0] == "reset"]
        # A peer that resets a stream has not erred.
        right = any(code in case.codes for code in got) if case.codes else answer["error"] is None
        how = f"refuses it: {got}" if answer["error"] else "accepts it"
        yield Outcome(case.name, "" if right else f"{how}, {answer['error']}, {answer['events']}"[:200])
