"""Servers that are slow and not silent: what counts is bytes that arrive, and after a complete upload the answer alone."""

from __future__ import annotations

import re
import socket
import struct
import time
from pathlib import Path

import pytest

from tests.engine.harness import Told, failed
from tests.engine.test_hostile_http import ferry
from tests.support.hostile_http import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    HostileServer,
    Talk,
    block,
    frame,
    head,
    serve,
)

# More than what a connection holds before `narrow`, which a slow reader must read in less time than a silence may last.
SIZE, BYTE_S, STALL = 400_000, 80_000, ("--stall", "3s")


def put(folder: Path, server: HostileServer, *words: str, size: int = SIZE) -> Told:
    (folder / "source").write_bytes(bytes(size))
    return ferry(folder, "put", "source", server.url("/file"), *server.trust(), "--retry", "0", *words)


def narrow(talk: Talk) -> None:
    """Nothing is taken of what the test's own reads do not take."""
    # Two segments of the loopback: with less room Linux sends by a timer that backs off.
    talk.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)


def body(talk: Talk, byte_s: int) -> None:
    """Read the request with its body, a piece at a time."""
    match = re.search(r"(?i)content-length: (\d+)", talk.request())
    assert match
    left = int(match[1])
    while left:
        piece = min(left, 4096)
        talk.take(piece)
        left -= piece
        if byte_s:
            time.sleep(piece / byte_s)


@pytest.mark.parametrize("tls", [False, True])
def test_a_slow_reader_does_not_stall(tmp_path: Path, tls: bool) -> None:
    """The socket has taken all at once, and the server takes it for five seconds."""

    def script(talk: Talk, _: HostileServer) -> None:
        narrow(talk)
        body(talk, BYTE_S)
        talk.send(head("201 Created", 0))

    with serve(script, tls=tls) as server:
        told = put(tmp_path, server, "--http1.1", *STALL)
    assert told.code == 0, told.error


def test_a_slow_reader_over_h2_does_not_stall(tmp_path: Path) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        narrow(talk)
        assert talk.take(len(PREFACE)) == PREFACE
        room = 1 << 20
        # INITIAL_WINDOW_SIZE: all of the body may come at once.
        talk.send(frame(SETTINGS, struct.pack(">HI", 4, room)), frame(WINDOW_UPDATE, room.to_bytes(4, "big")))
        stream, ended, frames = 0, False, talk.frames()
        while not ended:
            kind, flags, on, payload = next(frames)
            stream = on or stream
            if kind == SETTINGS and not flags & 1:
                talk.send(frame(SETTINGS, flags=1))
            elif kind == DATA:
                time.sleep(len(payload) / BYTE_S)
                ended = bool(flags & END_STREAM)
        talk.send(frame(HEADERS, block((":status", "201")), flags=END_HEADERS | END_STREAM, stream=stream))

    with serve(script, tls=True, alpn="h2") as server:
        told = put(tmp_path, server, "--http2", *STALL)
    assert told.code == 0, told.error


@pytest.mark.parametrize("limit", [(), ("--limit-rate", "50kB/s")], ids=["at-once", "limited"])
def test_a_reader_that_reads_no_more_stalls(tmp_path: Path, limit: tuple[str, ...]) -> None:
    """Also while a limit would have it wait, and the system still takes what it gives."""

    def script(talk: Talk, _: HostileServer) -> None:
        narrow(talk)
        talk.request()
        talk.take(8192)
        time.sleep(20.0)

    with serve(script) as server:
        told = put(tmp_path, server, "--stall", "2s", *limit, size=3_000_000)
    failed(told, "transient", "--stall")


@pytest.mark.parametrize("begun", [False, True], ids=["no-head", "head"])
def test_a_server_may_work_on_a_complete_body(tmp_path: Path, begun: bool) -> None:
    """For longer than a silence may last, and longer than the default of 60 s."""
    bodies = 0

    def script(talk: Talk, _: HostileServer) -> None:
        nonlocal bodies
        talk.sock.settimeout(120.0)
        body(talk, 0)
        bodies += 1
        answer = head("200 OK", 4) + b"done"
        cut = len(answer) - 2 if begun else 0
        talk.send(answer[:cut])
        time.sleep(75.0 if not begun else 100.0)
        talk.send(answer[cut:])

    with serve(script) as server:
        (tmp_path / "source").write_bytes(bytes(SIZE))
        told = ferry(tmp_path, "put", "source", server.url("/file"), timeout_s=200.0)
    assert (told.code, bodies, len(told.attempts)) == (0, 1, 1), told.error


def test_who_names_a_time_means_it_after_an_upload_too(tmp_path: Path) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        body(talk, 0)
        time.sleep(10.0)

    with serve(script) as server:
        told = put(tmp_path, server, "--timeout-first-byte", "2s")
    failed(told, "transient", "--timeout-first-byte")
