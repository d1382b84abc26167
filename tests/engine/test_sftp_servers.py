"""What the tests of ferry over SFTP stand on, proved with OpenSSH's own client: odd servers are odd in what they say they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.errors import LabFault
from tests.engine.sftp_harness import MIB, SftpBench, digests, sha256
from tests.engine.sftp_servers import Odd, SftpServer, openssh, openssh_client, running
from tests.support.tcp_proxy import proxy_to

SIZE = 3 * MIB


def there_and_back(desk: SftpBench, server: SftpServer, *, login: str = "", port: int | None = None) -> Path:
    """The server's folder, with two files in it; OpenSSH's client has taken one there and back."""
    folder = desk.remote(server)
    batch = f"put {desk.source(SIZE)} {folder}/there\nget {folder}/there {desk.folder}/back\n"
    openssh_client(server, batch, login=login, port=port)
    return folder


@pytest.mark.parametrize("oddity", ["honest", "unordered", "short-reads", "tiny", "bare", "one-channel"])
def test_what_is_allowed(desk: SftpBench, odd: Odd, oddity: str) -> None:
    assert digests(there_and_back(desk, odd.server, login=oddity)) == {"there": sha256(SIZE)}
    assert desk.files() == {"source": sha256(SIZE), "back": sha256(SIZE)}


# version-2 is not among them: OpenSSH's client speaks it.
NOT_ALLOWED = ("unknown-id", "wrong-type", "garbage", "endless-packet", "closes-channel", "closes-connection", "disconnects")


@pytest.mark.parametrize("oddity", [*NOT_ALLOWED, "no-space", "denied", "no-channel", "no-subsystem"])
def test_what_is_not(desk: SftpBench, odd: Odd, oddity: str) -> None:
    with pytest.raises(LabFault, match="OpenSSH's sftp against odd"):
        there_and_back(desk, odd.server, login=oddity)
    assert odd.asked("connection")


def test_names(desk: SftpBench, odd: Odd) -> None:
    folder = desk.remote(odd.server)
    (folder / "file").touch()
    listed = openssh_client(odd.server, f"ls -1 {folder}\n", login="name-twice")
    assert listed.count("twice") == 2


def test_a_link_that_is_held_and_released(desk: SftpBench, odd: Odd) -> None:
    with proxy_to(odd.server.port, delay_s=0.005) as late, proxy_to(odd.server.port) as proxy:
        there_and_back(desk, odd.server, login="honest", port=late.port)
        assert late.connections == 1
        there_and_back(desk, odd.server, login="honest", port=proxy.port)
        assert proxy.moved["up"] > SIZE
        assert proxy.moved["down"] > SIZE


def test_a_server_that_is_killed_is_gone(desk: SftpBench) -> None:
    server = openssh(desk.folder.parents[1], desk.keys, name=f"openssh-{desk.word}")
    with running(server):
        there_and_back(desk, server)
        server.kill()
        with pytest.raises(LabFault, match="killed"):
            openssh_client(server, "pwd\n")
        server.start()
        there_and_back(desk, server)
