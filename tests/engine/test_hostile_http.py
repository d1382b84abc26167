"""Findings of the review of ferry's HTTP, each against the program and a scripted server on the loopback."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from lab.hosts.host import Completed
from tests.engine.harness import Told, failed
from tests.support.hostile_http import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    SETTINGS,
    HostileServer,
    Talk,
    block,
    frame,
    head,
    serve,
)

BODY = bytes(range(256)) * 600
OK_FIELDS = ((":status", "200"), ("content-length", str(len(BODY))))


def ferry(folder: Path, *words: str, timeout_s: float = 60.0, memory: int | None = None) -> Told:
    """`memory` is how much of it the program may map."""
    before = ["prlimit", f"--as={memory}"] if memory else []
    command = [*before, str(find_ferry()), *words, "--json=-"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=timeout_s, check=False)
    return Told.of(Completed(tuple(command), done.returncode, done.stdout, done.stderr, 0, 0, 0.0, 0.0))


def get(folder: Path, server: HostileServer, *words: str, path: str = "/file", timeout_s: float = 60.0) -> Told:
    return ferry(folder, "get", server.url(path), "-o", "file", *server.trust(), *words, timeout_s=timeout_s)


def arrived(folder: Path, told: Told, body: bytes = BODY) -> None:
    assert told.code == 0, (told.error, told.stderr)
    assert (folder / "file").read_bytes() == body


# 3: a server that closes when it has answered


@pytest.mark.parametrize("size", [8_000, 50_000, 150_000])
def test_a_limited_download_is_complete_when_the_server_closes_behind_it(tmp_path: Path, size: int) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.send(head("200 OK", size, "Connection: close") + BODY[:size])

    with serve(script, tls=True) as server:
        told = get(tmp_path, server, "--limit-rate", "100kB/s", "--retry", "0")
    arrived(tmp_path, told, BODY[:size])
    assert len(told.attempts) == 1


def test_a_limited_download_over_h2_is_complete_when_the_server_closes_behind_it(tmp_path: Path) -> None:
    body = BODY[:8_000]

    def script(talk: Talk, _: HostileServer) -> None:
        talk.hello()
        stream = talk.asked()
        fields = block((":status", "200"), ("content-length", str(len(body))))
        talk.hold_together()
        talk.send(frame(HEADERS, fields, flags=END_HEADERS, stream=stream) + frame(DATA, body, flags=END_STREAM, stream=stream))

    with serve(script, tls=True, alpn="h2") as server:
        told = get(tmp_path, server, "--limit-rate", "20kB/s", "--retry", "0")
    arrived(tmp_path, told, body)


# 4: answers that are asked for and not read


def test_a_flood_of_pings_does_not_fill_the_memory(tmp_path: Path) -> None:
    """500 MB with four million PINGs, whose answers the server does not read: ferry stops reading."""
    sent = 0

    def script(talk: Talk, _: HostileServer) -> None:
        nonlocal sent
        talk.hello()
        stream = talk.asked()
        talk.send(frame(HEADERS, block(*OK_FIELDS), flags=END_HEADERS, stream=stream))
        talk.sock.settimeout(5.0)
        # Frames of an unknown kind between them: of one read, the answers are few.
        flood = (frame(PING, b"flooding") + frame(0xBE, bytes(100))) * 1000
        while sent < 500_000_000:
            talk.send(flood)
            sent += len(flood)

    with serve(script, tls=True, alpn="h2") as server:
        told = get(tmp_path, server, "--retry", "0", "--stall", "8s")
    failed(told, "transient")
    assert sent < 300_000_000


# 5: an answer to a limited upload


def test_a_limited_upload_over_h2_takes_a_long_answer(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 1000)
    answer = b"thanks " * 20_000

    def script(talk: Talk, _: HostileServer) -> None:
        talk.hello()
        window, stream, frames, ended = 65_535, 0, talk.frames(), False
        connection = window
        while not ended:
            kind, flags, on, payload = next(frames)
            if kind == SETTINGS and not flags & 1:
                settings = dict(struct.iter_unpack(">HI", payload))
                window = settings.get(4, window)
                talk.send(frame(SETTINGS, flags=1))
            elif kind == 8 and on == 0:
                connection += int.from_bytes(payload, "big")
            stream = on or stream
            ended = kind in (DATA, HEADERS) and bool(flags & END_STREAM)
        talk.send(frame(HEADERS, block((":status", "200")), flags=END_HEADERS, stream=stream))
        rest = answer
        while rest:
            room = min(window, connection, 16_000)
            while room <= 0:
                kind, _, on, payload = next(frames)
                if kind == 8:
                    more = int.from_bytes(payload, "big")
                    window, connection = (window + more, connection) if on else (window, connection + more)
                    room = min(window, connection, 16_000)
            piece, rest = rest[:room], rest[room:]
            window, connection = window - len(piece), connection - len(piece)
            talk.send(frame(DATA, piece, flags=0 if rest else END_STREAM, stream=stream))
        talk.take(1 << 20)

    with serve(script, tls=True, alpn="h2") as server:
        words = ("--limit-rate", "100kB/s", "--retry", "0", "--timeout-total", "15s")
        told = ferry(tmp_path, "put", "source", server.url(), *server.trust(), *words)
    assert told.code == 0, told.error


# 6: a malformed block


def test_fields_of_a_malformed_answer_are_not_those_of_the_next(tmp_path: Path) -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        talk.hello()
        malformed = block((":status", "200"), ("content-length", "5"), ("etag", '"first"'), ("Upper-Case", "is malformed"))
        talk.send(frame(HEADERS, malformed, flags=END_HEADERS, stream=talk.asked()))
        if server.connections[-1] is talk:
            stream = talk.asked()
            talk.send(frame(HEADERS, block(*OK_FIELDS), flags=END_HEADERS, stream=stream))
            talk.send(*(frame(DATA, BODY[at : at + 16_000], stream=stream) for at in range(0, len(BODY), 16_000)))
            talk.send(frame(DATA, flags=END_STREAM, stream=stream))
        talk.take(1 << 20)

    with serve(script, tls=True, alpn="h2") as server:
        words = ("get", server.url("/one"), server.url("/two"), "-O", "--parallel", "1", "--retry", "0", *server.trust())
        told = ferry(tmp_path, *words)
    first, second = told.report["transfers"]
    assert first["error"], first
    assert second.get("error") is None, second["error"]
    assert (tmp_path / "two").read_bytes() == BODY


# 10: a redirect that expires


def test_a_retry_asks_the_url_that_was_given_and_not_where_it_once_led(tmp_path: Path) -> None:
    """A signed target that is valid once, as of a release or an object store."""
    asked: list[str] = []

    def script(talk: Talk, _: HostileServer) -> None:
        while True:
            path = talk.request().split()[1]
            asked.append(path)
            if path == "/file":
                talk.send(head("302 Found", 0, f"Location: /signed-{asked.count('/file')}"))
            elif path in asked[:-1]:
                talk.send(head("403 Forbidden", 0))
            elif path == "/signed-1":
                talk.send(head("200 OK", len(BODY), 'ETag: "a"') + BODY[:1000])
                return
            else:
                span = f"Content-Range: bytes 1000-{len(BODY) - 1}/{len(BODY)}"
                talk.send(head("206 Partial Content", len(BODY) - 1000, 'ETag: "a"', span) + BODY[1000:])

    with serve(script) as server:
        told = get(tmp_path, server, "--retry", "3", "--retry-max-wait", "50ms")
    arrived(tmp_path, told)
    assert asked == ["/file", "/signed-1", "/file", "/signed-2"]
    assert told.transfer["final_url"] == server.url("/signed-2")


# 12: bytes behind an answer


def test_a_connection_with_bytes_behind_an_answer_is_not_used_again(tmp_path: Path) -> None:
    """They come in a TLS record of their own, and look like the answer to the next request."""

    def script(talk: Talk, server: HostileServer) -> None:
        path = talk.request().split()[1]
        planted = head("200 OK", 7) + b"planted"
        talk.hold_together()
        talk.send(head("200 OK", 4) + path[:4].encode(), planted)
        talk.let_go()
        server.requests.append(talk.request())

    with serve(script, tls=True) as server:
        words = ("get", server.url("/one"), server.url("/two"), "-O", "--parallel", "1", *server.trust())
        told = ferry(tmp_path, *words)
    assert told.code in (0, 12), told.report
    assert (len(server.connections), server.requests) == (2, [])
    for name in ("one", "two"):
        assert not (tmp_path / name).exists() or (tmp_path / name).read_bytes() == b"/" + name.encode()


# 14: a name that does not exist


def test_a_name_that_does_not_exist_is_not_asked_for_again(tmp_path: Path) -> None:
    told = ferry(tmp_path, "get", f"http://{'a' * 64}.example/file", "-o", "file", "--retry", "2", "--retry-max-wait", "50ms")
    failed(told, "permanent", "cannot be resolved")
    assert len(told.attempts) == 1


# 16: an invalid length


@pytest.mark.parametrize("lengths", [("+5",), ("5", "6"), ("5", "x"), ("",)], ids=str)
def test_an_invalid_content_length_is_refused_over_h2(tmp_path: Path, lengths: tuple[str, ...]) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        talk.hello()
        stream = talk.asked()
        fields = block((":status", "200"), *(("content-length", length) for length in lengths))
        talk.send(frame(HEADERS, fields, flags=END_HEADERS, stream=stream))
        talk.send(frame(DATA, b"12345", flags=END_STREAM, stream=stream))
        talk.take(1 << 20)

    with serve(script, tls=True, alpn="h2") as server:
        told = get(tmp_path, server, "--retry", "0")
    failed(told, "integrity")
    assert not (tmp_path / "file").exists()
