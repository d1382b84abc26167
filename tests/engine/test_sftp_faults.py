"""ferry over SFTP when something dies, is full, is forbidden, or is away for a while."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.harness import failed
from tests.engine.sftp_harness import MIB, ONCE, Running, SftpBench, content, digests, done, left_over, sha256, until_gone
from tests.engine.sftp_servers import SftpServer, may_mount, openssh, person, running, write
from tests.support.ports import free_port
from tests.support.tcp_proxy import Proxy, proxy_to

SIZE = 16 * MIB
HALF = SIZE // 2
BRIEFLY = ("--retry", "20", "--retry-max-wait", "100ms")
# A link that is away for so long, which TCP does not mind.
AWAY_S = 10.0


@pytest.fixture
def mortal(desk: SftpBench) -> Iterator[SftpServer]:
    """An sshd of the test's own, to be killed."""
    server = openssh(desk.folder.parents[1], desk.keys, name=f"openssh-{desk.word}")
    with running(server):
        yield server


@pytest.fixture
def proxy(openssh: SftpServer) -> Iterator[Proxy]:
    with proxy_to(openssh.port) as made:
        yield made


def begin(desk: SftpBench, server: SftpServer, there: Path, way: str, *words: str, port: int) -> Running:
    if way == "get":
        return desk.start(*desk.get_words(server, there, *words, port=port))
    return desk.start(*desk.put_words(desk.folder / "source", server, there, *words, port=port))


def prepared(desk: SftpBench, server: SftpServer, way: str, size: int = SIZE) -> Path:
    """The file's place on the server; the file is where it comes from."""
    if way == "get":
        return desk.give(server, size)
    desk.source(size)
    return desk.remote(server) / "file"


def half_way(proxy: Proxy, way: str, bytes_: int = HALF) -> None:
    proxy.hold_after("down" if way == "get" else "up", bytes_)


def arrived(desk: SftpBench, there: Path, size: int = SIZE) -> None:
    """The file is intact on both sides, with no other files."""
    assert digests(there.parent) == {"file": sha256(size)}
    assert set(desk.files().values()) == {sha256(size)}
    assert until_gone(there.parent) == []


WAYS = pytest.mark.parametrize("way", ["get", "put"])


@WAYS
def test_a_server_that_is_killed(desk: SftpBench, mortal: SftpServer, way: str) -> None:
    there = prepared(desk, mortal, way)
    with proxy_to(mortal.port) as proxy:
        half_way(proxy, way)
        ferry = begin(desk, mortal, there, way, *ONCE, port=proxy.port)
        proxy.wait_held()
        mortal.kill()
        proxy.release()
        told = ferry.told()
        failed(told, "transient")
        assert len(told.attempts) == 1
        if way == "get":
            assert "file" not in desk.files()
        else:
            assert not there.exists()
        # No server listens: the same again, without a loss.
        failed(begin(desk, mortal, there, way, *ONCE, "--resume", port=proxy.port).told(), "transient")
        mortal.start()
        told = begin(desk, mortal, there, way, "--resume", "--checksum", "sha256", port=proxy.port).told()
        done(told)
        if way == "get":
            assert told.transfer["offset"] > 0
        assert told.transfer["checksum"] == f"sha256:{sha256(SIZE)}"
        arrived(desk, there)


@WAYS
def test_a_server_that_is_started_again(desk: SftpBench, mortal: SftpServer, way: str) -> None:
    there = prepared(desk, mortal, way)
    with proxy_to(mortal.port) as proxy:
        half_way(proxy, way)
        ferry = begin(desk, mortal, there, way, *BRIEFLY, port=proxy.port)
        proxy.wait_held()
        mortal.kill()
        proxy.release()
        mortal.start()
        told = ferry.told()
        done(told)
        assert len(told.attempts) >= 2
        assert told.attempts[0]["error"]["class"] == "transient"
        if way == "get":
            assert told.attempts[-1]["offset"] > 0
        arrived(desk, there)


@WAYS
@pytest.mark.parametrize("how", ["reset", "cut"])
def test_a_connection_that_is_lost(desk: SftpBench, openssh: SftpServer, proxy: Proxy, way: str, how: str) -> None:
    there = prepared(desk, openssh, way)
    half_way(proxy, way)
    ferry = begin(desk, openssh, there, way, *BRIEFLY, port=proxy.port)
    proxy.wait_held()
    proxy.reset() if how == "reset" else proxy.cut()
    told = ferry.told()
    done(told)
    assert len(told.attempts) == 2
    assert proxy.connections == 2
    arrived(desk, there)


@pytest.mark.parametrize("at", [1, 100, 2000])
def test_a_connection_that_is_lost_before_it_is_one(desk: SftpBench, openssh: SftpServer, proxy: Proxy, at: int) -> None:
    """In the banner, in the key exchange, in the log-in."""
    there = prepared(desk, openssh, "get")
    proxy.hold_after("down", at)
    ferry = begin(desk, openssh, there, "get", *BRIEFLY, port=proxy.port)
    proxy.wait_held()
    proxy.reset()
    told = ferry.told()
    done(told)
    assert told.attempts[0]["error"]["class"] == "transient"
    arrived(desk, there)


def test_no_server_listens(desk: SftpBench, openssh: SftpServer) -> None:
    told = desk.get(openssh, desk.remote(openssh) / "file", "--retry", "2", "--retry-max-wait", "50ms", port=free_port())
    failed(told, "transient", "refused")
    assert len(told.attempts) == 3


def test_a_server_that_says_nothing(desk: SftpBench, openssh: SftpServer, proxy: Proxy) -> None:
    proxy.hold()
    told = desk.get(openssh, desk.remote(openssh) / "file", *ONCE, "--timeout-tls", "2s", port=proxy.port)
    failed(told, "transient", "SSH handshake")


def test_a_link_that_is_away_and_comes_back(desk: SftpBench, openssh: SftpServer) -> None:
    """Both ways at once, with ferry's own limits as they come: no attempt is given up."""
    ways = ("get", "put")
    places = {way: write(desk.remote(openssh) / "file", content(SIZE)) for way in ways[:1]}
    (desk.remote(openssh) / "uploads").mkdir()
    person().owns(desk.remote(openssh) / "uploads")
    places["put"] = desk.remote(openssh) / "uploads" / "file"
    desk.source(SIZE)
    with proxy_to(openssh.port) as get_proxy, proxy_to(openssh.port) as put_proxy:
        proxies = dict(zip(ways, (get_proxy, put_proxy), strict=True))
        ferries = {}
        for way in ways:
            half_way(proxies[way], way)
            ferries[way] = begin(desk, openssh, places[way], way, *ONCE, port=proxies[way].port)
            proxies[way].wait_held()
        # Not readiness: this is the fault itself.
        time.sleep(AWAY_S)
        for way in ways:
            assert ferries[way].running(), f"{way} has ended while the link was away"
            proxies[way].release()
        told = {way: ferries[way].told() for way in ways}
    for way in ways:
        done(told[way])
        assert len(told[way].attempts) == 1
        assert proxies[way].connections == 1
    assert desk.files()["file"] == sha256(SIZE)
    assert digests(desk.remote(openssh)) == {"file": sha256(SIZE), "uploads/file": sha256(SIZE)}


@WAYS
def test_a_link_that_is_away_for_longer_than_is_wished(desk: SftpBench, openssh: SftpServer, proxy: Proxy, way: str) -> None:
    there = prepared(desk, openssh, way)
    half_way(proxy, way)
    ferry = begin(desk, openssh, there, way, *ONCE, "--stall", "3s", port=proxy.port)
    proxy.wait_held()
    failed(ferry.told(20.0), "transient", "--stall")
    proxy.reset()
    done(begin(desk, openssh, there, way, "--resume", port=proxy.port).told())
    arrived(desk, there)


def test_a_client_that_is_killed_while_it_sends(desk: SftpBench, openssh: SftpServer, proxy: Proxy) -> None:
    """32 MiB may have been under way, and the last 32 MiB and a piece of what is there are sent again; nothing more is."""
    size = 112 * MIB
    there = prepared(desk, openssh, "put", size)
    half_way(proxy, "put", 104 * MIB)
    ferry = begin(desk, openssh, there, "put", "--no-sync", port=proxy.port)
    proxy.wait_held()
    ferry.kill()
    proxy.cut()
    assert not there.exists()
    (part,) = left_over(there.parent)
    assert part.startswith(".file.")
    told = begin(desk, openssh, there, "put", "--resume", port=proxy.port).told()
    done(told)
    assert 39 * MIB <= told.transfer["offset"] <= (104 - 32) * MIB
    arrived(desk, there, size)


def test_a_client_that_is_killed_while_it_receives(desk: SftpBench, openssh: SftpServer, proxy: Proxy) -> None:
    there = prepared(desk, openssh, "get")
    half_way(proxy, "get")
    ferry = begin(desk, openssh, there, "get", port=proxy.port)
    proxy.wait_held()
    ferry.kill()
    proxy.cut()
    assert "file" not in desk.files()
    told = begin(desk, openssh, there, "get", "--resume", port=proxy.port).told()
    done(told)
    assert 0 < told.transfer["offset"] <= HALF
    assert told.transfer["offset"] + told.transfer["bytes"] == SIZE
    arrived(desk, there)


def test_a_source_that_has_changed_is_not_resumed(desk: SftpBench, openssh: SftpServer, proxy: Proxy) -> None:
    there = prepared(desk, openssh, "put")
    half_way(proxy, "put")
    ferry = begin(desk, openssh, there, "put", *ONCE, port=proxy.port)
    proxy.wait_held()
    proxy.reset()
    failed(ferry.told(), "transient")
    desk.source(SIZE, version=2)
    told = begin(desk, openssh, there, "put", "--resume", port=proxy.port).told()
    done(told)
    assert told.transfer["offset"] == 0
    assert digests(there.parent)["file"] == sha256(SIZE, 2)


def test_without_resume_what_is_there_is_not_used(desk: SftpBench, openssh: SftpServer, proxy: Proxy) -> None:
    there = prepared(desk, openssh, "put")
    half_way(proxy, "put")
    ferry = begin(desk, openssh, there, "put", *ONCE, port=proxy.port)
    proxy.wait_held()
    proxy.reset()
    failed(ferry.told(), "transient")
    # Same length, other content.
    for part in left_over(there.parent):
        write(there.parent / part, b"\0" * HALF)
    told = begin(desk, openssh, there, "put", port=proxy.port).told()
    done(told)
    assert told.transfer["offset"] == 0
    arrived(desk, there)


def test_two_uploads_of_one_file(desk: SftpBench, openssh: SftpServer) -> None:
    """Two transfers to one file at the same time: the last one wins, and the file is intact."""
    there = prepared(desk, openssh, "put")
    ferries = [begin(desk, openssh, there, "put", *ONCE, port=openssh.port) for _ in range(2)]
    codes = [ferry.told().code for ferry in ferries]
    assert 0 in codes
    assert digests(there.parent)["file"] == sha256(SIZE)


# Full disks


def test_a_client_whose_disk_is_full(desk: SftpBench, openssh: SftpServer) -> None:
    if why := may_mount():
        pytest.skip(f"no small disk: this user may not mount one: {why}")
    there = desk.give(openssh, 3 * MIB)
    small = desk.folder / "small"
    small.mkdir()
    # Listed from within: what is mounted there is gone when the last process of it has ended.
    script = 'code=0; "$@" || code=$?; ls -A small >listing; exit $code'
    mount = f'mount -t tmpfs -o size=1m,uid="$uid",gid="$gid" none {shlex.quote(str(small))}'
    before = person().in_own_mounts(mount, "/bin/sh", "-c", script, "sh")
    # Mounting needs who runs the tests; the command itself drops.
    told = desk.start(*desk.get_words(openssh, there, "--retry", "2", output="small/file"), before=before, dropped=False).told()
    failed(told, "local", "small/file")
    assert len(told.attempts) == 1
    assert "file" not in (desk.folder / "listing").read_text().splitlines()


def test_a_server_whose_disk_is_full(desk: SftpBench) -> None:
    if why := may_mount():
        pytest.skip(f"no small disk: this user may not mount one: {why}")
    server = openssh(desk.folder.parents[1], desk.keys, name=f"openssh-{desk.word}", full=True)
    with running(server):
        assert server.process is not None
        # Its home as itself sees it.
        home = Path(f"/proc/{server.process.pid}/root{server.home}")
        told = desk.put(desk.source(3 * MIB), server, server.home / "file", "--retry", "2")
        failed(told, "permanent")
        assert len(told.attempts) == 1
        assert until_gone(home) == []
        assert list(home.iterdir()) == []
        done(desk.put(desk.source(MIB // 2, name="smaller"), server, server.home / "file"))
        assert digests(home) == {"file": sha256(MIB // 2)}


# What is forbidden


def test_a_file_that_may_not_be_read_there(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.give(openssh, 1000)
    there.chmod(0)
    failed(desk.get(openssh, there, "--retry", "2"), "permanent", "ermission denied")
    assert desk.files() == {}


def test_a_folder_that_may_not_be_written_there(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh)
    there.chmod(0o555)
    told = desk.put(desk.source(300_000), openssh, there / "file")
    there.chmod(0o777)
    failed(told, "permanent", "ermission denied")
    assert list(there.iterdir()) == []


def test_a_target_that_is_a_directory(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh) / "file"
    there.mkdir()
    person().owns(there)
    done(desk.put(desk.source(300_000), openssh, there))
    assert digests(there.parent) == {"file/source": sha256(300_000)}
    (there / "source").unlink()
    (there / "source").mkdir()
    failed(desk.put(desk.folder / "source", openssh, there), "permanent", "is a directory")
    assert until_gone(there.parent) == []
    failed(desk.get(openssh, there), "permanent")
    assert "file" not in desk.files()


def test_a_source_that_may_not_be_read(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh) / "file"
    failed(desk.put(desk.write("source", b"mine", 0), openssh, there), "local", "source")
    failed(desk.put(desk.folder / "nothing", openssh, there), "local", "nothing")
    assert list(there.parent.iterdir()) == []


def test_a_folder_that_may_not_be_written_here(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.give(openssh, 1000)
    desk.write("closed/keep", b"")
    (desk.folder / "closed").chmod(0o555)
    failed(desk.get(openssh, there, output="closed/file"), "local", "closed")
    failed(desk.get(openssh, there, output="nowhere/file"), "local", "nowhere")
    assert set(desk.files()) == {"closed/keep"}


@pytest.mark.parametrize("size", [SIZE + MIB, 9 * MIB], ids=["grown", "shrunk"])
def test_a_source_that_grows_or_shrinks(desk: SftpBench, openssh: SftpServer, proxy: Proxy, size: int) -> None:
    """The upload fails: what has been sent is a file that has never been."""
    there = desk.remote(openssh) / "file"
    source = desk.source(SIZE)
    half_way(proxy, "put")
    ferry = desk.start(*desk.put_words(source, openssh, there, *ONCE, port=proxy.port))
    proxy.wait_held()
    write(source, content(size))
    proxy.release()
    failed(ferry.told(), "integrity", "was changed while it was being sent")
    assert not there.exists()
    assert until_gone(there.parent) == []


def test_standard_streams(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.give(openssh, 300_000)
    ferry = desk.start("get", openssh.url(there), "-o", "-", *desk.trust(openssh), json=False)
    code, stdout, stderr = ferry.ended()
    assert code == 0, stderr
    assert stdout == content(300_000)
