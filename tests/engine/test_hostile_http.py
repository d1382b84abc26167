"""Findings of the review of ferry's HTTP, each against the program and a scripted server on the loopback."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from lab.hosts.host import Completed
from lab.servers.certificates import make_certificates
from tests.engine.harness import Told, failed
from tests.support import tls13
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
    everything_is_read,
    frame,
    head,
    serve,
    serve_sockets,
)

BODY = bytes(range(256)) * 600
OK_FIELDS = ((":status", "200"), ("content-length", str(len(BODY))))


def ferry(folder: Path, *words: str, timeout_s: float = 60.0, memory: int | None = None, umask: int = -1) -> Told:
    """`memory` is how much of it the program may map."""
    before = ["prlimit", f"--as={memory}"] if memory else []
    command = [*before, str(find_ferry()), *words, "--json=-"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=timeout_s, check=False, umask=umask)
    return Told.of(Completed(tuple(command), done.returncode, done.stdout, done.stderr, 0, 0, 0.0, 0.0))


def get(folder: Path, server: HostileServer, *words: str, path: str = "/file", timeout_s: float = 60.0, umask: int = -1) -> Told:
    return ferry(folder, "get", server.url(path), "-o", "file", *server.trust(), *words, timeout_s=timeout_s, umask=umask)


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


# 9: a message of TLS that comes in pieces


@pytest.mark.parametrize("size", [17_000, 60_000])
def test_a_session_ticket_longer_than_a_record_is_put_together(tmp_path: Path, size: int) -> None:
    """Its last byte comes alone, after the client has read the rest. A library's server sends tickets of 200 bytes."""
    certificates = make_certificates(["127.0.0.1"])
    (tmp_path / "ca.pem").write_bytes(certificates.ca_pem)

    def script(sock: socket.socket) -> None:
        talk = tls13.accept(sock, certificates)
        talk.request()
        records = talk.records(tls13.HANDSHAKE, tls13.ticket(size))
        sock.sendall(records[:-1])
        everything_is_read(sock)
        sock.sendall(records[-1:] + talk.records(tls13.APPLICATION_DATA, head("200 OK", len(BODY)) + BODY))
        talk.goodbye()

    with serve_sockets(script) as server:
        told = ferry(tmp_path, "get", f"https://127.0.0.1:{server.port}/file", "-o", "file", "--cacert", "ca.pem", "--retry", "0")
    arrived(tmp_path, told)


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


def test_a_redirect_to_two_places_is_refused(tmp_path: Path) -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        talk.send(head("302 Found", 0, "Location: /first", "Connection: close", "Location: /second"))

    with serve(script) as server:
        told = get(tmp_path, server, "--retry", "0")
        failed(told, "permanent", "several Location")
        assert len(server.requests) == 1


# 12: bytes behind an answer


@pytest.mark.parametrize(("location", "asked"), [("/caf\u00e9", "/caf%C3%A9"), ("/caf\u00e9?b=\u00e4#c", "/caf%C3%A9?b=%C3%A4")])
def test_a_location_in_utf_8_is_followed(tmp_path: Path, location: str, asked: str) -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request().split()[1])
        if len(server.requests) == 1:
            talk.send(
                b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: " + location.encode() + b"\r\n\r\n"
            )
        else:
            talk.send(head(length=len(BODY)), BODY)

    with serve(script) as server:
        arrived(tmp_path, get(tmp_path, server))
        assert server.requests == ["/file", asked]


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
    assert told.code == 0, told.report
    assert (len(server.connections), server.requests) == (2, [])
    assert {name: (tmp_path / name).read_bytes() for name in ("one", "two")} == {"one": b"/one", "two": b"/two"}


# 14: a name that does not exist


def test_a_name_that_does_not_exist_is_not_asked_for_again(tmp_path: Path) -> None:
    told = ferry(tmp_path, "get", f"http://{'a' * 64}.example/file", "-o", "file", "--retry", "2", "--retry-max-wait", "50ms")
    failed(told, "permanent", "cannot be resolved")
    assert len(told.attempts) == 1


# 15: two versions with one modification time


@pytest.mark.parametrize(("date", "resumed"), [("12:00:00", False), ("12:05:00", True), (None, False)])
def test_a_recent_modification_time_does_not_validate(tmp_path: Path, date: str | None, resumed: bool) -> None:
    """The file changes within the second, and its length stays: a second half would be of the other version."""
    second = bytes(reversed(BODY))
    fields = ["Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT"] + ([f"Date: Sat, 21 Nov 2026 {date} GMT"] if date else [])
    half = len(BODY) // 2

    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        if len(server.requests) == 1:
            talk.send(head("200 OK", len(BODY), *fields) + BODY[:half])
        elif "range: bytes=" in server.requests[-1].lower():
            span = f"Content-Range: bytes {half}-{len(BODY) - 1}/{len(BODY)}"
            talk.send(head("206 Partial Content", len(BODY) - half, *fields, span) + (BODY if resumed else second)[half:])
        else:
            talk.send(head("200 OK", len(BODY), *fields) + second)

    with serve(script) as server:
        told = get(tmp_path, server, "--retry-max-wait", "50ms")
    arrived(tmp_path, told, BODY if resumed else second)
    assert ("if-range" in server.requests[-1].lower()) is resumed


# 20: logins that are on no command line


@dataclass(frozen=True)
class Login:
    name: str
    words: tuple[str, ...]
    sent: str
    user: str = ""


BASIC = "Basic " + base64.b64encode(b"me:open sesame").decode()
LOGINS = (
    Login("password-file", ("--password-file", "password"), BASIC, "me@"),
    Login("password-env", ("--password-env", "PASSWORD"), BASIC, "me@"),
    Login("token-file", ("--token-file", "token"), "Bearer t0ken"),
    Login("token-env", ("--token-env", "TOKEN"), "Bearer t0ken"),
    Login("netrc", ("--netrc",), BASIC),
    Login("netrc-file", ("--netrc-file", ".netrc"), BASIC, "me@"),
)


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: login.name)
def test_a_secret_reaches_its_server_and_no_other(tmp_path: Path, login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"password": "open sesame\n", "token": "t0ken\n", ".netrc": 'machine 127.0.0.1 login me password "open sesame"\n'}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o600)
    for name, value in {"HOME": str(tmp_path), "PASSWORD": "open sesame", "TOKEN": "t0ken"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NETRC", raising=False)

    def elsewhere(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        talk.send(head("200 OK", 4) + b"body")

    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        talk.send(head("302 Found", 0, f"Location: {other.url()}"))

    with serve(elsewhere) as other, serve(script) as server:
        url = server.url().replace("://", f"://{login.user}")
        told = ferry(tmp_path, "get", url, "-o", "file", *login.words)
    arrived(tmp_path, told, b"body")
    assert f"authorization: {login.sent}".lower() in server.requests[0].lower()
    assert "authorization" not in other.requests[0].lower()
    assert "sesame" not in str(told.report) + told.stderr


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


# 19: bytes behind an answer, in a run of requests


def test_a_run_of_requests_takes_no_bytes_behind_an_answer_for_the_next(tmp_path: Path) -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        talk.hold_together()
        talk.send(head("200 OK", 4) + b"real", head("200 OK", 7) + b"planted")
        talk.let_go()
        server.requests.append(talk.request())

    with serve(script) as server:
        told = ferry(tmp_path, "get", *_three(tmp_path, server))
    assert told.code == 0, told.report
    assert told.report["set"]["bytes"] == 3 * len(b"real")
    assert (len(server.connections), len(server.requests)) == (3, 3)


def test_a_run_of_requests_goes_on_when_the_server_closes_its_connection(tmp_path: Path) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.send(head("200 OK", 4, "Connection: close") + b"real")

    with serve(script) as server:
        told = ferry(tmp_path, "get", *_three(tmp_path, server))
    assert (told.code, told.report["set"]["failed"], len(server.connections)) == (0, 0, 3), told.report


def _three(folder: Path, server: HostileServer) -> tuple[str, ...]:
    """Three requests for one URL, one after the other."""
    (folder / "urls").write_text(f"{server.url()}\n" * 3)
    return ("--totals", "--discard", "--parallel", "1", "--input", "urls")
