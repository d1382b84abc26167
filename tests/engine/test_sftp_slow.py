"""SFTP servers and lines that are slow and not silent: bytes that arrive count, and after a complete upload the answer alone."""

from __future__ import annotations

import pytest

from tests.engine.harness import failed
from tests.engine.sftp_harness import ONCE, SftpBench, content, done, sha256
from tests.engine.sftp_servers import Odd, SftpServer
from tests.support.tcp_proxy import proxy_to

STALL = ("--stall", "2s")


def test_a_line_on_which_a_write_takes_longer_than_a_silence_may(desk: SftpBench, openssh: SftpServer) -> None:
    size = 400_000
    there = desk.remote(openssh) / "file"
    with proxy_to(openssh.port, up_byte_s=70_000) as proxy:
        done(desk.put(desk.source(size), openssh, there, *ONCE, *STALL, port=proxy.port))
    assert there.read_bytes() == content(size)


def test_a_limit_does_not_stall(desk: SftpBench, openssh: SftpServer) -> None:
    """A READ is of 4 KiB, which are due for longer than a silence may last."""
    done(desk.get(openssh, desk.give(openssh, 10_000), *ONCE, *STALL, "--limit-rate", "1200"))
    assert desk.files() == {"file": sha256(10_000)}


@pytest.mark.parametrize("oddity", ["thinks", "thinks-bare"])
def test_a_server_may_work_on_a_complete_file(desk: SftpBench, odd: Odd, oddity: str) -> None:
    there = desk.remote(odd.server) / "file"
    told = desk.put(desk.source(100_000), odd.server, there, *STALL, login=oddity)
    done(told)
    assert len(told.attempts) == 1
    assert there.read_bytes() == content(100_000)


def test_who_names_a_time_means_it_after_an_upload_too(desk: SftpBench, odd: Odd) -> None:
    there = desk.remote(odd.server) / "file"
    told = desk.put(desk.source(100_000), odd.server, there, *ONCE, "--timeout-first-byte", "2s", login="thinks")
    failed(told, "transient", "--timeout-first-byte")
