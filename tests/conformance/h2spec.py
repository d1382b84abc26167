"""h2spec's cases of a client, restated: what a server sends over HTTP/2, and how the program answers on the wire."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab.clients.ferry import find_ferry
from tests.conformance.cases import Outcome
from tests.support.hostile_http import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PATIENCE_S,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    HostileServer,
    Talk,
    block,
    frame,
    serve,
)

PRIORITY, CONTINUATION, UNKNOWN = 2, 9, 0x16
PADDED = 8
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR, COMPRESSION_ERROR = 1, 3, 5, 6, 9
MAX_FRAME_SIZE = 5
"""A setting (RFC 9113, 6.5.2)."""
IDLE = 2
"""A stream of the server's, which it has not opened."""
PAYLOAD = b"ping-pay"

_OK = block((":status", "200"))
_MORE = block(("x-more", "1"))
_NO_PRIORITY = b"\0\0\0\0\xff"
_LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Client:
    """The client that the frames go to."""

    stream: int
    """Of its request."""
    max_frame: int
    """The longest payload that it takes."""


Frames = Callable[[Client], list[bytes]]


@dataclass(frozen=True)
class Case:
    """`wanted` are the answers of which one passes; a closed connection passes for an error, as in h2spec."""

    section: str
    server: str
    frames: Frames
    wanted: frozenset[str]
    settings: bytes | None = frame(SETTINGS)
    """The server's first frame, None where it is among `frames`."""
    requests: int = 1
    """Those behind the first are never answered: a client that has all it wants may close before it reads the rest."""


def _ping(payload: bytes = PAYLOAD, flags: int = 0) -> bytes:
    return frame(PING, payload, flags=flags)


def _number(kind: int, stream: int, number: int) -> bytes:
    return frame(kind, struct.pack(">I", number), stream=stream)


def _headers(client: Client, *flags: int, fields: bytes = _OK) -> bytes:
    return frame(HEADERS, fields, flags=sum(flags), stream=client.stream)


def _data(stream: int, payload: bytes = b"test") -> bytes:
    return frame(DATA, payload, flags=END_STREAM, stream=stream)


def _continued(stream: int, *flags: int, fields: bytes = _MORE) -> bytes:
    return frame(CONTINUATION, fields, flags=sum(flags), stream=stream)


def _setting(identifier: int, value: int) -> bytes:
    return frame(SETTINGS, struct.pack(">HI", identifier, value))


def _open(client: Client) -> bytes:
    return _headers(client, END_HEADERS)


def _ended(client: Client) -> bytes:
    return _headers(client, END_HEADERS, END_STREAM)


def _cancelled(client: Client) -> list[bytes]:
    return [_open(client), _number(RST_STREAM, client.stream, 8)]


PONG = frozenset({"PING"})


def connection(*codes: int) -> frozenset[str]:
    """A connection error."""
    return frozenset({f"GOAWAY {code}" for code in codes} | {"closed"})


def stream(*codes: int) -> frozenset[str]:
    """A stream error, which may also be one of the connection."""
    return connection(*codes) | {f"RST_STREAM {code}" for code in codes}


_BAD_PING = frame(PING, bytes(8), stream=3)

CASES = (
    Case("1", "its preface", lambda _: [], frozenset({"request"})),
    Case("4.1", "a frame of unknown type", lambda _: [frame(UNKNOWN, bytes(8)), _ping()], PONG),
    Case("4.1", "a PING with flags that have no meaning", lambda _: [_ping(flags=0x16)], PONG),
    Case("4.1", "a PING with the reserved bit set", lambda _: [frame(PING, PAYLOAD, stream=1 << 31)], PONG),
    Case("4.2", "DATA of the largest size", lambda c: [_open(c), _data(c.stream, bytes(c.max_frame)), _ping()], PONG, requests=2),
    Case(
        "4.2", "DATA that is too large", lambda c: [_open(c), _data(c.stream, bytes(c.max_frame + 1))], stream(FRAME_SIZE_ERROR)
    ),
    Case(
        "4.2",
        "HEADERS that are too large",
        lambda c: [_headers(c, END_HEADERS, END_STREAM, fields=_OK + bytes(c.max_frame))],
        connection(FRAME_SIZE_ERROR),
    ),
    Case(
        "4.3",
        "a header block that ends within a field",
        lambda c: [_headers(c, END_HEADERS, END_STREAM, fields=b"\x40")],
        connection(COMPRESSION_ERROR),
    ),
    Case("5.1", "DATA on an idle stream", lambda _: [_data(IDLE)], connection(PROTOCOL_ERROR)),
    Case("5.1", "RST_STREAM on an idle stream", lambda _: [_number(RST_STREAM, IDLE, 8)], connection(PROTOCOL_ERROR)),
    Case("5.1", "WINDOW_UPDATE on an idle stream", lambda _: [_number(WINDOW_UPDATE, IDLE, 100)], connection(PROTOCOL_ERROR)),
    Case(
        "5.1", "CONTINUATION on an idle stream", lambda _: [_continued(IDLE, END_HEADERS, fields=_OK)], connection(PROTOCOL_ERROR)
    ),
    Case("5.1", "DATA behind RST_STREAM", lambda c: [*_cancelled(c), _data(c.stream)], stream(STREAM_CLOSED)),
    Case("5.1", "HEADERS behind RST_STREAM", lambda c: [*_cancelled(c), _ended(c)], stream(STREAM_CLOSED)),
    Case(
        "5.1",
        "CONTINUATION behind RST_STREAM",
        lambda c: [*_cancelled(c), _continued(c.stream, END_HEADERS)],
        stream(STREAM_CLOSED, PROTOCOL_ERROR),
    ),
    Case("5.1", "DATA behind END_STREAM", lambda c: [_ended(c), _data(c.stream)], connection(STREAM_CLOSED)),
    Case("5.1", "HEADERS behind END_STREAM", lambda c: [_ended(c), _ended(c)], connection(STREAM_CLOSED)),
    Case(
        "5.1",
        "CONTINUATION behind END_STREAM",
        lambda c: [_ended(c), _continued(c.stream, END_HEADERS)],
        connection(STREAM_CLOSED, PROTOCOL_ERROR),
    ),
    Case(
        "5.1.1",
        "HEADERS on a stream that the client has not opened",
        lambda _: [frame(HEADERS, _OK, flags=END_HEADERS + END_STREAM, stream=101)],
        connection(PROTOCOL_ERROR),
    ),
    Case("5.4.1", "an error, and expects a close", lambda _: [_BAD_PING], frozenset({"closed"})),
    Case("5.4.1", "an error, and expects GOAWAY", lambda _: [_BAD_PING], frozenset({f"GOAWAY {PROTOCOL_ERROR}"})),
    Case("5.5", "a frame of an extension", lambda _: [frame(UNKNOWN, bytes(8)), _ping()], PONG),
    Case("6.1", "DATA on stream 0", lambda _: [_data(0)], connection(PROTOCOL_ERROR)),
    Case("6.1", "DATA on a stream that is closed", lambda c: [_ended(c), _data(c.stream)], stream(STREAM_CLOSED)),
    Case(
        "6.1",
        "DATA with more padding than payload",
        lambda c: [
            _headers(c, END_HEADERS, fields=_OK + block(("content-length", "4"))),
            frame(DATA, b"\6Test", flags=END_STREAM + PADDED, stream=c.stream),
        ],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.2",
        "PRIORITY between HEADERS and CONTINUATION",
        lambda c: [_headers(c), frame(PRIORITY, _NO_PRIORITY, stream=c.stream), _continued(c.stream, END_HEADERS)],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.2",
        "HEADERS on stream 0",
        lambda _: [frame(HEADERS, _OK, flags=END_HEADERS + END_STREAM)],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.2",
        "HEADERS with more padding than payload",
        lambda c: [frame(HEADERS, b"\x11" + _OK, flags=PADDED, stream=c.stream)],
        stream(PROTOCOL_ERROR),
    ),
    Case("6.3", "PRIORITY on stream 0", lambda _: [frame(PRIORITY, _NO_PRIORITY)], connection(PROTOCOL_ERROR)),
    Case(
        "6.3",
        "PRIORITY of four bytes",
        lambda c: [_ended(c), frame(PRIORITY, b"\x80\0\0\1", stream=c.stream)],
        stream(FRAME_SIZE_ERROR),
    ),
    Case("6.4", "RST_STREAM on stream 0", lambda _: [_number(RST_STREAM, 0, 8)], connection(PROTOCOL_ERROR)),
    Case("6.4", "RST_STREAM on an idle stream", lambda _: [_number(RST_STREAM, IDLE, 8)], connection(PROTOCOL_ERROR)),
    Case(
        "6.4",
        "RST_STREAM of three bytes",
        lambda c: [_ended(c), frame(RST_STREAM, bytes(3), stream=c.stream)],
        stream(FRAME_SIZE_ERROR),
    ),
    Case(
        "6.5",
        "an acknowledgement of SETTINGS with a payload",
        lambda _: [frame(SETTINGS, b"\0", flags=ACK)],
        connection(FRAME_SIZE_ERROR),
        None,
    ),
    Case(
        "6.5",
        "SETTINGS on a stream",
        lambda _: [frame(SETTINGS, struct.pack(">HI", 3, 100), stream=1)],
        connection(PROTOCOL_ERROR),
        None,
    ),
    Case(
        "6.5", "SETTINGS of three bytes", lambda _: [frame(SETTINGS, b"\0\3\0")], stream(PROTOCOL_ERROR, FRAME_SIZE_ERROR), None
    ),
    Case("6.5.2", "INITIAL_WINDOW_SIZE of 2^31", lambda _: [_setting(4, 1 << 31)], connection(FLOW_CONTROL_ERROR), None),
    Case("6.5.2", "MAX_FRAME_SIZE of 16383", lambda _: [_setting(5, 16383)], connection(PROTOCOL_ERROR), None),
    Case("6.5.2", "MAX_FRAME_SIZE of 2^24", lambda _: [_setting(5, 1 << 24)], connection(PROTOCOL_ERROR), None),
    Case("6.5.2", "a setting that is unknown", lambda _: [_setting(0xFF, 1), _ping()], PONG, None),
    Case("6.5.3", "SETTINGS, and expects an acknowledgement", lambda _: [_setting(3, 100)], frozenset({"SETTINGS"}), None),
    Case("6.7", "a PING", lambda _: [_ping()], PONG),
    Case("6.7", "a PING that is an answer, and one that is not", lambda _: [_ping(b"notasked", ACK), _ping()], PONG),
    Case("6.7", "a PING on a stream", lambda _: [frame(PING, bytes(8), stream=1)], connection(PROTOCOL_ERROR)),
    Case("6.7", "a PING of six bytes", lambda _: [frame(PING, bytes(6))], connection(FRAME_SIZE_ERROR)),
    Case("6.8", "GOAWAY on a stream", lambda _: [frame(GOAWAY, bytes(8), stream=1)], connection(PROTOCOL_ERROR)),
    Case("6.9", "WINDOW_UPDATE by 0", lambda _: [_number(WINDOW_UPDATE, 0, 0)], connection(PROTOCOL_ERROR)),
    Case(
        "6.9",
        "WINDOW_UPDATE by 0 on a stream",
        lambda c: [_open(c), _number(WINDOW_UPDATE, c.stream, 0)],
        stream(PROTOCOL_ERROR),
    ),
    Case("6.9", "WINDOW_UPDATE of three bytes", lambda _: [frame(WINDOW_UPDATE, b"\0\0\1")], connection(FRAME_SIZE_ERROR)),
    Case(
        "6.9.1",
        "WINDOW_UPDATEs beyond the largest window",
        lambda _: [_number(WINDOW_UPDATE, 0, _LARGEST)] * 2,
        frozenset({f"GOAWAY {FLOW_CONTROL_ERROR}"}),
    ),
    Case(
        "6.9.1",
        "WINDOW_UPDATEs beyond the largest window of a stream",
        lambda c: [_open(c), *[_number(WINDOW_UPDATE, c.stream, _LARGEST)] * 2],
        frozenset({f"RST_STREAM {FLOW_CONTROL_ERROR}"}),
    ),
    Case(
        "6.10",
        "HEADERS and two CONTINUATIONs",
        lambda c: [_headers(c, END_STREAM), _continued(c.stream), _continued(c.stream, END_HEADERS), _ping()],
        PONG,
        requests=2,
    ),
    Case(
        "6.10",
        "DATA behind a CONTINUATION that is not the last",
        lambda c: [_headers(c), _continued(c.stream), _data(c.stream)],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.10",
        "CONTINUATION on stream 0",
        lambda c: [_headers(c, END_STREAM), _continued(0, END_HEADERS)],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.10",
        "CONTINUATION behind the last HEADERS",
        lambda c: [_ended(c), _continued(c.stream, END_HEADERS)],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.10",
        "CONTINUATION behind the last CONTINUATION",
        lambda c: [_headers(c, END_STREAM), *[_continued(c.stream, END_HEADERS)] * 2],
        connection(PROTOCOL_ERROR),
    ),
    Case(
        "6.10",
        "DATA between HEADERS and CONTINUATION",
        lambda c: [_headers(c), _data(c.stream), _continued(c.stream), _continued(0, END_HEADERS)],
        connection(PROTOCOL_ERROR),
    ),
)


def _client(talk: Talk) -> Client:
    """Reads the client's preface, its settings and its request."""
    assert talk.take(len(PREFACE)) == PREFACE
    max_frame = 1 << 14
    for kind, flags, on, payload in talk.frames():
        if kind == SETTINGS and not flags & ACK:
            values = dict(struct.unpack(">HI", payload[at : at + 6]) for at in range(0, len(payload), 6))
            max_frame = values.get(MAX_FRAME_SIZE, max_frame)
        if kind == HEADERS:
            return Client(on, max_frame)
    raise AssertionError("no request")


def _answers(talk: Talk, server_settings: bool) -> Iterator[str]:
    """What the client sends, as `Case.wanted` has it, until it closes."""
    try:
        for kind, flags, _, payload in talk.frames():
            if kind == PING and flags & ACK and payload == PAYLOAD:
                yield "PING"
            elif kind == SETTINGS and flags & ACK and not server_settings:
                yield "SETTINGS"
            elif kind == RST_STREAM:
                yield f"RST_STREAM {int.from_bytes(payload, 'big')}"
            elif kind == GOAWAY:
                yield f"GOAWAY {int.from_bytes(payload[4:8], 'big')}"
    except TimeoutError:
        yield "silent"
    except OSError:
        # TLS has errors of its own for a connection that ends without a goodbye.
        yield "closed"


def _conversation(case: Case, talk: Talk) -> Iterator[str]:
    """The client's answers, up to what the case waits for."""
    client = _client(talk)
    if case.wanted == {"request"}:
        talk.send(frame(SETTINGS), _ended(client))
        yield "request"
        return
    talk.send(b"".join([*([case.settings] if case.settings else []), *case.frames(client)]))
    for answer in _answers(talk, case.settings is not None):
        yield answer
        if answer in case.wanted:
            return


def _run(case: Case) -> list[str]:
    """The client's answers on its first connection."""
    seen: list[str] = []

    over = threading.Event()

    def script(talk: Talk, _: HostileServer) -> None:
        if talk.number:
            return
        try:
            seen.extend(_conversation(case, talk))
        finally:
            over.set()

    with serve(script, tls=True, alpn="h2") as server:
        urls = [server.url(f"/{number}") for number in range(case.requests)]
        command = [str(find_ferry()), "get", *urls, "--discard", *server.trust(), "--http2", "--retry", "0", "--quiet"]
        done = subprocess.run([*command, "--timeout-total", "10s"], capture_output=True, timeout=60, check=False)
        # The program can end before its last words have been read.
        over.wait(PATIENCE_S)
    return seen if done.returncode >= 0 else [f"is killed by signal {-done.returncode}"]


def h2spec() -> Iterator[Outcome]:
    """Each against a run of the program."""
    with ThreadPoolExecutor(4) as pool:
        for number, (case, seen) in enumerate(zip(CASES, pool.map(_run, CASES), strict=True), 1):
            passed = not case.wanted.isdisjoint(seen)
            yield Outcome(f"{number} {case.section} The server sends {case.server}.", "" if passed else f"answers {seen}")
