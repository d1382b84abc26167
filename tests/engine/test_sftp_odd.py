"""ferry and an SFTP server that does odd things: what is allowed works, what is not has its class, nothing half-done a name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.engine.harness import failed
from tests.engine.sftp_harness import MIB, ONCE, SftpBench, content, digests, done, left_over, sha256, until_gone
from tests.engine.sftp_servers import Odd, write

SIZE = 3 * MIB
BRIEFLY = ("--retry", "2", "--retry-max-wait", "50ms")
STALL = ("--stall", "2s")


ALLOWED = ("honest", "unordered", "short-reads", "random-reads", "tiny", "bare", "bare-strict", "one-channel", "two-channels")


@pytest.mark.parametrize("way", ["get", "put"])
@pytest.mark.parametrize("oddity", ALLOWED)
def test_what_is_unusual_and_right(desk: SftpBench, odd: Odd, oddity: str, way: str) -> None:
    there = desk.remote(odd.server) / "file"
    if way == "get":
        size = 300_000 if oddity == "short-reads" else SIZE
        desk.give(odd.server, size)
        told = desk.get(odd.server, there, "--checksum", "sha256", login=oddity)
        done(told)
        assert desk.files() == {"file": sha256(size)}
        assert told.transfer["checksum"] == f"sha256:{sha256(size)}"
    else:
        told = desk.put(desk.source(SIZE), odd.server, there, login=oddity)
        done(told)
        assert digests(there.parent) == {"file": sha256(SIZE)}
    assert len(told.attempts) == 1


@pytest.mark.parametrize("oddity", ["honest", "bare", "bare-strict"])
def test_an_upload_replaces_what_is_there(desk: SftpBench, odd: Odd, oddity: str) -> None:
    """Without posix-rename a RENAME onto a file is refused: the old one steps aside first."""
    there = desk.give(odd.server, 1000, version=2)
    done(desk.put(desk.source(2000), odd.server, there, login=oddity))
    assert digests(there.parent) == {"file": sha256(2000)}


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "no-sync"])
def test_the_server_writes_to_its_disk_before_the_name(desk: SftpBench, odd: Odd, sync: bool) -> None:
    there = desk.remote(odd.server) / "file"
    done(desk.put(desk.source(SIZE), odd.server, there, *(() if sync else ("--no-sync",)), login="honest"))
    extended = [ask["path"] for ask in odd.asked() if ask["kind"] == "EXTENDED"]
    assert ("fsync@openssh.com" in extended) is sync
    renames = [at for at, ask in enumerate(odd.asked()) if ask["path"] == "posix-rename@openssh.com"]
    writes = [at for at, ask in enumerate(odd.asked()) if ask["kind"] == "WRITE"]
    assert len(renames) == 1
    assert writes[-1] < renames[0]


def test_limits_are_kept(desk: SftpBench, odd: Odd) -> None:
    there = desk.give(odd.server, SIZE)
    done(desk.get(odd.server, there, login="tiny"))
    done(desk.put(desk.source(SIZE), odd.server, there, login="tiny"))
    assert max(ask["length"] for ask in odd.asked() if ask["kind"] in ("READ", "WRITE")) == 4096
    assert odd.asked("refused") == []


def test_small_requests_where_a_server_tells_no_limits(desk: SftpBench, odd: Odd) -> None:
    there = desk.give(odd.server, SIZE)
    done(desk.get(odd.server, there, login="bare"))
    done(desk.put(desk.source(SIZE), odd.server, there, login="bare"))
    assert max(ask["length"] for ask in odd.asked() if ask["kind"] in ("READ", "WRITE")) == 32_768


@dataclass(frozen=True)
class Failure:
    """Both ways, whatever is tried. `ways` where it can happen in one only."""

    oddity: str
    kind: str
    flags: tuple[str, ...] = ()
    ways: tuple[str, ...] = ("get", "put")

    def __str__(self) -> str:
        return self.oddity


FAILURES = (
    # A broken protocol
    Failure("version-2", "integrity"),
    Failure("version-6", "integrity"),
    Failure("unknown-id", "integrity"),
    Failure("wrong-type", "integrity"),
    Failure("garbage", "integrity"),
    Failure("endless-packet", "integrity"),
    Failure("long-data", "integrity", ways=("get",)),
    Failure("empty-data", "integrity", ways=("get",)),
    # Not what was announced
    Failure("eof-early", "integrity", ways=("get",)),
    Failure("boasts", "integrity", ways=("get",)),
    Failure("empty-before", "integrity", ways=("get",)),
    Failure("shrinks", "integrity", ways=("get",)),
    # It goes away
    Failure("closes-channel", "transient"),
    Failure("closes-connection", "transient"),
    Failure("disconnects", "transient"),
    Failure("stall", "transient", STALL),
    Failure("silent", "transient", ("--timeout-first-byte", "2s")),
    # It says no
    Failure("no-space", "permanent"),
    Failure("denied", "permanent"),
    Failure("no-channel", "permanent"),
    Failure("no-subsystem", "permanent"),
)


@pytest.mark.parametrize(("row", "way"), [(row, way) for row in FAILURES for way in row.ways], ids=str)
def test_failure(desk: SftpBench, odd: Odd, row: Failure, way: str) -> None:
    folder = desk.remote(odd.server)
    if way == "get":
        told = desk.get(odd.server, desk.give(odd.server, SIZE), *row.flags, *BRIEFLY, login=row.oddity)
        assert "file" not in digests(desk.folder)
    else:
        told = desk.put(desk.source(SIZE), odd.server, folder / "file", *row.flags, *BRIEFLY, login=row.oddity)
        assert not (folder / "file").exists()
    failed(told, row.kind)
    tries = 3 if row.kind == "transient" else 1
    # What the server confirmed before it went need not come again, and earns fresh retries; how much that is, is chance.
    went_on = len({attempt["offset"] for attempt in told.attempts}) > 1
    assert len(told.attempts) >= tries if went_on else len(told.attempts) == tries
    if row.kind == "permanent" and way == "put":
        # A server that does not speak the protocol cannot even be asked to remove a file.
        assert until_gone(folder) == []
    if row.kind == "integrity" and way == "get":
        # Data from before a refusal is still valid; data from a server that breaks the protocol is not.
        assert desk.files() == {}


@pytest.mark.parametrize("way", ["get", "put"])
def test_a_reply_that_comes_twice(desk: SftpBench, odd: Odd, way: str) -> None:
    """The second answer has no request: whatever else that server says is not believed either."""
    there = desk.remote(odd.server) / "file"
    if way == "get":
        told = desk.get(odd.server, desk.give(odd.server, SIZE), *BRIEFLY, login="duplicate")
        found = desk.files()
    else:
        told = desk.put(desk.source(SIZE), odd.server, there, *BRIEFLY, login="duplicate")
        found = digests(there.parent)
    failed(told, "integrity")
    assert len(told.attempts) == 1
    assert "file" not in found


@pytest.mark.parametrize("way", ["get", "put"])
@pytest.mark.parametrize("oddity", ["closes-channel", "closes-connection", "disconnects", "stall"])
def test_recovery(desk: SftpBench, odd: Odd, oddity: str, way: str) -> None:
    login = f"{oddity}.once.{desk.word}"
    there = desk.remote(odd.server) / "file"
    if way == "get":
        told = desk.get(odd.server, desk.give(odd.server, SIZE), *STALL, *BRIEFLY, "--checksum", "sha256", login=login)
        assert desk.files() == {"file": sha256(SIZE)}
        assert told.transfer["checksum"] == f"sha256:{sha256(SIZE)}"
    else:
        told = desk.put(desk.source(SIZE), odd.server, there, *STALL, *BRIEFLY, login=login)
        assert digests(there.parent) == {"file": sha256(SIZE)}
    done(told)
    assert len(odd.asked("fault")) >= 1
    first, second = told.attempts
    assert first["error"]["class"] == "transient"
    assert second["error"] is None


@pytest.mark.parametrize("oddity", ["closes-connection", "stall"])
def test_a_part_is_kept_for_resume(desk: SftpBench, odd: Odd, oddity: str) -> None:
    """The part kept is a prefix of the file without holes, although pieces may have arrived in any order."""
    there = desk.give(odd.server, SIZE)
    login = f"{oddity}.once.{desk.word}"
    failed(desk.get(odd.server, there, *ONCE, *STALL, login=login), "transient", "--resume")
    (part,) = (path for path in desk.folder.iterdir() if path.name.endswith(".ferry-partial"))
    kept = part.read_bytes()
    assert (desk.remote(odd.server) / "file").read_bytes().startswith(kept)
    assert kept
    told = desk.get(odd.server, there, "--resume", login=login)
    done(told)
    assert told.transfer["offset"] == len(kept)
    assert desk.files() == {"file": sha256(SIZE)}


def test_a_file_that_has_changed_is_not_resumed(desk: SftpBench, odd: Odd) -> None:
    there = desk.give(odd.server, SIZE)
    login = f"closes-connection.once.{desk.word}"
    failed(desk.get(odd.server, there, *ONCE, login=login), "transient", "--resume")
    desk.give(odd.server, SIZE + 1, version=2)
    told = desk.get(odd.server, there, "--resume", login=login)
    done(told)
    assert told.transfer["offset"] == 0
    assert desk.files() == {"file": sha256(SIZE + 1, 2)}


def test_a_file_that_grows(desk: SftpBench, odd: Odd) -> None:
    """ferry looks again at the end: as many bytes as STAT announced are a file that has never been."""
    told = desk.get(odd.server, desk.give(odd.server, SIZE), *ONCE, login="grows")
    failed(told, "integrity")
    assert "file" not in desk.files()


def test_channels_that_are_refused(desk: SftpBench, odd: Odd) -> None:
    """ferry requests no more channels than it needs, and reports the refused ones."""
    there = desk.remote(odd.server) / "file"
    told = desk.put(desk.source(SIZE), odd.server, there, login="one-channel")
    done(told)
    assert told.report["ssh"]["channels"] == 1
    assert told.report["ssh"]["channels_refused"] == len(odd.asked("channel refused"))
    assert digests(there.parent) == {"file": sha256(SIZE)}


def test_of_a_failed_upload_nothing_is_left(desk: SftpBench, odd: Odd) -> None:
    there = desk.give(odd.server, 1000, version=2)
    told = desk.put(desk.source(SIZE), odd.server, there, login="no-space")
    failed(told, "permanent", "Failure")
    assert until_gone(there.parent) == []
    assert digests(there.parent) == {"file": sha256(1000, 2)}


def test_no_round_trip_that_is_not_forced(desk: SftpBench, odd: Odd) -> None:
    """INIT, limits, STAT and OPEN; no REALPATH, no second STAT of one download."""
    done(desk.get(odd.server, desk.give(odd.server, 1000), login="honest"))
    kinds = [ask["kind"] for ask in odd.asked()]
    assert "REALPATH" not in kinds
    assert kinds.count("OPEN") == 1
    assert sum(kinds.count(kind) for kind in ("STAT", "LSTAT", "FSTAT")) <= 2
    assert left_over(desk.remote(odd.server)) == []


# Servers that do more than they are asked, or less


@pytest.mark.parametrize("how", ["retry", "resume"])
def test_what_is_there_is_not_cut(desk: SftpBench, odd: Odd, how: str) -> None:
    """To set a size, paramiko's helper empties the file before: what was acknowledged would be zeros."""
    there = desk.remote(odd.server) / "file"
    if how == "retry":
        size = SIZE
        told = desk.put(desk.source(size), odd.server, there, *BRIEFLY, login=f"sizes-empty-closes.once.{desk.word}")
        assert len(told.attempts) == 2
    else:
        size = 40 * MIB
        failed(desk.put(desk.source(size), odd.server, there, *ONCE, *STALL, login="holds-first"), "transient")
        (part,) = left_over(there.parent)
        # As a run leaves it that was killed later.
        write(there.parent / part, content(size)[: 36 * MIB])
        (there.parent / part).chmod(0o666)
        told = desk.put(desk.folder / "source", odd.server, there, "--resume", login="sizes-empty")
    done(told)
    assert told.attempts[-1]["offset"] > 0
    assert digests(there.parent) == {"file": sha256(size)}


@pytest.mark.parametrize("there_before", [False, True], ids=["new", "replaced"])
def test_a_server_that_removes_nothing(desk: SftpBench, odd: Odd, there_before: bool) -> None:
    """The file has its name, which is what was asked for."""
    there = desk.remote(odd.server) / "file"
    if there_before:
        desk.give(odd.server, 1000, version=2)
    done(desk.put(desk.source(SIZE), odd.server, there, login="no-remove"))
    found = digests(there.parent)
    assert found.pop("file") == sha256(SIZE)
    assert list(found.values()) == ([sha256(1000, 2)] if there_before else [])
    assert len([ask for ask in odd.asked() if ask["kind"] == "REMOVE"]) == there_before


def test_a_file_keeps_its_name_in_a_directory_without_a_slash(desk: SftpBench, odd: Odd) -> None:
    """As scp, sftp and rsync do it, and without a round trip more for who names a file."""
    folder = desk.remote(odd.server) / "folder"
    folder.mkdir()
    told = desk.put(desk.source(SIZE), odd.server, folder, login="honest")
    done(told)
    assert digests(folder.parent) == {"folder/source": sha256(SIZE)}
    odd.mark()
    done(desk.put(desk.folder / "source", odd.server, folder.parent / "file", login="honest"))
    kinds = [ask["kind"] for ask in odd.asked()]
    begin = kinds.index("STAT")
    assert kinds[begin : begin + 3] == ["STAT", "LSTAT", "OPEN"]
    assert kinds.count("OPEN") == 1


def test_a_directory_in_the_place_of_a_file_costs_no_transfer(desk: SftpBench, odd: Odd) -> None:
    folder = desk.remote(odd.server) / "folder"
    (folder / "source").mkdir(parents=True)
    failed(desk.put(desk.source(SIZE), odd.server, folder, login="honest"), "permanent", "is a directory")
    assert [ask for ask in odd.asked() if ask["kind"] == "WRITE"] == []
    assert left_over(folder.parent) == []


@pytest.mark.parametrize("oddity", ["few-handles", "few-handles-told", "one-handle"])
def test_no_more_files_are_open_than_the_server_takes(desk: SftpBench, odd: Odd, oddity: str) -> None:
    for number in range(60):
        desk.write(f"tree/{number % 5}/{number:02}", content(2000 + number))
    expected = digests(desk.folder / "tree")
    there = desk.remote(odd.server) / "tree"
    done(desk.put(desk.folder / "tree", odd.server, f"{there}/", login=oddity))
    assert digests(there) == expected
    done(desk.get(odd.server, there, "-r", output="back", login=oddity))
    assert digests(desk.folder / "back") == expected
    assert left_over(there) == []


def test_files_that_cannot_be_opened_do_not_hold_up_the_others(desk: SftpBench, odd: Odd) -> None:
    """The status is that of a server that is short of handles."""
    tree = desk.remote(odd.server) / "tree"
    tree.mkdir()
    for number in range(40):
        write(tree / f"{number:02}", content(1000))
    for number in range(5):
        (tree / f"loop-{number}").symlink_to(f"loop-{number}")
    told = desk.get(odd.server, tree, "-r", output="back", login="honest")
    assert len(digests(desk.folder / "back")) == 40
    assert told.code in (0, 11)
