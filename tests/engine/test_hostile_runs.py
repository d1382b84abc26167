"""Signals, --max-filesize, the order of key exchanges, and a certificate store that cannot be read, each against the program."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from lab.hosts.host import Completed
from lab.servers.certificates import make_certificates
from tests.engine.harness import Told, failed
from tests.engine.test_hostile_http import BODY, arrived, ferry, get
from tests.support import tls13
from tests.support.hostile_http import HostileServer, Talk, everything_is_read, head, serve, serve_sockets

HALF = len(BODY) // 2
REST = f"Content-Range: bytes {HALF}-{len(BODY) - 1}/{len(BODY)}"


# Ctrl-C and SIGTERM


@dataclass(frozen=True)
class Moment:
    """Where a run is when the signal comes; `script` returns once it is there."""

    name: str
    script: Callable[[Talk], None]
    words: tuple[str, ...] = ()
    bytes: int = 0
    kept: bool = False
    scheme: str = "http"


def connected(*_: object) -> None:
    pass


def silent(talk: Talk) -> None:
    talk.request()


def half(talk: Talk) -> None:
    talk.request()
    talk.send(head("200 OK", len(BODY), 'ETag: "a"') + BODY[:HALF])
    everything_is_read(talk.sock)


def half_without_validator(talk: Talk) -> None:
    talk.request()
    talk.send(head("200 OK", len(BODY)) + BODY[:HALF])
    everything_is_read(talk.sock)


def held_back(talk: Talk) -> None:
    talk.request()
    talk.send(head("200 OK", len(BODY), 'ETag: "a"') + BODY)


def come_again(talk: Talk) -> None:
    talk.request()
    talk.send(head("503 Service Unavailable", 0, "Retry-After: 50"))


def first_bytes(talk: Talk) -> None:
    talk.take(5)


MOMENTS = (
    Moment("before-the-answer", silent),
    Moment("in-the-body", half, bytes=HALF, kept=True),
    Moment("in-a-body-of-no-use-to-resume", half_without_validator, bytes=HALF),
    Moment("while-the-limit-holds-back", held_back, ("--limit-rate", "1kB/s"), bytes=-1, kept=True),
    Moment("before-another-attempt", come_again),
    Moment("in-the-tls-handshake", first_bytes, scheme="https"),
    Moment("in-the-ssh-handshake", first_bytes, ("--known-hosts", "none", "--no-agent"), scheme="sftp"),
)


def interrupted(
    folder: Path, moment: Moment, number: signal.Signals, words: list[str], then: Callable[[Talk], None] | None = None
) -> Told:
    """`then` is what the server answers on its next connection, to a second run with --resume; the result is that of this run."""
    there, over = threading.Event(), threading.Event()

    def script(talk: Talk, server: HostileServer) -> None:
        if then and there.is_set():
            return then(talk)
        moment.script(talk)
        there.set()
        over.wait(30.0)
        return None

    with serve(script) as server:
        url = server.url().replace("http://", f"{moment.scheme}://me@", 1)
        command = [str(find_ferry()), *(url if word == "URL" else word for word in words), *moment.words, "--json=-"]
        with subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as running:
            try:
                assert there.wait(30.0)
                running.send_signal(number)
                running.wait(20.0)
            finally:
                running.kill()
                over.set()
            assert running.stdout
            assert running.stderr
            out, err = running.stdout.read(), running.stderr.read()
        if then:
            return ferry(folder, *command[1:-1], "--resume")
    return Told.of(Completed(tuple(command), running.returncode, out, err, 0, 0, 0.0, 0.0))


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_a_signal_ends_a_download_with_a_report(tmp_path: Path, moment: Moment) -> None:
    told = interrupted(tmp_path, moment, signal.SIGINT, ["get", "URL", "-o", "file"])
    if moment.name == "before-another-attempt":
        assert (told.code, told.error["class"]) == (130, "interrupted")
    else:
        failed(told, "interrupted")
    assert moment.bytes in (-1, told.transfer["bytes"])
    assert not (tmp_path / "file").exists()
    assert ("--resume" in told.error["message"]) is moment.kept
    assert (len(list(tmp_path.iterdir())) > 0) is moment.kept


def test_what_a_signal_left_is_continued(tmp_path: Path) -> None:
    asked: list[str] = []

    def rest(talk: Talk) -> None:
        asked.append(talk.request())
        talk.send(head("206 Partial Content", len(BODY) - HALF, 'ETag: "a"', REST) + BODY[HALF:])

    told = interrupted(tmp_path, MOMENTS[1], signal.SIGINT, ["get", "URL", "-o", "file"], rest)
    arrived(tmp_path, told)
    assert f"range: bytes={HALF}-" in asked[0].lower()


def test_sigterm_has_a_code_of_its_own(tmp_path: Path) -> None:
    told = interrupted(tmp_path, MOMENTS[1], signal.SIGTERM, ["get", "URL", "-o", "file"])
    assert (told.code, told.report["exit_code"], told.error["class"]) == (143, 143, "interrupted")


@pytest.mark.parametrize("source", ["file", "pipe"])
def test_a_signal_ends_an_upload_with_a_report(tmp_path: Path, source: str) -> None:
    """The pipe brings nothing, and its read cannot be interrupted: the run does not wait for it."""
    (tmp_path / "source").write_bytes(bytes(50_000_000))
    words = ["put", "source" if source == "file" else "/dev/fd/0", "URL"]
    moment = Moment("in-an-upload", silent if source == "file" else connected, ("--stall", "50s"))
    told = interrupted(tmp_path, moment, signal.SIGINT, words)
    failed(told, "interrupted")


def test_a_signal_ends_several_downloads_and_those_that_wait(tmp_path: Path) -> None:
    told = interrupted(tmp_path, MOMENTS[0], signal.SIGINT, ["get", "URL", "URL", "URL", "--discard", "--parallel", "1"])
    assert [transfer["error"]["class"] for transfer in told.report["transfers"]] == ["interrupted"] * 3


def test_a_signal_ends_a_long_list_and_what_has_not_begun(tmp_path: Path) -> None:
    """More URLs than wait for a connection."""
    count = 10_000
    there, over = threading.Event(), threading.Event()

    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        there.set()
        over.wait(30.0)

    with serve(script) as server:
        (tmp_path / "urls").write_text("".join(f"{server.url(f'/{index}')}\n" for index in range(count)))
        # The report is more than a pipe takes.
        words = ["get", "--input", "urls", "--discard", "--parallel", "1", "--json=report"]
        with subprocess.Popen([str(find_ferry()), *words], cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
            try:
                assert there.wait(30.0)
                running.send_signal(signal.SIGINT)
                code = running.wait(20.0)
            finally:
                running.kill()
                over.set()
    report = json.loads((tmp_path / "report").read_text())
    assert (code, report["set"]["files"], report["set"]["failed"]) == (130, count, count)
    assert {transfer["error"]["class"] for transfer in report["transfers"]} == {"interrupted"}
    assert [int(transfer["url"].rpartition("/")[2]) for transfer in report["transfers"]] == [*range(count)]


def test_an_ignored_signal_is_not_heard(tmp_path: Path) -> None:
    """As with nohup, or in a background job of a script."""
    there, signalled = threading.Event(), threading.Event()

    def script(talk: Talk, _: HostileServer) -> None:
        half(talk)
        there.set()
        assert signalled.wait(30.0)
        talk.send(BODY[HALF:])

    with serve(script) as server:
        ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
        with subprocess.Popen(
            [*ignoring, str(find_ferry()), "get", server.url(), "-o", "file", "--quiet"], cwd=tmp_path
        ) as running:
            try:
                assert there.wait(30.0)
                running.send_signal(signal.SIGINT)
                # Five times as long as ferry takes to hear one.
                time.sleep(0.5)
                signalled.set()
                assert running.wait(20.0) == 0
            finally:
                running.kill()
    assert (tmp_path / "file").read_bytes() == BODY


# --max-filesize


@dataclass(frozen=True)
class Size:
    name: str
    most: int
    answer: bytes
    refused: bool
    # Body bytes that arrive.
    accepted: int = 0


SIZES = (
    Size("announced", len(BODY) - 1, head("200 OK", len(BODY)) + BODY, True),
    Size("announced-and-right", len(BODY), head("200 OK", len(BODY)) + BODY, False, len(BODY)),
    Size("until-close", len(BODY) - 1, head("200 OK", None, "Connection: close") + BODY, True),
    Size("until-close-and-right", len(BODY), head("200 OK", None, "Connection: close") + BODY, False, len(BODY)),
)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
@pytest.mark.parametrize("limit", [(), ("--limit-rate", "100MB/s")], ids=["unlimited", "limited"])
def test_a_file_that_is_too_large_is_refused(tmp_path: Path, size: Size, limit: tuple[str, ...]) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.send(size.answer)

    with serve(script) as server:
        told = get(tmp_path, server, "--max-filesize", str(size.most), *limit)
    if size.refused:
        failed(told, "permanent", "--max-filesize")
        assert len(told.attempts) == 1
        assert list(tmp_path.iterdir()) == []
    else:
        arrived(tmp_path, told)


def test_an_endless_body_ends_at_the_largest_size(tmp_path: Path) -> None:
    sent = 0

    def script(talk: Talk, _: HostileServer) -> None:
        nonlocal sent
        talk.request()
        talk.send(head("200 OK", None, "Transfer-Encoding: chunked"))
        while sent < 500_000_000:
            talk.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            sent += 0x10000

    with serve(script) as server:
        failed(get(tmp_path, server, "--max-filesize", "1MB"), "permanent", "--max-filesize")
    assert sent < 100_000_000
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_file_counts_as_one(tmp_path: Path) -> None:
    """What is there counts too: the second half alone would be small enough."""

    def script(talk: Talk, server: HostileServer) -> None:
        server.requests.append(talk.request())
        if len(server.requests) == 1:
            talk.send(head("200 OK", None, 'ETag: "a"', "Transfer-Encoding: chunked"))
            talk.send(f"{HALF:x}\r\n".encode() + BODY[:HALF] + b"\r\n")
        else:
            talk.send(head("206 Partial Content", None, 'ETag: "a"', REST.replace(str(len(BODY)), "*"), "Connection: close"))
            talk.send(BODY[HALF:])

    with serve(script) as server:
        told = get(tmp_path, server, "--max-filesize", str(len(BODY) - 1), "--retry-max-wait", "50ms")
    failed(told, "permanent", "--max-filesize")
    assert len(told.attempts) == 2


# --remote-time


@pytest.mark.parametrize(
    ("field", "words", "kept"),
    [
        ("Last-Modified: Sat, 21 Nov 2020 12:00:00 GMT", ("--remote-time",), True),
        ("Last-Modified: Sat, 21 Nov 2020 12:00:00 GMT", (), False),
        ("Last-Modified: yesterday", ("--remote-time",), False),
        ("X: y", ("--remote-time",), False),
    ],
)
def test_a_download_gets_the_servers_time_where_that_is_asked_for(
    tmp_path: Path, field: str, words: tuple[str, ...], kept: bool
) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.send(head("200 OK", len(BODY), field) + BODY)

    with serve(script) as server:
        arrived(tmp_path, get(tmp_path, server, *words))
    assert ((tmp_path / "file").stat().st_mtime == 1_605_960_000) is kept


# Key exchange


def test_the_key_exchange_that_a_quantum_computer_cannot_read_comes_first_in_tls(tmp_path: Path) -> None:
    certificates = make_certificates(["127.0.0.1"])
    (tmp_path / "ca.pem").write_bytes(certificates.ca_pem)
    offered: list[dict[int, bytes]] = []

    def script(sock: socket.socket) -> None:
        talk = tls13.accept(sock, certificates)
        offered.append(talk.offered)
        talk.request()
        sock.sendall(talk.records(tls13.APPLICATION_DATA, head("200 OK", 4) + b"body"))
        talk.goodbye()

    with serve_sockets(script) as server:
        told = ferry(tmp_path, "get", f"https://127.0.0.1:{server.port}/", "-o", "file", "--cacert", "ca.pem", "--retry", "0")
    arrived(tmp_path, told, b"body")
    groups = offered[0][tls13.SUPPORTED_GROUPS][2:]
    assert int.from_bytes(groups[:2], "big") == tls13.X25519MLKEM768
    # Servers that do not know it find the share of another in the same flight.
    assert [group for group, _ in tls13.shares(offered[0][tls13.KEY_SHARE])] == [tls13.X25519MLKEM768, tls13.X25519]


def test_the_key_exchange_that_a_quantum_computer_cannot_read_comes_first_in_ssh(tmp_path: Path) -> None:
    first: list[str] = []

    def script(sock: socket.socket) -> None:
        sock.sendall(b"SSH-2.0-OpenSSH_10.0\r\n")
        data = b""
        # After the banner: the packet's two lengths, the number of KEXINIT, a cookie, the first list (RFC 4253, section 7.1).
        while len(data.partition(b"\n")[2]) < 300:
            data += sock.recv(4096)
        packet = data.partition(b"\n")[2]
        names = packet[26 : 26 + int.from_bytes(packet[22:26], "big")]
        first.extend(names.decode().split(","))

    with serve_sockets(script) as server:
        words = ("--known-hosts", "none", "--retry", "0", "--no-agent")
        ferry(tmp_path, "get", f"sftp://me@127.0.0.1:{server.port}/file", "-o", "file", *words)
    assert first[:2] == ["mlkem768x25519-sha256", "curve25519-sha256"]


# The system's certificates


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the store that is not there."""
    path = tmp_path / "missing.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return path


def test_a_certificate_store_that_cannot_be_read_is_named(tmp_path: Path, missing: Path) -> None:
    told = ferry(tmp_path, "get", "https://127.0.0.1:9/", "-o", "file")
    failed(told, "local", str(missing), "--cacert")


def test_a_part_of_the_store_that_cannot_be_read_is_named_where_it_may_matter(
    tmp_path: Path, missing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "00000000.0").write_bytes(make_certificates([]).server_pem)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    with serve(connected, tls=True) as server:
        told = ferry(tmp_path, "get", server.url(), "-o", "file")
    failed(told, "permanent", "signed by nobody", str(missing))
