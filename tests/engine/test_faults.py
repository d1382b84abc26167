"""ferry and a server that misbehaves: right class, exit code and line; right requests; nothing half-done under a file's name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pytest

from lab.backend.agent.host import AgentProcess
from tests.engine.conftest import RestartableNginx
from tests.engine.harness import (
    BRIEFLY,
    EXIT_CODES,
    ONCE,
    PORTS,
    Bench,
    Options,
    Told,
    failed,
    is_one_clear_line,
    sha256,
    until,
)
from tests.support.faulty_server import content

SIZE = 30_000
H1, H2, PLAIN = ("--http1.1",), ("--http2",), ()


@dataclass(frozen=True)
class Failure:
    """A download that fails, whatever is tried. Three attempts where one may help."""

    name: str
    fault: str
    kind: str
    says: str
    at: str = "plain"
    flags: tuple[str, ...] = PLAIN
    status: int | None = None
    options: Options = ()
    # Part of the file is there for --resume; the first status is 200 then, the others are 206.
    keeps: bool = False
    # Where that is not what the class says.
    tries: int = 0

    def __str__(self) -> str:
        return self.name


FAILURES = (
    # The body ends too early
    Failure("h1-cut", "cut", "transient", "15000 bytes are kept for --resume", keeps=True),
    Failure("h1-chunked-cut", "chunked-cut", "transient", "15000 bytes are kept for --resume", keeps=True),
    Failure("h1-reset", "reset", "transient", "15000 bytes are kept for --resume", keeps=True),
    Failure("h1-stall", "stall", "transient", "--stall", flags=("--stall", "200ms"), keeps=True),
    Failure("https-cut", "cut", "transient", "15000 bytes are kept for --resume", "good", H1, keeps=True),
    Failure("https-reset", "reset", "transient", "15000 bytes are kept for --resume", "good", H1, keeps=True),
    Failure("h2-cut", "cut", "transient", "15000 bytes are kept for --resume", "good", H2, keeps=True),
    Failure("h2-reset", "reset", "transient", "15000 bytes are kept for --resume", "good", H2, keeps=True),
    Failure("h2-stall", "stall", "transient", "--stall", "good", (*H2, "--stall", "200ms"), keeps=True),
    Failure("h2-stream-reset", "reset-stream", "transient", "INTERNAL_ERROR", "good", H2, keeps=True),
    Failure("h2-stream-refused", "refuse-stream", "transient", "REFUSED_STREAM", "good", H2),
    Failure("h2-go-away-at-once", "go-away-at-once", "transient", "", "good", H2),
    # The body is not what was announced
    Failure("h2-too-little", "short", "integrity", "30000 bytes were announced and 15000 came", "good", H2, status=200),
    Failure("https-no-goodbye", "until-close-cut", "transient", "15000 bytes are kept for --resume", "good", H1, keeps=True),
    Failure("206-unasked", "unasked-range", "integrity", "Content-Range", status=206),
    Failure("h2-too-much", "long", "integrity", "30000", "good", H2, status=200),
    # No head, or none that can be read
    Failure("h1-no-answer", "closed", "transient", "closed the connection"),
    Failure("h1-silent", "silent", "transient", "--timeout-first-byte", flags=("--timeout-first-byte", "200ms")),
    Failure("h2-silent", "silent", "transient", "--timeout-first-byte", "good", (*H2, "--timeout-first-byte", "200ms")),
    Failure("h1-garbage", "garbage", "integrity", "/garbage/"),
    Failure("h2-garbage", "garbage", "integrity", "HTTP/2", "good", H2),
    Failure("h1-huge-head", "huge-head", "integrity", "/huge-head/"),
    Failure("h2-huge-head", "huge-head", "integrity", "", "good", H2),
    # The server's own word
    Failure("404", "says", "permanent", "404 Not Found", status=404, options=(("status", "404"),)),
    Failure("h2-404", "says", "permanent", "404 Not Found", "good", H2, status=404, options=(("status", "404"),)),
    Failure("500", "says", "transient", "500 Internal Server Error", status=500, options=(("status", "500"),)),
    Failure("304", "says", "permanent", "304", status=304, options=(("status", "304"),)),
    Failure("302-to-nowhere", "says", "permanent", "302 Found", status=302, options=(("status", "302"),)),
    # Time
    Failure("total", "stall", "transient", "--timeout-total", flags=("--timeout-total", "300ms"), tries=1, keeps=True),
    # Where it is
    Failure("redirect-loop", "loop", "permanent", "--max-redirects", status=302, flags=("--max-redirects", "2")),
    Failure(
        "redirect-to-http", "says", "permanent", "from https to http://", "good", H1, 302,
        (("status", "302"), ("to", "http://server:8080/honest/10")),
    ),
    Failure(
        "redirect-to-a-file", "says", "permanent", "not HTTP", status=302,
        options=(("status", "302"), ("to", "file:///etc/passwd")),
    ),
)  # fmt: skip


@pytest.mark.parametrize("row", FAILURES, ids=str)
def test_failure(bench: Bench, row: Failure) -> None:
    again = bench.beside()
    flags = ("-o", "file", *row.flags, *BRIEFLY, "--retry", "2")
    person = again.start_plainly("get", *flags, again.url(row.fault, SIZE, at=row.at, more=row.options))
    told = bench.run("get", *flags, bench.url(row.fault, SIZE, at=row.at, more=row.options))
    failed(told, row.kind, row.says)
    # A redirect is an attempt of its own; the failure comes after the last one that is followed.
    tries = row.tries or (3 if row.kind == "transient" or row.fault == "loop" else 1)
    statuses = [200, 206, 206] if row.keeps else [row.status] * 3
    assert [attempt["status"] for attempt in told.attempts] == statuses[:tries]
    assert len(bench.asked()) == tries
    assert told.transfer["protocol"] == ("h2" if row.flags[:1] == H2 else "http/1.1")
    kept = {".file.ferry-partial": True, ".file.ferry-partial.json": True} if row.keeps else {}
    assert dict.fromkeys(bench.files(), True) == kept
    done = person.wait(20.0)
    assert done.returncode == told.code
    is_one_clear_line(done.stderr.decode(), row.says, f"/{row.fault}/")
    assert done.stdout == b""


@dataclass(frozen=True)
class Recovery:
    """The fault happens once. `resumes` is whether the second request asks for the rest only."""

    name: str
    fault: str
    at: str = "plain"
    flags: tuple[str, ...] = PLAIN
    options: Options = ()
    resumes: bool = False

    def __str__(self) -> str:
        return self.name


RECOVERIES = (
    Recovery("h1-cut", "cut", resumes=True),
    Recovery("h1-chunked-cut", "chunked-cut", resumes=True),
    Recovery("h1-reset", "reset", resumes=True),
    Recovery("h1-stall", "stall", flags=("--stall", "1s"), resumes=True),
    Recovery("h1-500", "says", options=(("status", "500"),)),
    Recovery("https-cut", "cut", "good", H1, resumes=True),
    Recovery("h2-cut", "cut", "good", H2, resumes=True),
    Recovery("h2-reset", "reset", "good", H2, resumes=True),
    Recovery("h2-stall", "stall", "good", (*H2, "--stall", "1s"), resumes=True),
    Recovery("h2-stream-reset", "reset-stream", "good", H2, resumes=True),
    Recovery("h2-stream-refused", "refuse-stream", "good", H2),
    Recovery("h2-go-away-at-once", "go-away-at-once", "good", H2),
)


@pytest.mark.parametrize("row", RECOVERIES, ids=str)
def test_recovery(bench: Bench, row: Recovery) -> None:
    url = bench.url(row.fault, SIZE, at=row.at, times=1, more=row.options)
    told = bench.get(url, *row.flags, *BRIEFLY, "--checksum", f"sha256:{sha256(SIZE)}")
    assert told.code == 0, told.error
    assert bench.files() == {"file": sha256(SIZE)}
    assert told.transfer["checksum"] == f"sha256:{sha256(SIZE)}"
    first, second = told.attempts
    assert first["error"]["class"] == "transient"
    assert second["error"] is None
    if row.resumes:
        assert 0 < first["bytes"] == second["offset"]
        assert bench.ranges() == [(None, None), (f"bytes={second['offset']}-", '"v1"')]
        assert first["bytes"] + second["bytes"] == SIZE
    else:
        assert bench.ranges() == [(None, None)] * 2


@dataclass(frozen=True)
class Resume:
    """Half of a file is there, and `then` is what the server does when it is asked for the rest.

    `size` and `version` are those of the file that must come of it.
    """

    name: str
    then: str
    kind: str = ""
    says: str = ""
    size: int = SIZE
    version: int = 1

    def __str__(self) -> str:
        return self.name


RESUMES = (
    Resume("unchanged", "honest"),
    Resume("changed", "changed", version=2),
    Resume("range-ignored", "ignores-range"),
    Resume("shorter-now", "unsatisfied", size=100, version=2),
    Resume("another-range", "wrong-range", "integrity", "does not begin at byte 15000"),
)


@pytest.mark.parametrize("way", ["same-process", "second-process"])
@pytest.mark.parametrize("row", RESUMES, ids=str)
def test_resume(bench: Bench, row: Resume, way: str) -> None:
    url = bench.url("cut", SIZE, times=1, then=row.then)
    flags = ("--checksum", "sha256", *BRIEFLY)
    if way == "second-process":
        failed(bench.get(url, *flags, *ONCE), "transient", "--resume")
        assert "file" not in bench.files()
    told = bench.get(url, *flags, *(("--resume",) if way == "second-process" else ()))
    assert bench.ranges()[:2] == [(None, None), ("bytes=15000-", '"v1"')]
    if row.kind:
        failed(told, row.kind, row.says)
        assert "file" not in bench.files()
    else:
        assert told.code == 0, told.error
        assert bench.files() == {"file": sha256(row.size, row.version)}
        assert told.transfer["checksum"] == f"sha256:{sha256(row.size, row.version)}"


@pytest.mark.parametrize(
    ("validator", "if_range"),
    [("date", "Sat, 21 Nov 2026 12:00:01 GMT"), ("weak", None), ("none", None)],
)
def test_only_what_can_be_recognised_is_resumed(bench: Bench, validator: str, if_range: str | None) -> None:
    told = bench.get(bench.url("cut", times=1, validator=validator), *BRIEFLY)
    assert told.code == 0, told.error
    assert bench.ranges() == [(None, None), ("bytes=15000-" if if_range else None, if_range)]
    assert bench.files() == {"file": sha256(SIZE)}


@pytest.mark.parametrize(
    ("fault", "at"),
    [("long", "plain"), ("chunked", "plain"), ("until-close", "plain"), ("until-goodbye", "good")],
)
def test_what_is_unusual_and_right(bench: Bench, fault: str, at: str) -> None:
    """More than was announced is not the file's; a body may end in three ways."""
    told = bench.get(bench.url(fault, at=at), *H1)
    assert told.code == 0, told.error
    assert len(told.attempts) == 1
    assert bench.files() == {"file": sha256(SIZE)}


def test_a_range_is_fetched_anew_after_a_fault(bench: Bench) -> None:
    told = bench.get(bench.url("cut", times=1), "--range", "10000-", *BRIEFLY)
    assert told.code == 0, told.error
    assert [asked for asked, _ in bench.ranges()] == ["bytes=10000-"] * 2
    assert bench.shell("cat file | sha256sum").split()[0] == hashlib.sha256(content(SIZE)[10_000:]).hexdigest()


def test_of_a_range_nothing_is_kept(bench: Bench) -> None:
    """--resume and --range exclude each other, so there is no use in a part of a part."""
    told = bench.get(bench.url("cut"), "--range", "10000-", *ONCE)
    failed(told, "transient")
    assert "--resume" not in told.error["message"]
    assert bench.files() == {}


def test_a_redirected_download_is_resumed(bench: Bench) -> None:
    url = bench.url("says", status=302, to=bench.url("cut", times=1))
    failed(bench.get(url, *ONCE), "transient", "15000 bytes are kept for --resume")
    told = bench.get(url, "--resume")
    assert told.code == 0, told.error
    assert bench.files() == {"file": sha256(SIZE)}
    assert bench.ranges()[-1] == ("bytes=15000-", '"v1"')


def test_without_resume_what_is_there_is_not_used(bench: Bench) -> None:
    url = bench.url("cut", times=1)
    bench.get(url, *ONCE)
    assert bench.get(url).code == 0
    assert bench.ranges() == [(None, None)] * 2
    assert bench.files() == {"file": sha256(SIZE)}


def test_a_range_beyond_the_end_is_permanent(bench: Bench) -> None:
    failed(bench.get(bench.url("honest"), "--range", "40000-"), "permanent", "416")
    assert bench.files() == {}


def test_a_wrong_checksum_leaves_nothing(bench: Bench) -> None:
    failed(bench.get(bench.url("honest"), "--checksum", f"sha256:{sha256(1)}"), "integrity", "checksum")
    assert bench.files() == {}
    assert len(bench.asked()) == 1


# Certificates and addresses


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
    Unreachable("no-route", "http://10.77.2.99/", ("--timeout-connect", "200ms"), "transient", "--timeout-connect"),
    Unreachable("tls-silent", f"https://server:{PORTS['plain']}/", ("--timeout-tls", "200ms"), "transient", "--timeout-tls"),
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


@pytest.mark.parametrize("at", ["good+http/1.1", "good+spdy/3"])
def test_http1_is_spoken_where_h2_is_not_known(bench: Bench, at: str) -> None:
    told = bench.get(bench.url("honest", at=at))
    assert told.code == 0, told.error
    assert told.transfer["protocol"] == "http/1.1"


# Waiting as the server wishes


def test_retry_after_is_honoured(bench: Bench) -> None:
    told = bench.get(bench.url("says", status=503, retry_after=1, times=1))
    assert told.code == 0, told.error
    assert [attempt["status"] for attempt in told.attempts] == [503, 200]
    assert told.attempts[1]["waited_s"] >= 1.0
    first, second = bench.asked()
    assert second["at_s"] - first["at_s"] >= 1.0
    assert bench.files() == {"file": sha256(SIZE)}


def test_retry_after_beyond_the_users_patience_ends_it(bench: Bench) -> None:
    told = bench.get(bench.url("says", status=503, retry_after=3600), "--retry-max-wait", "2s")
    failed(told, "transient", "503")
    assert len(told.attempts) == len(bench.asked()) == 1


# Redirects and what must not be taken along


@pytest.mark.parametrize("login", ["", "joe:secret@"], ids=["header", "url"])
@pytest.mark.parametrize("at", ["plain", "plain-2", "good"])
def test_credentials_stay_with_their_origin(bench: Bench, at: str, login: str) -> None:
    # A redirect's target must not say `run=` of its own: it is found by the word it was given.
    url = bench.url("says", status=302, to=bench.url("honest", at=at), login=login)
    secret = () if login else ("--header", "Authorization: Bearer secret", "--header", "Cookie: secret=1")
    told = bench.get(url, *secret)
    assert told.code == 0, told.error
    first, second = (ask["headers"] for ask in bench.asked())
    assert "authorization" in first
    stays = at == "plain"
    assert ("authorization" in second) is stays
    assert ("cookie" in second) is (stays and not login)
    assert "secret" not in told.transfer["url"]
    assert told.transfer["final_url"] == bench.url("honest", at=at)
    assert bench.files() == {"file": sha256(SIZE)}


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "other"], ids=["up", "absolute", "other"])
def test_a_server_names_no_path(bench: Bench, name: str) -> None:
    assert bench.get(bench.url("named", name=name)).code == 0
    assert bench.files() == {"file": sha256(SIZE)}
    bench.shell("rm file")
    told = bench.run("get", "-O", bench.url("says", status=302, to=bench.url("named", name=name)))
    assert told.code == 0, told.error
    assert bench.files() == {"30000": sha256(SIZE)}
    assert bench.shell("ls -d escaped ../escaped ../../escaped ../../../escaped /tmp/escaped 2>/dev/null || :") == ""


def test_an_encoded_path_stays_one_name(bench: Bench) -> None:
    told = bench.run("get", "-O", f"http://server:{PORTS['plain']}/honest/9?/../..%2f..%2fescaped")
    assert told.code == 0, told.error
    failed(bench.run("get", "-O", f"http://server:{PORTS['plain']}/..%2f..%2fescaped"), "permanent", "404")
    assert bench.files() == {"9": sha256(9)}


# Uploads


@dataclass(frozen=True)
class Upload:
    name: str
    fault: str
    flags: tuple[str, ...]
    requests: int
    code: int

    def __str__(self) -> str:
        return self.name


UPLOADS = (
    Upload("put-lost", "lost", (), 2, 0),
    Upload("put-503", "says", (), 2, 0),
    Upload("post-lost", "lost", ("--method", "POST"), 1, 10),
    Upload("post-503", "says", ("--method", "POST"), 1, 10),
    Upload("post-lost-retry-unsafe", "lost", ("--method", "POST", "--retry-unsafe"), 2, 0),
)


@pytest.mark.parametrize(("at", "protocol"), [("plain", PLAIN), ("good", H1), ("good", H2)], ids=["h1", "https", "h2"])
@pytest.mark.parametrize("row", UPLOADS, ids=str)
def test_an_upload_that_fails_once(bench: Bench, row: Upload, at: str, protocol: tuple[str, ...]) -> None:
    told = bench.put(SIZE, bench.url(row.fault, at=at, times=1, status=503), *row.flags, *protocol, *BRIEFLY)
    assert told.code == row.code, told.error
    assert len(told.attempts) == len(bench.asked()) == row.requests
    assert told.attempts[0]["error"]["class"] == "transient"
    if row.code == 0:
        upload = bench.asked("upload")[-1]
        assert (upload["bytes"], upload["sha256"]) == (SIZE, sha256(SIZE))
    else:
        failed(told, "transient")


@pytest.mark.parametrize(
    ("at", "fault", "protocol"),
    [
        ("plain", "too-large", PLAIN),
        ("plain", "too-large-closed", PLAIN),
        ("good", "too-large", H1),
        ("good", "too-large-closed", H1),
        ("good", "too-large", H2),
    ],
    ids=["h1", "h1-closed", "https", "https-closed", "h2"],
)
@pytest.mark.parametrize("limit", [(), ("--limit-rate", "1MB/s")], ids=["at-once", "limited"])
def test_an_upload_is_refused_before_its_end(
    bench: Bench, at: str, fault: str, protocol: tuple[str, ...], limit: tuple[str, ...]
) -> None:
    """Nothing more is sent than was on its way, and the answer is not lost over it."""
    size = 5_000_000
    again = bench.beside()
    again.write("source", content(size))
    person = again.start_plainly("put", *protocol, *limit, *ONCE, "source", again.url(fault, at=at))
    told = bench.put(size, bench.url(fault, at=at), *protocol, *limit)
    failed(told, "permanent", "413")
    assert told.transfer["status"] == 413
    assert [attempt["error"]["message"] for attempt in told.attempts] == [told.error["message"]]
    assert len(bench.asked()) == 1
    assert told.transfer["bytes"] < size
    is_one_clear_line(person.wait(20.0).stderr.decode(), "413")


@pytest.mark.parametrize(("at", "protocol"), [("plain", PLAIN), ("good", H1), ("good", H2)], ids=["h1", "https", "h2"])
def test_an_upload_that_nobody_takes_stalls(bench: Bench, at: str, protocol: tuple[str, ...]) -> None:
    told = bench.put(20_000_000, bench.url("deaf", at=at), *protocol, "--stall", "400ms", *ONCE)
    failed(told, "transient", "--stall")
    assert told.transfer["bytes"] < 20_000_000


def test_standard_input_is_sent_once(bench: Bench) -> None:
    command = bench.command("put", "--json", "-", *BRIEFLY, "-", bench.url("lost"))
    told = Told.of(bench.host.run(command, stdin=content(SIZE), cwd=bench.folder, check=False))
    failed(told, "transient")
    assert len(bench.asked()) == 1


def test_a_redirected_post_is_not_sent_as_a_get(bench: Bench) -> None:
    told = bench.put(SIZE, bench.url("says", status=303, to=bench.url("honest")), "--method", "POST")
    failed(told, "permanent", "303")
    assert len(bench.asked()) == 1


def test_the_line_for_people_says_the_address_once(bench: Bench) -> None:
    done = bench.start_plainly("get", "-o", "file", bench.url("says", status=404)).wait(20.0)
    is_one_clear_line(done.stderr.decode(), "404")
    assert done.stderr.decode().count("http://") == 1, done.stderr


def test_one_of_several_fails(bench: Bench) -> None:
    urls = [bench.url("honest", 10), bench.url("says", 11, status=404), bench.url("honest", 12)]
    told = bench.run("get", "-O", *urls)
    assert told.code == EXIT_CODES["permanent"]
    assert [bool(transfer.get("error")) for transfer in told.report["transfers"]] == [False, True, False]
    assert bench.files() == {"10": sha256(10), "12": sha256(12)}


# Standard output takes nothing back


@pytest.mark.parametrize(("then", "kind"), [("honest", ""), ("changed", "permanent"), ("ignores-range", "permanent")])
def test_standard_output(bench: Bench, then: str, kind: str) -> None:
    done = bench.start_plainly("get", "-o", "-", *BRIEFLY, bench.url("cut", times=1, then=then)).wait(20.0)
    assert done.returncode == (EXIT_CODES[kind] if kind else 0), done.stderr
    assert done.stdout == (content(SIZE)[: SIZE // 2] if kind else content(SIZE))
    is_one_clear_line(done.stderr.decode(), "cannot be taken back" if kind else "2 attempts")


def test_standard_output_that_nobody_reads(bench: Bench) -> None:
    command = " ".join(bench.command("get", "-o", "-", f"'{bench.url('honest', 1_000_000)}'"))
    done = bench.host.run(["/bin/sh", "-c", f"({command}; echo code $? >&2) | head -c 10 >/dev/null"], cwd=bench.folder)
    line, code = done.stderr.decode().splitlines()
    is_one_clear_line(line, "standard output")
    assert code == f"code {EXIT_CODES['local']}"


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


def test_what_a_server_never_looked_at_is_no_failed_attempt(bench: Bench) -> None:
    """RFC 9113, section 6.8: streams above GOAWAY's were not processed. nginx says goodbye like this after 1000 requests."""
    sizes = [20_000, 20_001, 20_002, 20_003]
    urls = [bench.url("go-away" if size == sizes[0] else "honest", size, at="good", times=1) for size in sizes]
    told = bench.run("get", *H2, "-O", "--parallel", "4", *ONCE, *urls)
    assert told.code == 0, [transfer.get("error") for transfer in told.report["transfers"]]
    assert bench.files() == {str(size): sha256(size) for size in sizes}


@pytest.mark.parametrize("protocol", [H1, H2], ids=["h1", "h2"])
def test_nginx_ends_a_connection_after_100_requests(bench: Bench, nginx: RestartableNginx, protocol: tuple[str, ...]) -> None:
    """By GOAWAY in h2. Nothing is lost over it, and a run of requests goes on over another connection."""
    nginx.network.server.write(nginx.network.server.workdir / "files" / bench.word, content(1000))
    url = f"https://server/files/{bench.word}"
    told = bench.run("bench", "-n", "1000", "-p", "20", "-c", "2", *protocol, url)
    assert told.report["bench"]["succeeded"] == 1000, told.report["bench"]
    assert told.code == 0
    told = bench.run("get", "--discard", "--parallel", "10", *protocol, *ONCE, *[f"{url}?{index}" for index in range(250)])
    problems = [transfer["error"]["message"] for transfer in told.report["transfers"] if transfer.get("error")]
    assert problems == []
    assert told.code == 0


# Files that are there already, and places that take no more


def test_a_file_that_exists_is_refused_before_anybody_is_asked(bench: Bench) -> None:
    bench.write("file", b"old")
    before, again = bench.faulty.connections(), bench.beside()
    again.write("file", b"old")
    failed(bench.get(bench.url("honest")), "local", "exists", "--overwrite")
    done = again.start_plainly("get", "-o", "file", again.url("honest")).wait(20.0)
    assert done.returncode == EXIT_CODES["local"]
    is_one_clear_line(done.stderr.decode(), "exists", "--overwrite")
    assert bench.faulty.connections() == before
    assert bench.shell("cat file") == "old"
    assert list(bench.files()) == ["file"]


def test_overwriting_replaces_at_once_or_not_at_all(bench: Bench) -> None:
    bench.write("file", b"old")
    failed(bench.get(bench.url("cut"), "--overwrite", *ONCE), "transient")
    assert bench.shell("cat file; rm .file*") == "old"
    running = bench.start("get", "-o", "file", "--overwrite", "--limit-rate", "100kB/s", bench.url("honest", 50_000))
    until(lambda: ".file.ferry-partial" in bench.files(), "the download has begun")
    assert bench.shell("cat file") == "old"
    assert running.wait(20.0).returncode == 0
    assert bench.files() == {"file": sha256(50_000)}


def test_a_file_that_appears_meanwhile_is_not_replaced(bench: Bench) -> None:
    running = bench.start("get", "-o", "file", "--limit-rate", "1MB/s", bench.url("honest", 500_000))
    until(lambda: ".file.ferry-partial" in bench.files(), "the download has begun")
    bench.write("file", b"somebody else's")
    failed(Told.of(running.wait(20.0)), "local", "file")
    assert bench.shell("cat file") == "somebody else's"


def test_two_write_the_same_file(bench: Bench) -> None:
    url = bench.url("honest", 500_000)
    running = bench.start("get", "-o", "file", "--limit-rate", "1MB/s", url)
    until(lambda: ".file.ferry-partial" in bench.files(), "the download has begun")
    failed(bench.get(url), "local", "another ferry")
    assert running.wait(20.0).returncode == 0
    assert len(bench.asked()) == 1
    assert bench.files() == {"file": sha256(500_000)}


@pytest.mark.parametrize(
    ("target", "says"),
    [("none/file", "none does not exist"), (".", "is a directory"), ("dangling", "symbolic link")],
    ids=["no-directory", "directory", "dangling-link"],
)
def test_a_target_that_cannot_be(bench: Bench, target: str, says: str) -> None:
    bench.shell("ln -s nowhere dangling")
    before = bench.faulty.connections()
    failed(bench.run("get", "-o", target, bench.url("honest")), "local", says)
    assert bench.faulty.connections() == before
    assert bench.files() == {}


@pytest.mark.parametrize("flags", [PLAIN, ("--limit-rate", "3MB/s")], ids=["at-once", "limited"])
def test_the_disk_is_full(bench: Bench, flags: tuple[str, ...]) -> None:
    bench.shell("mkdir small; mount -t tmpfs -o size=256k,mode=777 none small", root=True)
    try:
        again = bench.beside()
        told = bench.run("get", "-o", "small/file", *flags, bench.url("honest", 1_000_000))
        failed(told, "local", "no space left")
        assert len(told.attempts) == 1
        assert "small/file" not in bench.files()
        bench.shell("rm -f small/.file*")
        person = again.start_plainly("get", "-o", f"{bench.folder}/small/file", *flags, again.url("honest", 1_000_000))
        is_one_clear_line(person.wait(20.0).stderr.decode(), "no space left")
        assert "small/file" not in bench.files()
    finally:
        bench.shell("umount small", root=True)


def test_a_file_may_not_grow_further(bench: Bench) -> None:
    told = bench.run("get", "-o", "file", bench.url("honest", 1_000_000), before=("prlimit", "--fsize=300000"))
    failed(told, "local")
    assert len(told.attempts) == 1
    assert "file" not in bench.files()


def test_a_device_that_is_full(bench: Bench) -> None:
    failed(bench.run("get", "-o", "/dev/full", bench.url("honest")), "local", "no space left")


# Wrong command lines: nobody is asked, and the line says what is wrong


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "file", "ftp://server/file"), "ftp"),
        (("-o", "file", "--http2", "http://server:8080/honest/1"), "--http2 needs https"),
        (("-O", "http://server:8080/"), "--output"),
        (("-O", "http://server:8080/a/.."), "--output"),
        (("-o", "file", "--cacert", "nowhere.pem", "https://server:8443/honest/1"), "nowhere.pem"),
    ],
    ids=["scheme", "h2-without-tls", "no-name", "directory", "no-ca-file"],
)
def test_usage(bench: Bench, words: tuple[str, ...], says: str) -> None:
    before = bench.faulty.connections()
    done = bench.host.run([bench.program, "get", *words], cwd=bench.folder, check=False)
    assert done.returncode == EXIT_CODES["usage"], done.stderr
    is_one_clear_line(done.stderr.decode(), says)
    assert bench.faulty.connections() == before
    assert bench.files() == {}


# Interrupted: by a signal, and by the end of the server


@pytest.mark.parametrize("number", [2, 9, 15], ids=["SIGINT", "SIGKILL", "SIGTERM"])
@pytest.mark.parametrize(("at", "protocol"), [("plain", PLAIN), ("good", H2)], ids=["h1", "h2"])
def test_a_killed_download_leaves_no_file_and_is_resumed(bench: Bench, number: int, at: str, protocol: tuple[str, ...]) -> None:
    url, size = bench.url("honest", 1_000_000, at=at), 1_000_000
    running = bench.start("get", "-o", "file", *protocol, "--limit-rate", "500kB/s", url)
    assert isinstance(running, AgentProcess)
    until(lambda: bench.size(".file.ferry-partial") > 0, "the download has begun")
    running.signal(number)
    assert running.wait(5.0).returncode != 0
    assert "file" not in bench.files()
    there = bench.size(".file.ferry-partial")
    assert 0 < there < size
    told = bench.get(url, *protocol, "--resume", "--checksum", f"sha256:{sha256(size)}")
    assert told.code == 0, told.error
    assert bench.ranges() == [(None, None), (f"bytes={there}-", '"v1"')]
    assert (told.transfer["offset"], told.transfer["bytes"]) == (there, size - there)
    assert bench.files() == {"file": sha256(size)}


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
    assert f'range=bytes={last["offset"]}- if-range="' in resumed or f"range=bytes={last['offset']}- if-range=" in resumed


def test_the_ports_of_the_faulty_server_are_all_tested() -> None:
    """A kind of server that no test uses is a test that was forgotten."""
    used = {"plain", "plain-2", "good", "good+http/1.1", "good+spdy/3"} | {row.at for row in DISTRUSTS}
    assert used == set(PORTS)
