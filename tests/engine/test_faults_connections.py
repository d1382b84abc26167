"""ferry and connections that cannot be made, may not be trusted, or end while something is on them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.engine.conftest import RestartableNginx
from tests.engine.harness import (
    BRIEFLY,
    H1,
    H2,
    ONCE,
    PORTS,
    Bench,
    Told,
    failed,
    is_one_clear_line,
    sha256,
)
from tests.support.faults import content
from tests.support.waiting import until


@dataclass(frozen=True)
class Distrust:
    name: str
    at: str
    says: str
    cacert: str = "ca.pem"

    def __str__(self) -> str:
        return self.name


DISTRUSTS = (
    Distrust("expired", "expired", "its certificate has expired"),
    Distrust("other-name", "other-name", "its certificate is for another name"),
    Distrust("unknown-ca", "unknown-ca", "--cacert", "stranger.pem"),
    # An authority of the same name and with another key: that of an earlier run of the lab, for instance.
    Distrust("namesake-ca", "unknown-ca", "--cacert"),
)


@pytest.mark.parametrize("protocol", [H1, H2], ids=["h1", "h2"])
@pytest.mark.parametrize("row", DISTRUSTS, ids=str)
def test_a_certificate_that_does_not_verify(bench: Bench, row: Distrust, protocol: tuple[str, ...]) -> None:
    bench.cacert = row.cacert
    before = bench.faulty.connections()
    again = bench.beside()
    person = again.start_plainly("get", "-o", "file", *protocol, again.url("honest", at=row.at))
    told = bench.get(bench.url("honest", at=row.at), *protocol)
    failed(told, "permanent", row.says, "TLS with server")
    assert len(told.attempts) == 1
    assert bench.asked() == []
    assert bench.files() == {}
    is_one_clear_line(person.wait(20.0).stderr.decode(), row.says)
    assert bench.faulty.connections() == before + 2
    insecure = bench.get(bench.url("honest", at=row.at), *protocol, "--insecure")
    assert insecure.code == 0, insecure.error
    assert insecure.transfer["insecure"] is True


@dataclass(frozen=True)
class Unreachable:
    name: str
    url: str
    flags: tuple[str, ...]
    kind: str
    says: str

    def __str__(self) -> str:
        return self.name


UNREACHABLE = (
    Unreachable("refused", "http://server:9/", (), "transient", "refused"),
    Unreachable("no-route", "http://10.77.2.99/", ("--timeout-connect", "2s"), "transient", "--timeout-connect"),
    Unreachable("tls-silent", f"https://server:{PORTS['plain']}/", ("--timeout-tls", "2s"), "transient", "--timeout-tls"),
    Unreachable("tls-only", f"http://server:{PORTS['good']}/", (), "transient", "connection"),
    Unreachable("alpn-h1-only", f"https://server:{PORTS['good+http/1.1']}/honest/9", H2, "permanent", "HTTP version"),
    Unreachable("alpn-neither", f"https://server:{PORTS['good+spdy/3']}/honest/9", H2, "permanent", "HTTP version"),
)


@pytest.mark.parametrize("row", UNREACHABLE, ids=str)
def test_no_connection(bench: Bench, row: Unreachable) -> None:
    person = bench.beside().start_plainly("get", "-o", "file", *row.flags, *BRIEFLY, "--retry", "2", row.url)
    told = bench.run("get", "-o", "file", *row.flags, *BRIEFLY, "--retry", "2", row.url)
    failed(told, row.kind, row.says)
    assert len(told.attempts) == (3 if row.kind == "transient" else 1)
    assert bench.files() == {}
    is_one_clear_line(person.wait(20.0).stderr.decode(), row.says)


def test_a_server_that_never_answered_is_given_up_after_one_time_out(bench: Bench) -> None:
    told = bench.run("get", "-o", "file", "--timeout-connect", "2s", "http://10.77.2.99/")
    failed(told, "transient", "--timeout-connect")
    assert len(told.attempts) == 1


def test_a_silent_h2_connection_is_not_tried_again(bench: Bench) -> None:
    """Only a new connection can find out whether the path has gone."""
    before = bench.faulty.connections()
    told = bench.get(bench.url("deaf", at="good", times=1), *H2, "--timeout-first-byte", "2s", *BRIEFLY)
    assert told.code == 0, told.error
    assert len(told.attempts) == 2
    assert bench.faulty.connections() - before == 2


@pytest.mark.parametrize("at", ["good+http/1.1", "good+spdy/3"])
def test_http1_is_spoken_where_h2_is_not_known(bench: Bench, at: str) -> None:
    told = bench.get(bench.url("honest", at=at))
    assert told.code == 0, told.error
    assert told.transfer["protocol"] == "http/1.1"


# HTTP/2 connections that end while several transfers are on them


@pytest.mark.parametrize(
    ("fault", "connections"),
    [("go-away", 2), ("go-away-at-once", 2), ("cut", 2), ("reset", 2), ("reset-stream", 1), ("refuse-stream", 1)],
)
def test_several_transfers_survive_the_end_of_a_connection(bench: Bench, fault: str, connections: int) -> None:
    before = bench.faulty.connections()
    sizes = [20_000, 20_001, 20_002, 20_003]
    urls = [bench.url(fault if size == sizes[0] else "honest", size, at="good", times=1) for size in sizes]
    told = bench.run("get", *H2, "-O", "--parallel", "4", *BRIEFLY, *urls)
    assert told.code == 0, [transfer.get("error") for transfer in told.report["transfers"]]
    assert bench.files() == {str(size): sha256(size) for size in sizes}
    for transfer in told.report["transfers"]:
        assert transfer["attempts"][-1]["error"] is None
    assert bench.faulty.connections() - before == connections
    if fault == "go-away":
        # The server finished what it had promised to finish.
        assert len(told.attempts) == 1


def test_a_request_that_the_server_never_read_is_not_a_failed_attempt(bench: Bench) -> None:
    """RFC 9113, section 6.8: streams above GOAWAY's were not processed. nginx says goodbye like this after 1000 requests."""
    sizes = [20_000, 20_001, 20_002, 20_003]
    urls = [bench.url("go-away" if size == sizes[0] else "honest", size, at="good", times=1) for size in sizes]
    told = bench.run("get", *H2, "-O", "--parallel", "4", *ONCE, *urls)
    assert told.code == 0, [transfer.get("error") for transfer in told.report["transfers"]]
    assert bench.files() == {str(size): sha256(size) for size in sizes}


@pytest.mark.parametrize("protocol", [H1, H2], ids=["h1", "h2"])
def test_nginx_ends_a_connection_after_100_requests(bench: Bench, nginx: RestartableNginx, protocol: tuple[str, ...]) -> None:
    """By GOAWAY in h2. Nothing is lost over it, and a run of requests goes on over other connections."""
    nginx.network.server.write(nginx.network.server.workdir / "files" / bench.word, content(1000))
    url = f"https://server/files/{bench.word}"
    urls = "".join(f"{url}?{index}\n" for index in range(1000))
    bench.write("urls", urls.encode())
    told = bench.run("get", "--discard", "--parallel", "20", *protocol, *ONCE, "--totals", "--input", "urls")
    assert told.report["transfers"] == []
    found = told.report["set"]
    assert (told.code, found["files"], found["failed"], found["bytes"]) == (0, 1000, 0, 1_000_000)
    assert found["connections"] >= 10


# The end of the server


@pytest.mark.parametrize(
    ("url", "protocol"),
    [("http://server", H1), ("https://server", H1), ("https://server", H2)],
    ids=["h1", "https", "h2"],
)
def test_nginx_is_killed_and_comes_back(bench: Bench, nginx: RestartableNginx, url: str, protocol: tuple[str, ...]) -> None:
    size, name = 2_000_000, bench.word
    nginx.network.server.write(nginx.network.server.workdir / "files" / name, content(size))
    flags = ("--limit-rate", "2MB/s", "--retry", "200", "--retry-max-wait", "50ms", "--checksum", f"sha256:{sha256(size)}")
    running = bench.start("get", "-o", "file", *protocol, *flags, f"{url}/files/{name}")
    until(lambda: bench.size(".file.ferry-partial") > 0, "the download has begun")
    nginx.kill()
    assert "file" not in bench.files()
    assert running.running()
    nginx.start()
    told = Told.of(running.wait(20.0))
    assert told.code == 0, told.error
    assert bench.files() == {"file": sha256(size)}
    first, last = told.attempts[0], told.attempts[-1]
    assert {attempt["error"]["class"] for attempt in told.attempts[:-1]} == {"transient"}
    assert 0 < first["bytes"] == last["offset"]
    assert first["bytes"] + last["bytes"] == size
    [resumed] = [line for line in nginx.asked() if name in line and " 206 " in line]
    # nginx writes a quotation mark as \\x22, and `-` where there is no such field.
    assert re.search(rf"range=bytes={last['offset']}- if-range=\\x22[0-9a-f]+-[0-9a-f]+\\x22$", resumed), resumed


def test_the_ports_of_the_faulty_server_are_all_tested() -> None:
    """A kind of server that no test uses is a test that was forgotten."""
    used = {"plain", "plain-2", "plain@4096", "good", "good@4096", "good+http/1.1", "good+spdy/3"} | {row.at for row in DISTRUSTS}
    assert used == set(PORTS)
