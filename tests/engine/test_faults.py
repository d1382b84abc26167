"""ferry and a server that misbehaves: right class, exit code and line; right requests; nothing half-done under a file's name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pytest

from tests.engine.harness import (
    BRIEFLY,
    H1,
    H2,
    ONCE,
    PLAIN,
    PORTS,
    SIZE,
    Bench,
    Options,
    failed,
    is_one_clear_line,
    sha256,
)
from tests.support.faults import content


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
    Failure("h1-stall", "stall", "transient", "--stall", flags=("--stall", "2s"), keeps=True),
    Failure("https-cut", "cut", "transient", "15000 bytes are kept for --resume", "good", H1, keeps=True),
    Failure("https-reset", "reset", "transient", "15000 bytes are kept for --resume", "good", H1, keeps=True),
    Failure("h2-cut", "cut", "transient", "15000 bytes are kept for --resume", "good", H2, keeps=True),
    Failure("h2-reset", "reset", "transient", "15000 bytes are kept for --resume", "good", H2, keeps=True),
    Failure("h2-stall", "stall", "transient", "--stall", "good", (*H2, "--stall", "2s"), keeps=True),
    Failure("h2-stream-reset", "reset-stream", "transient", "INTERNAL_ERROR", "good", H2, keeps=True),
    Failure("h2-stream-refused", "refuse-stream", "transient", "REFUSED_STREAM", "good", H2),
    Failure("h2-go-away-at-once", "go-away-at-once", "transient", "", "good", H2),
    # The body is not what was announced
    Failure("h2-too-little", "short", "integrity", "30000 bytes were announced and 15000 came", "good", H2, status=200),
    Failure("https-no-goodbye", "until-close-cut", "transient", "15000 bytes are kept for --resume", "good", H1, keeps=True),
    Failure("206-unasked", "unasked-range", "integrity", "Content-Range", status=206),
    Failure("h1-too-much", "long", "integrity", "more than the 30000 bytes that it announced", status=200),
    Failure("h2-too-much", "long", "integrity", "30000", "good", H2, status=200),
    # No head, or none that can be read
    Failure("h1-no-answer", "closed", "transient", "closed the connection"),
    Failure("h1-silent", "silent", "transient", "--timeout-first-byte", flags=("--timeout-first-byte", "2s")),
    Failure("h2-silent", "silent", "transient", "--timeout-first-byte", "good", (*H2, "--timeout-first-byte", "2s")),
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
    Failure("total", "stall", "transient", "--timeout-total", flags=("--timeout-total", "2s"), tries=1, keeps=True),
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
    # Every redirect is an attempt; the failure comes after the last redirect that is followed.
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
    Recovery("h1-stall", "stall", flags=("--stall", "2s"), resumes=True),
    Recovery("h1-500", "says", options=(("status", "500"),)),
    Recovery("https-cut", "cut", "good", H1, resumes=True),
    Recovery("h2-cut", "cut", "good", H2, resumes=True),
    Recovery("h2-reset", "reset", "good", H2, resumes=True),
    Recovery("h2-stall", "stall", "good", (*H2, "--stall", "2s"), resumes=True),
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
    """Half of a file has arrived, and the server answers the request for the rest with the fault `then`.

    `size` and `version` are those of the complete file expected.
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
    [("date", "Sat, 21 Nov 2026 12:00:01 GMT"), ("young", None), ("weak", None), ("none", None)],
)
def test_only_what_can_be_recognised_is_resumed(bench: Bench, validator: str, if_range: str | None) -> None:
    told = bench.get(bench.url("cut", times=1, validator=validator), *BRIEFLY)
    assert told.code == 0, told.error
    assert bench.ranges() == [(None, None), ("bytes=15000-" if if_range else None, if_range)]
    assert bench.files() == {"file": sha256(SIZE)}


@pytest.mark.parametrize(
    ("fault", "at"),
    [("chunked", "plain"), ("until-close", "plain"), ("until-goodbye", "good")],
)
def test_what_is_unusual_and_right(bench: Bench, fault: str, at: str) -> None:
    """A body may end in three ways."""
    told = bench.get(bench.url(fault, at=at), *H1)
    assert told.code == 0, told.error
    assert len(told.attempts) == 1
    assert bench.files() == {"file": sha256(SIZE)}


def test_a_range_is_fetched_again_after_a_fault(bench: Bench) -> None:
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
    # Queries are hidden.
    assert told.transfer["final_url"] == bench.url("honest", at=at).partition("?")[0] + "?..."
    assert bench.files() == {"file": sha256(SIZE)}


# No other program has a file of this name.
ABSOLUTE = "/tmp/roughwater-test-escaped"


@pytest.mark.parametrize("name", ["../../escaped", ABSOLUTE, "other"], ids=["up", "absolute", "other"])
def test_a_server_names_no_path(bench: Bench, name: str) -> None:
    assert bench.get(bench.url("named", name=name)).code == 0
    assert bench.files() == {"file": sha256(SIZE)}
    bench.shell("rm file")
    told = bench.run("get", "-O", bench.url("says", status=302, to=bench.url("named", name=name)))
    assert told.code == 0, told.error
    assert bench.files() == {"30000": sha256(SIZE)}
    assert bench.shell(f"ls -d escaped ../escaped ../../escaped ../../../escaped {ABSOLUTE} 2>/dev/null || :") == ""


def test_an_encoded_path_stays_one_name(bench: Bench) -> None:
    told = bench.run("get", "-O", f"http://server:{PORTS['plain']}/honest/9?/../..%2f..%2fescaped")
    assert told.code == 0, told.error
    failed(bench.run("get", "-O", f"http://server:{PORTS['plain']}/..%2f..%2fescaped"), "permanent", "404")
    assert bench.files() == {"9": sha256(9)}
