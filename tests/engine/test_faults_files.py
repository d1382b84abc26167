"""ferry and where a download goes: files that are there already, places that take no more, and what a killed ferry leaves."""

from __future__ import annotations

import pytest

from lab.hosts.agent.host import AgentProcess
from tests.engine.harness import (
    BRIEFLY,
    EXIT_CODES,
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
from tests.support.waiting import until

# Standard output takes nothing back


@pytest.mark.parametrize(("then", "kind"), [("honest", ""), ("changed", "permanent"), ("ignores-range", "permanent")])
def test_standard_output(bench: Bench, then: str, kind: str) -> None:
    done = bench.start_plainly("get", "-o", "-", *BRIEFLY, bench.url("cut", times=1, then=then)).wait(20.0)
    assert done.returncode == (EXIT_CODES[kind] if kind else 0), done.stderr
    assert done.stdout == (content(SIZE)[: SIZE // 2] if kind else content(SIZE))
    is_one_clear_line(done.stderr.decode(), "cannot be taken back" if kind else "2 attempts")


def test_standard_output_without_a_reader(bench: Bench) -> None:
    command = " ".join(bench.command("get", "-o", "-", f"'{bench.url('honest', 1_000_000)}'"))
    done = bench.host.run(["/bin/sh", "-c", f"({command}; echo code $? >&2) | head -c 10 >/dev/null"], cwd=bench.folder)
    line, code = done.stderr.decode().splitlines()
    is_one_clear_line(line, "standard output")
    assert code == f"code {EXIT_CODES['local']}"


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
    running = bench.start("get", "-o", "file", "--overwrite", "--limit-rate", "100kB/s", bench.url("honest", 300_000))
    until(lambda: ".file.ferry-partial" in bench.files(), "the download has begun")
    assert bench.shell("cat file") == "old"
    assert running.wait(20.0).returncode == 0
    assert bench.files() == {"file": sha256(300_000)}


def test_a_file_that_appears_meanwhile_is_not_replaced(bench: Bench) -> None:
    running = bench.start("get", "-o", "file", "--limit-rate", "1MB/s", bench.url("honest", 3_000_000))
    until(lambda: ".file.ferry-partial" in bench.files(), "the download has begun")
    bench.write("file", b"somebody else's")
    failed(Told.of(running.wait(20.0)), "local", "file")
    assert bench.shell("cat file") == "somebody else's"


def test_two_write_the_same_file(bench: Bench) -> None:
    url = bench.url("honest", 3_000_000)
    running = bench.start("get", "-o", "file", "--limit-rate", "1MB/s", url)
    until(lambda: ".file.ferry-partial" in bench.files(), "the download has begun")
    failed(bench.get(url), "local", "another ferry")
    assert running.wait(20.0).returncode == 0
    assert len(bench.asked()) == 1
    assert bench.files() == {"file": sha256(3_000_000)}


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


# Wrong command lines: no request is sent, and one line gives the reason


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


# Interrupted by a signal


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
