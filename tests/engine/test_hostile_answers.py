"""Answers whose body has no use, and URLs that hold secrets, each against the program and a scripted server on the loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from tests.engine.harness import failed
from tests.engine.test_hostile_http import BODY, arrived, ferry, get
from tests.support.hostile_http import HostileServer, Talk, head, serve

# After a redirect or a refusal: whether the connection carries the next request, too.
SHORT, LONG = b"moved ", b"moved " * 20_000
FOUND = "302 Found"


def chunked(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"


REDIRECTS = {
    "empty": (head(FOUND, 0, "Location: /there"), 1),
    "short": (head(FOUND, len(SHORT), "Location: /there") + SHORT, 1),
    "chunked": (head(FOUND, None, "Location: /there", "Transfer-Encoding: chunked") + chunked(SHORT), 1),
    "long": (head(FOUND, len(LONG), "Location: /there") + LONG, 2),
    "long-chunked": (head(FOUND, None, "Location: /there", "Transfer-Encoding: chunked") + chunked(LONG), 2),
    "closing": (head(FOUND, 0, "Location: /there", "Connection: close"), 2),
    # The rest never comes: what the head says is enough.
    "cut": (head(FOUND, 1000, "Location: /there") + SHORT, 2),
}


@pytest.mark.parametrize("body", REDIRECTS)
def test_a_redirect_keeps_its_connection_where_its_body_is_short(tmp_path: Path, body: str) -> None:
    answer, connections = REDIRECTS[body]

    def script(talk: Talk, server: HostileServer) -> None:
        while True:
            server.requests.append(talk.request().split()[1])
            if server.requests[-1] == "/there":
                talk.send(head(length=len(BODY)), BODY)
            else:
                talk.send(answer)

    with serve(script) as server:
        told = get(tmp_path, server, "--retry", "0")
        arrived(tmp_path, told)
        assert (server.requests, len(server.connections)) == (["/file", "/there"], connections)


def test_a_refusal_keeps_its_connection_for_the_next_file(tmp_path: Path) -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        while True:
            path = talk.request().split()[1]
            server.requests.append(path)
            talk.send(*([head(length=4), b"here"] if path == "/c" else [head("404 Not Found", len(SHORT)), SHORT]))

    with serve(script) as server:
        told = ferry(tmp_path, "get", *(server.url(f"/{name}") for name in "abc"), "-O", "--parallel", "1")
        assert (server.requests, len(server.connections)) == (["/a", "/b", "/c"], 1)
    assert told.code == 11
    assert (tmp_path / "c").read_bytes() == b"here"


def test_an_upload_that_is_refused_half_way_ends_at_once(tmp_path: Path) -> None:
    """The rest of its body would have to be sent before another request may follow."""
    (tmp_path / "source").write_bytes(bytes(8 << 20))

    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        talk.send(head("413 Content Too Large", len(SHORT)) + SHORT)

    with serve(script) as server:
        told = ferry(tmp_path, "put", "source", server.url(), "--retry", "0", "--limit-rate", "1MB/s", timeout_s=20)
        failed(told, "permanent", "413")
        assert len(server.requests) == 1


# Secrets of a URL


def test_the_login_of_a_redirect_is_neither_sent_nor_shown(tmp_path: Path) -> None:
    def script(talk: Talk, server: HostileServer) -> None:
        while True:
            server.requests.append(talk.request())
            if len(server.requests) == 1:
                place = server.url("/there").replace("http://", "http://mallory:hunter2@")
                talk.send(head(FOUND, 0, f"Location: {place}"))
            else:
                talk.send(head("403 Forbidden", 0))

    with serve(script) as server:
        told = get(tmp_path, server, "--retry", "0", "-vv")
        failed(told, "permanent", "403")
        assert told.transfer["final_url"] == server.url("/there")
    everything = f"{told.report} {told.stderr} {server.requests}"
    assert "hunter2" not in everything
    assert "mallory" not in everything


@pytest.mark.parametrize("status", ["200 OK", "403 Forbidden", "503 Service Unavailable"])
def test_no_query_is_in_the_report_or_on_the_terminal(tmp_path: Path, status: str) -> None:
    secret = "X-Signature=hunter2"

    def script(talk: Talk, server: HostileServer) -> None:
        while True:
            server.requests.append(talk.request().split()[1])
            if server.requests[-1].startswith("/file"):
                talk.send(head(FOUND, 0, f"Location: /there?{secret}"))
            else:
                talk.send(head(status, 0))

    with serve(script) as server:
        told = get(tmp_path, server, "--retry", "0", "-vv", path=f"/file?{secret}")
        assert server.requests == [f"/file?{secret}", f"/there?{secret}"]
        assert told.transfer["url"] == server.url("/file?...")
        assert told.transfer["final_url"] == server.url("/there?...")
    assert "hunter2" not in f"{told.report} {told.stderr}"


@pytest.mark.parametrize(
    "words",
    [
        ("get", "http://h/dir/?X-Signature=hunter2", "-O"),
        ("get", "http://h/file?X-Signature=hunter2", "-O", "--http2"),
        ("get", "http://h/a?X-Signature=hunter2", "http://i/a?X-Signature=hunter2", "-O"),
        ("get", "gopher://h/a?X-Signature=hunter2", "-O"),
        ("put", "-", "http://h/dir/?X-Signature=hunter2", "--resume"),
        ("config", "get", "http://h/a?X-Signature=hunter2"),
        ("bench", "http://127.0.0.1:1/a?X-Signature=hunter2", "--requests", "1"),
    ],
)
def test_no_query_is_in_an_error_about_the_command_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run([find_ferry(), *words], cwd=tmp_path, capture_output=True, timeout=30, check=False, text=True)
    assert "hunter2" not in done.stdout + done.stderr
