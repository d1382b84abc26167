"""A file that is replaced while it is sent: bytes, time and permissions on the server are those of the file that was opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.harness import failed
from tests.engine.sftp_harness import MIB, Running, SftpBench, content, done, until_gone
from tests.engine.sftp_servers import SftpServer, person
from tests.support.tcp_proxy import Proxy, proxy_to

SIZE = 16 * MIB
# Content's version, time and mode of the file before and after.
OLD, NEW = (1, 10**9, 0o640), (2, 10**9 + 500, 0o604)
WAYS = pytest.mark.parametrize("way", ["file", "directory", "mirror"])


@pytest.fixture
def proxy(openssh: SftpServer) -> Iterator[Proxy]:
    with proxy_to(openssh.port) as made:
        yield made


def version(desk: SftpBench, name: str, of: tuple[int, int, int]) -> Path:
    number, time, mode = of
    path = desk.write(name, content(SIZE, number), mode)
    os.utime(path, (time, time))
    return path


def is_version(path: Path, of: tuple[int, int, int]) -> None:
    number, time, mode = of
    facts = path.stat()
    assert path.read_bytes() == content(SIZE, number)
    assert (int(facts.st_mtime), facts.st_mode & 0o777) == (time, mode)


def start(desk: SftpBench, server: SftpServer, way: str, port: int, *words: str) -> tuple[Running, Path]:
    """ferry, and where the file goes."""
    target = desk.remote(server) / "target"
    if not target.exists():
        target.mkdir()
        person().owns(target)
    source, there = (desk.folder / "tree" / "file", f"{target}/file") if way == "file" else (desk.folder / "tree", f"{target}/")
    which = "--mirror" if way == "mirror" else "--remote-time"
    return desk.start(*desk.put_words(source, server, there, which, "--perms", *words, port=port)), target / "file"


@WAYS
def test_one_version_arrives(desk: SftpBench, openssh: SftpServer, proxy: Proxy, way: str) -> None:
    path, new = version(desk, "tree/file", OLD), version(desk, "new", NEW)
    proxy.hold_after("up", SIZE // 2)
    ferry, there = start(desk, openssh, way, proxy.port)
    proxy.wait_held()
    new.replace(path)
    proxy.release()
    done(ferry.told())
    is_version(there, OLD)
    again, _ = start(desk, openssh, way, openssh.port)
    done(again.told())
    is_version(there, NEW)


@WAYS
@pytest.mark.parametrize("checksum", [False, True])
def test_a_retry_is_of_one_version_too(desk: SftpBench, openssh: SftpServer, proxy: Proxy, way: str, checksum: bool) -> None:
    path, new = version(desk, "tree/file", OLD), version(desk, "new", NEW)
    proxy.hold_after("up", SIZE // 2)
    words = ["--checksum", "sha256"] if checksum and way != "mirror" else []
    ferry, there = start(desk, openssh, way, proxy.port, "--retry-max-wait", "50ms", *words)
    proxy.wait_held()
    new.replace(path)
    proxy.cut()
    done(ferry.told())
    is_version(there, NEW)


@WAYS
def test_a_file_that_is_written_to_meanwhile_gets_no_name(desk: SftpBench, openssh: SftpServer, proxy: Proxy, way: str) -> None:
    path = version(desk, "tree/file", OLD)
    proxy.hold_after("up", SIZE // 2)
    ferry, there = start(desk, openssh, way, proxy.port)
    proxy.wait_held()
    with path.open("r+b") as file:
        file.write(b"x")
    proxy.release()
    failed(ferry.told(), "integrity", "was changed while it was being sent")
    assert not there.exists()
    assert until_gone(there.parent) == []
