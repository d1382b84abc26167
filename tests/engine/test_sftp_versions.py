"""Several versions of a file, or several runs at one file, over SFTP: one version without a hole, whatever dies when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.sftp_harness import MIB, Running, SftpBench, done, sha256
from tests.engine.sftp_servers import SftpServer
from tests.support.tcp_proxy import Proxy, proxy_to
from tests.support.waiting import until

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
