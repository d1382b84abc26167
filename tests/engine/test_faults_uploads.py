"""ferry and a server that does not take an upload, or takes it only once; and a failure among several transfers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.engine.harness import (
    BRIEFLY,
    EXIT_CODES,
    H1,
    H2,
    ONCE,
    PLAIN,
    SIZE,
    Bench,
    Told,
    failed,
    is_one_clear_line,
    sha256,
)
from tests.support.faults import content


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


NARROW = pytest.mark.parametrize(
    ("at", "protocol"), [("plain@4096", PLAIN), ("good@4096", H1), ("good@4096", H2)], ids=["h1", "https", "h2"]
)
# Less than h2's first window, so that ferry hands all of it over at once; more than the server's buffer lets arrive.
AT_ONCE = 60_000


@NARROW
def test_a_success_before_the_upload_has_arrived(bench: Bench, at: str, protocol: tuple[str, ...]) -> None:
    """The server answers 201 after its first read; all that it has not got lies in the buffers of ferry's machine."""
    told = bench.put(AT_ONCE, bench.url("early", at=at), *protocol)
    failed(told, "integrity", "before it had the whole upload")
    assert (told.transfer["status"], told.transfer["bytes"]) == (201, AT_ONCE)
    assert len(bench.asked()) == 1


@NARROW
@pytest.mark.parametrize("size", [0, 1, AT_ONCE])
def test_many_honest_successes_on_a_busy_machine(bench: Bench, at: str, protocol: tuple[str, ...], size: int) -> None:
    bench.write("source", content(size))
    url = bench.url("honest", at=at)
    uploads = [bench.start_plainly("put", *protocol, *ONCE, "source", url) for _ in range(24)]
    for upload in uploads:
        done = upload.wait(60.0)
        assert done.returncode == 0, done.stderr.decode()
    assert [found["sha256"] for found in bench.asked("upload")] == [sha256(size)] * len(uploads)


@pytest.mark.parametrize(("at", "protocol"), [("plain", PLAIN), ("good", H1), ("good", H2)], ids=["h1", "https", "h2"])
def test_an_upload_without_a_reader_stalls(bench: Bench, at: str, protocol: tuple[str, ...]) -> None:
    told = bench.put(20_000_000, bench.url("deaf", at=at), *protocol, "--stall", "2s", *ONCE)
    failed(told, "transient", "--stall")
    assert told.transfer["bytes"] < 20_000_000


def test_standard_input_is_sent_once(bench: Bench) -> None:
    command = bench.command("put", "--json", "-", *BRIEFLY, "-", bench.url("lost"))
    told = Told.of(bench.host.run(command, stdin=content(SIZE), cwd=bench.folder, check=False))
    failed(told, "transient")
    assert len(bench.asked()) == 1


@pytest.mark.parametrize(("method", "status"), [("POST", 301), ("POST", 302), ("POST", 303), ("PUT", 303)])
def test_a_redirected_upload_is_not_sent_as_a_get(bench: Bench, method: str, status: int) -> None:
    told = bench.put(SIZE, bench.url("says", status=status, to=bench.url("honest")), "--method", method)
    failed(told, "permanent", str(status))
    assert len(bench.asked()) == 1


@pytest.mark.parametrize(("method", "status"), [("PUT", 301), ("PUT", 302), ("PUT", 307), ("POST", 308)])
def test_a_redirected_upload_is_sent_again(bench: Bench, method: str, status: int) -> None:
    told = bench.put(SIZE, bench.url("says", status=status, to=bench.url("honest")), "--method", method)
    assert told.code == 0
    assert [found["sha256"] for found in bench.asked("upload")][-1] == sha256(SIZE)


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
