"""Permission bits, both ways: whatever the umask, directories last, only read, write and execute."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.engine.harness import EXIT_CODES, Told
from tests.engine.sftp_harness import SftpBench, content, done
from tests.engine.sftp_servers import Odd, SftpServer, person

WAYS = pytest.mark.parametrize("way", ["get", "put"])
MODES = {
    "open": 0o777,
    "shared": 0o666,
    "secret": 0o600,
    "fixed": 0o444,
    "program": 0o4755,
    "closed": 0o555,
    "closed/inner": 0o500,
    "closed/inner/file": 0o640,
    "wide": 0o777,
    "wide/file": 0o604,
}
DIRECTORIES = ("closed", "closed/inner", "wide")


def plant(root: Path) -> Path:
    for name in ("", *DIRECTORIES):
        (root / name).mkdir()
    for name in MODES.keys() - set(DIRECTORIES):
        (root / name).write_bytes(content(100, version=len(name)))
    for path in [root, *root.rglob("*")]:
        person().owns(path)
    for name in sorted(MODES, reverse=True):
        (root / name).chmod(MODES[name])
    return root


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mode & 0o7777 for path in root.rglob("*")}


def places(desk: SftpBench, server: SftpServer, way: str) -> tuple[Path, Path]:
    there, here = desk.remote(server), desk.folder
    return (there / "source", here / "target") if way == "get" else (here / "source", there / "target")


def move(desk: SftpBench, server: SftpServer, way: str, *words: str, login: str = "") -> Told:
    source, target = places(desk, server, way)
    if way == "get":
        url = server.url(f"{source}/", login=login)
        return desk.run("get", "-r", url, "--output", str(target), *desk.trust(server), *words)
    return desk.put(source, server, f"{target}/", *words, login=login)


def opened(root: Path) -> None:
    """So that pytest can remove the folder as an ordinary user."""
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


@WAYS
@pytest.mark.parametrize("mirror", [False, True])
def test_every_bit_arrives(desk: SftpBench, openssh: SftpServer, way: str, mirror: bool) -> None:
    source, target = places(desk, openssh, way)
    plant(source)
    done(move(desk, openssh, way, "--perms", *(["--mirror", "--delete"] if mirror else [])))
    assert modes(target) == {name: mode & 0o777 for name, mode in MODES.items()}
    assert (target / "closed" / "inner" / "file").read_bytes() == content(100, version=len("closed/inner/file"))
    opened(source)
    opened(target)


@WAYS
def test_a_mirror_changes_modes_without_a_transfer(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    source, target = places(desk, openssh, way)
    plant(source)
    done(move(desk, openssh, way, "--mirror", "--perms"))
    (source / "open").chmod(0o640)
    (source / "wide").chmod(0o750)
    again = move(desk, openssh, way, "--mirror", "--perms")
    done(again)
    assert again.report["transfers"] == []
    assert modes(target) == {name: mode & 0o777 for name, mode in {**MODES, "open": 0o640, "wide": 0o750}.items()}
    opened(source)
    opened(target)


@WAYS
def test_a_dry_run_changes_no_mode(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    source, target = places(desk, openssh, way)
    plant(source)
    done(move(desk, openssh, way, "--mirror", "--perms"))
    before = modes(target)
    for name in ("open", "wide"):
        (source / name).chmod(0o700)
    done(move(desk, openssh, way, "--mirror", "--perms", "--dry-run"))
    assert modes(target) == before
    opened(source)
    opened(target)


@WAYS
def test_one_file(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    if way == "get":
        path = desk.give(openssh, 10)
        path.chmod(0o604)
        arrived = desk.write("file", b"old", 0o600)
        done(desk.get(openssh, path, "--perms", "--overwrite"))
    else:
        arrived = desk.remote(openssh) / "file"
        done(desk.put(desk.write("source", b"new", 0o666), openssh, arrived, "--perms"))
    assert arrived.stat().st_mode & 0o777 == (0o604 if way == "get" else 0o666)


@pytest.mark.parametrize("perms", [False, True])
def test_a_download_is_never_more_open_than_its_source(desk: SftpBench, openssh: SftpServer, perms: bool) -> None:
    umask = os.umask(0)
    os.umask(umask)
    source, target = places(desk, openssh, "get")
    (source / "closed").mkdir(parents=True)
    bits = {"closed/inner": 0o600, "program": 0o755, "fixed": 0o444, "secret": 0o600, "shared": 0o664}
    for name, mode in bits.items():
        (source / name).write_bytes(content(100_000))
        (source / name).chmod(mode)
    (source / "closed").chmod(0o700)
    for path in [source, *source.rglob("*")]:
        person().owns(path)
    words = ["--perms"] if perms else []
    url = openssh.url(f"{source}/")
    running = desk.start("get", "-r", url, "--output", str(target), *desk.trust(openssh), "--limit-rate", "400kB/s", *words)
    partial: set[int] = set()
    closed: set[int] = set()
    while running.running():
        with contextlib.suppress(FileNotFoundError):
            # The others are already open to all when they get their names.
            secret = [path for path in target.rglob(".*.ferry-partial") if path.name.startswith((".secret", ".inner"))]
            partial |= {path.stat().st_mode & 0o777 for path in secret}
            closed.add((target / "closed").stat().st_mode & 0o777)
    done(running.told())
    assert (partial, closed) == ({0o600}, {0o700})
    # Without the flag as scp and sftp make a file; whose it is can write it again.
    assert modes(target) == {"closed": 0o700} | {name: mode if perms else (mode | 0o600) & ~umask for name, mode in bits.items()}


def test_a_read_only_directory_gets_a_new_file(desk: SftpBench, openssh: SftpServer) -> None:
    source, target = places(desk, openssh, "get")
    plant(source)
    done(move(desk, openssh, "get", "--mirror", "--perms"))
    # Only root writes into a read-only directory.
    (source / "closed").chmod(0o755)
    (source / "closed" / "new").write_bytes(b"new")
    person().owns(source / "closed" / "new")
    (source / "closed").chmod(0o555)
    done(move(desk, openssh, "get", "--mirror", "--perms"))
    assert (target / "closed" / "new").read_bytes() == b"new"
    assert modes(target)["closed"] == 0o555
    opened(source)
    opened(target)


def test_a_server_that_sets_none(desk: SftpBench, odd: Odd) -> None:
    desk.write("source/file", b"x")
    told = move(desk, odd.server, "put", "--perms", login="sizes-fixed")
    assert told.code == EXIT_CODES["permanent"]
    assert "--perms" in told.error["message"]


def test_http_has_no_modes(desk: SftpBench) -> None:
    for words in (("get", "http://localhost/x", "-O"), ("put", str(desk.source(1)), "http://localhost/x")):
        code, _, err = desk.start(*words, "--perms", json=False).ended()
        assert (code, b"--perms" in err) == (2, True)
