"""Several versions of a file, or several runs at one file, over SFTP: one version without a hole, whatever dies when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.servers.sshd import known_hosts
from tests.engine.harness import EXIT_CODES, failed
from tests.engine.sftp_harness import MIB, ONCE, Running, SftpBench, content, digests, done, left_over, sha256, until_gone
from tests.engine.sftp_servers import SftpServer, write
from tests.support.tcp_proxy import Proxy, proxy_to
from tests.support.waiting import until

# An upload's bytes that were sent and not acknowledged, at most.
SPAN = 32 * MIB
BRIEFLY = ("--retry", "20", "--retry-max-wait", "100ms")
# A log-in, and what a channel says before it reads.
GREETING = 2500


def aged(path: Path, seconds: int) -> Path:
    """Last written so long ago."""
    facts = path.stat()
    os.utime(path, (facts.st_atime, facts.st_mtime - seconds))
    return path


# One download over several connections

SIZE = 64 * MIB


@pytest.fixture
def late(openssh: SftpServer) -> Iterator[Proxy]:
    """Holds the first connection alone; the others begin when they are let."""
    with proxy_to(openssh.port, holds_first_only=True) as made:
        yield made


def begun(desk: SftpBench, server: SftpServer, there: Path, late: Proxy, *words: str) -> Running:
    """A download of which the first connection has brought an eighth, and no other has begun."""
    late.hold_after("down", SIZE // 8)
    ferry = desk.start(*desk.get_words(server, there, "--connections", "3", *words, port=late.port))
    late.wait_held()
    return ferry


def joined(late: Proxy, bytes_: int) -> None:
    """The further connections have brought so much, then the first goes on."""
    late.let_further()
    until(lambda: len(found := late.down_further()) == 2 and min(found) >= bytes_, "the other connections have begun")
    late.release()


def test_further_connections_bring_parts_of_the_same_version(desk: SftpBench, openssh: SftpServer, late: Proxy) -> None:
    there = aged(desk.give(openssh, SIZE), 1000)
    ferry = begun(desk, openssh, there, late)
    joined(late, MIB)
    told = ferry.told()
    done(told)
    assert told.report["ssh"]["connections"] == 3
    assert desk.files() == {"file": sha256(SIZE)}


@pytest.mark.parametrize("words", [(), ("--range", f"0-{SIZE - 1}")], ids=["whole", "range"])
def test_a_file_that_is_replaced_is_not_mixed_with_its_successor(
    desk: SftpBench, openssh: SftpServer, late: Proxy, words: tuple[str, ...]
) -> None:
    """The further connections open the same path and find another file. The first one's is still there, and complete."""
    there = aged(desk.give(openssh, SIZE), 1000)
    other = aged(desk.give(openssh, SIZE, name="other", version=2), 500)
    ferry = begun(desk, openssh, there, late, *words)
    other.replace(there)
    joined(late, GREETING)
    done(ferry.told())
    assert desk.files() == {"file": sha256(SIZE)}


def test_a_file_of_this_second_has_one_handle(desk: SftpBench, openssh: SftpServer, late: Proxy) -> None:
    """Two versions of one second have the same time, and often the same size: the server tells nothing that tells them apart."""
    there, other = desk.give(openssh, SIZE), desk.give(openssh, SIZE, name="other", version=2)
    for path in (there, other):
        aged(path, -1)
    facts = there.stat()
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    ferry = begun(desk, openssh, there, late)
    other.replace(there)
    joined(late, GREETING)
    done(ferry.told())
    assert desk.files() == {"file": sha256(SIZE)}


# Two uploads to one file


@dataclass
class Runs:
    """Several runs of ferry to one file, each behind a link of its own."""

    desk: SftpBench
    server: SftpServer
    there: Path
    links: ExitStack

    def held(self, bytes_: int, *words: str) -> tuple[Running, Proxy]:
        """A run that has sent so much, and whose link is down."""
        link = self.links.enter_context(proxy_to(self.server.port))
        link.hold_after("up", bytes_)
        # A file for each run, which reads it again when it connects again.
        hosts = write(
            self.desk.folder.parent / f"{link.port}.hosts", known_hosts(["127.0.0.1"], link.port, self.server.host_key).encode()
        )
        trust = ("--known-hosts", str(hosts), "--identity", str(self.desk.key()), "--no-agent")
        source, url = self.desk.folder / "source", self.server.url(self.there, port=link.port)
        ferry = self.desk.start("put", source, url, "--no-sync", *trust, *words)
        link.wait_held()
        return ferry, link

    def killed(self, run: tuple[Running, Proxy]) -> None:
        run[0].kill()
        run[1].cut()

    def is_right(self, size: int) -> None:
        """A reader gets the file now."""
        assert digests(self.there.parent)[self.there.name] == sha256(size)


@pytest.fixture
def runs(desk: SftpBench, openssh: SftpServer) -> Iterator[Runs]:
    with ExitStack() as links:
        yield Runs(desk, openssh, desk.remote(openssh) / "file", links)


@pytest.mark.parametrize("words", [(), ("--resume",)], ids=["plain", "resume"])
def test_a_second_upload_does_not_touch_what_the_first_one_sends(runs: Runs, words: tuple[str, ...]) -> None:
    """The first is complete while the second is under way; then the second is killed."""
    size = 24 * MIB
    runs.desk.source(size)
    first, link = runs.held(16 * MIB, *ONCE)
    second = runs.held(4 * MIB, *words)
    link.release()
    done(first.told())
    runs.is_right(size)
    runs.killed(second)
    runs.is_right(size)
    # The next run leaves nothing lying about.
    done(runs.desk.put(runs.desk.folder / "source", runs.server, runs.there))
    runs.is_right(size)
    assert until_gone(runs.there.parent) == []


@pytest.mark.parametrize("words", [ONCE, BRIEFLY], ids=["once", "again"])
def test_an_upload_whose_part_was_taken_over_says_so(runs: Runs, words: tuple[str, ...]) -> None:
    size = 48 * MIB
    runs.desk.source(size)
    first, link = runs.held(44 * MIB, *words)
    second = runs.held(2 * MIB, "--resume", *ONCE)
    assert not runs.there.exists()
    link.release()
    told = first.told()
    if words == ONCE:
        failed(told, "transient", "another run")
        assert not runs.there.exists()
    else:
        done(told)
        runs.is_right(size)
    second[1].release()
    second_told = second[0].told()
    if words == ONCE:
        done(second_told)
    runs.is_right(size)


def test_a_part_that_was_taken_over_twice_has_no_hole(runs: Runs) -> None:
    """The first run lives on behind the others, and writes far behind the place where they are."""
    size = 96 * MIB
    runs.desk.source(size)
    first, link = runs.held(40 * MIB, *ONCE)
    second = runs.held(2 * MIB, "--resume")
    # The first sends the rest into the file that is the second's now, then fails to give it its name.
    link.release()
    assert first.told().code == EXIT_CODES["transient"]
    runs.killed(second)
    assert not runs.there.exists()
    told = runs.desk.put(runs.desk.folder / "source", runs.server, runs.there, "--resume", "--no-sync")
    done(told)
    assert 3 * MIB <= told.transfer["offset"] <= 40 * MIB - SPAN
    runs.is_right(size)
    assert until_gone(runs.there.parent) == []
    assert list(runs.there.parent.iterdir()) == [runs.there]


def test_progress_counts_over_any_number_of_kills(runs: Runs) -> None:
    size = 96 * MIB
    runs.desk.source(size)
    offsets = [0]
    runs.killed(runs.held(44 * MIB))
    for _ in range(2):
        # Slow enough for some marks, which are set ten times a second.
        run = runs.held(16 * MIB, "--resume", "--limit-rate", "40MB")
        runs.killed(run)
        (mark,) = [path for path in runs.there.parent.iterdir() if path.name.endswith(".ferry-mark")]
        offsets.append(mark.stat().st_size * MIB)
        assert offsets[-1] >= max(offsets[-2], 44 * MIB - SPAN) + 2 * MIB
    told = runs.desk.put(runs.desk.folder / "source", runs.server, runs.there, "--resume", "--no-sync")
    done(told)
    assert told.transfer["offset"] == offsets[-1]
    runs.is_right(size)
    assert list(runs.there.parent.iterdir()) == [runs.there]


# A part that its owner could not open again


@pytest.mark.parametrize("how", ["resume", "plain", "retry"])
def test_a_file_that_is_read_only_goes_on_after_an_interruption(runs: Runs, how: str) -> None:
    size = 48 * MIB
    source = runs.desk.source(size)
    source.chmod(0o444)
    run = runs.held(40 * MIB, *(BRIEFLY if how == "retry" else ONCE))
    if how == "retry":
        run[1].reset()
        told = run[0].told()
        assert len(told.attempts) == 2
    else:
        runs.killed(run)
        told = runs.desk.put(source, runs.server, runs.there, *(["--resume"] if how == "resume" else []))
    done(told)
    assert (told.attempts[-1]["offset"] > 0) is (how != "plain")
    runs.is_right(size)
    assert runs.there.stat().st_mode & 0o777 == 0o444
    assert until_gone(runs.there.parent) == []


@pytest.mark.parametrize("mode", [0o644, 0o400, 0o464])
def test_an_upload_has_the_local_mode_less_the_servers_umask(runs: Runs, mode: int) -> None:
    source = runs.desk.source(1000)
    source.chmod(mode)
    done(runs.desk.put(source, runs.server, runs.there))
    assert runs.there.stat().st_mode & 0o777 == mode & ~0o022
    assert left_over(runs.there.parent) == []
    assert runs.there.read_bytes() == content(1000)
