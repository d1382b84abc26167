"""Findings of the review of ferry's SFTP, each against the program: a user's files, the memory, the terminal."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.harness import EXIT_CODES, failed, is_one_clear_line
from tests.engine.sftp_harness import MIB, ONCE, SftpBench, content, digests, done, left_over, sha256, until_gone
from tests.engine.sftp_servers import Odd, SftpServer, person, write
from tests.engine.test_sftp_sets import by_url, get_tree, tree_there
from tests.support.waiting import until

KIB = 1 << 10
# What a resumed upload sends again at most: the span that unacknowledged bytes may have, and the largest piece.
OVERLAP = 32 * MIB + 255 * KIB
STALL = ("--stall", "2s")


def contents(folder: Path) -> set[str]:
    return set(digests(folder).values())


# 1: the file that is replaced


@pytest.mark.parametrize("oddity", ["rename-fails", "rename-part-fails"])
def test_the_old_file_stays_when_the_new_one_cannot_get_its_name(desk: SftpBench, odd: Odd, oddity: str) -> None:
    there = desk.give(odd.server, 1000, version=2)
    failed(desk.put(desk.source(2000), odd.server, there, login=oddity), "permanent", "Failure")
    assert until_gone(there.parent) == []
    assert digests(there.parent) == {"file": sha256(1000, 2)}
    assert [ask for ask in odd.asked() if ask["kind"] == "REMOVE" and ask["path"] == str(there)] == []


def test_no_file_is_lost_when_the_connection_ends_between_the_renames(desk: SftpBench, odd: Odd) -> None:
    there = desk.give(odd.server, 1000, version=2)
    failed(desk.put(desk.source(2000), odd.server, there, *ONCE, login="rename-gone"), "transient")
    assert contents(there.parent) == {sha256(1000, 2), sha256(2000)}
    # The same again on a server that works: the new file is in place, and nothing else is left.
    done(desk.put(desk.folder / "source", odd.server, there, "--resume", login="bare"))
    assert until_gone(there.parent) == []
    assert digests(there.parent) == {"file": sha256(2000)}


def test_a_replaced_file_is_removed_last(desk: SftpBench, odd: Odd) -> None:
    there = desk.give(odd.server, 1000, version=2)
    done(desk.put(desk.source(2000), odd.server, there, login="bare"))
    assert digests(there.parent) == {"file": sha256(2000)}
    kinds = [ask["kind"] for ask in odd.asked() if ask["kind"] in ("RENAME", "REMOVE")]
    assert kinds.index("REMOVE") > max(at for at, kind in enumerate(kinds) if kind == "RENAME")


# 2: the resumed upload


def test_a_piece_that_never_arrived_is_not_below_the_resume_point(desk: SftpBench, odd: Odd) -> None:
    size = 40 * MIB
    there = desk.remote(odd.server) / "file"
    failed(desk.put(desk.source(size), odd.server, there, *ONCE, *STALL, login="holds-first"), "transient")
    (part,) = left_over(there.parent)
    found = (there.parent / part).stat().st_size
    assert found > 30 * MIB
    assert not (there.parent / part).read_bytes().startswith(content(1000))
    done(desk.put(desk.folder / "source", odd.server, there, "--resume", login="honest"))
    assert digests(there.parent) == {"file": sha256(size)}


def test_a_resumed_upload_sends_what_is_missing_and_the_overlap(desk: SftpBench, odd: Odd) -> None:
    size, kept = 100 * MIB, 80 * MIB
    there = desk.remote(odd.server) / "file"
    # A run that is cut short gives the part its name.
    failed(desk.put(desk.source(size), odd.server, there, *ONCE, *STALL, login="holds-first"), "transient")
    (part,) = left_over(there.parent)
    write(there.parent / part, content(size)[:kept])
    (there.parent / part).chmod(0o666)
    odd.mark()
    told = desk.put(desk.folder / "source", odd.server, there, "--resume", login="honest")
    done(told)
    sent = sum(ask["length"] for ask in odd.asked() if ask["kind"] == "WRITE")
    assert told.transfer["offset"] >= kept - OVERLAP
    assert sent <= 1.05 * (size - kept) + OVERLAP
    assert digests(there.parent) == {"file": sha256(size)}


# --max-filesize, and what ends a run from outside


@dataclass(frozen=True)
class Size:
    name: str
    login: str
    most: int
    right: bool


SIZES = (
    Size("announced", "honest", 99_999, False),
    Size("announced-and-right", "honest", 100_000, True),
    # The file becomes twice as long while it is read.
    Size("grows", "grows", 199_999, False),
)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_file_that_is_too_large_is_refused(desk: SftpBench, odd: Odd, size: Size) -> None:
    there = desk.give(odd.server, 100_000)
    told = desk.get(odd.server, there, "--max-filesize", str(size.most), login=size.login)
    if size.right:
        done(told)
    else:
        assert told.code != 0
        assert "file" not in desk.files()
    if size.login == "honest" and not size.right:
        failed(told, "permanent", "--max-filesize")
        assert [ask for ask in odd.asked() if ask["kind"] == "READ"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_a_report(desk: SftpBench, odd: Odd, number: signal.Signals) -> None:
    there = desk.give(odd.server, 10 * MIB)
    running = desk.start(*desk.get_words(odd.server, there, login="stall"))
    until(lambda: bool(odd.asked()), "the server was asked for something")
    os.kill(running.process.pid, number)
    told = running.told()
    assert (told.code, told.error["class"]) == (128 + number, "interrupted")
    assert "file" not in desk.files()


# --remote-time

WHEN = 1_605_960_000


@pytest.mark.parametrize("words", [("--remote-time",), ()], ids=["kept", "not-kept"])
def test_times_are_kept_both_ways_where_that_is_asked_for(desk: SftpBench, openssh: SftpServer, words: tuple[str, ...]) -> None:
    there = desk.give(openssh, 100_000)
    source = desk.source(100_000)
    for path in (there, source):
        os.utime(path, (WHEN, WHEN))
    done(desk.get(openssh, there, *words))
    done(desk.put(source, openssh, there.with_name("sent"), *words))
    for path in (desk.folder / "file", there.with_name("sent")):
        assert (path.stat().st_mtime == WHEN) is bool(words), path


def test_an_upload_fails_when_the_server_refuses_to_set_the_time(desk: SftpBench, odd: Odd) -> None:
    there = desk.remote(odd.server) / "file"
    failed(desk.put(desk.source(1000), odd.server, there, "--remote-time", login="sizes-fixed"), "permanent", "--remote-time")
    assert until_gone(there.parent) == []
    assert not there.exists()


# 7: the listing


def test_a_folder_that_may_not_be_entered_does_not_stop_its_siblings(desk: SftpBench, openssh: SftpServer) -> None:
    root = tree_there(desk, openssh)
    for name in ("aaa", "sub/aaa"):
        (root / name).mkdir()
        (root / name).chmod(0)
        person().owns(root / name)
    told = get_tree(desk, openssh, root)
    for name in ("aaa", "sub/aaa"):
        (root / name).chmod(0o777)
    assert told.code == EXIT_CODES["permanent"]
    assert digests(desk.folder / "back") == digests(root)
    errors = [transfer for transfer in told.report["transfers"] if transfer.get("error")]
    assert sorted(transfer["url"].partition("/tree/")[2] for transfer in errors) == ["aaa", "sub/aaa"]
    assert {transfer["error"]["class"] for transfer in errors} == {"permanent"}


def test_a_tree_that_cannot_be_listed_leaves_the_others_their_own_places(desk: SftpBench, openssh: SftpServer) -> None:
    """Found on the way: each file of the second tree was booked as the one before it."""
    root = tree_there(desk, openssh)
    missing = openssh.url(f"{desk.remote(openssh)}/nowhere/")
    told = desk.run("get", "-r", missing, openssh.url(f"{root}/"), "-O", *desk.trust(openssh))
    assert told.code == EXIT_CODES["permanent"]
    assert len(told.report["transfers"]) == 13
    (wrong,) = [transfer["url"] for transfer in told.report["transfers"] if transfer.get("error")]
    assert wrong.endswith("/nowhere/")
    for transfer in told.report["transfers"]:
        assert transfer.get("error") or transfer["bytes"] == 1000 + int(transfer["url"][-2:])


# 8: limits


@pytest.mark.parametrize(("oddity", "way"), [("limits-read", "get"), ("limits-write", "put")])
def test_limits_of_one_byte_do_not_end_the_program(desk: SftpBench, odd: Odd, oddity: str, way: str) -> None:
    size = 5 * MIB
    if way == "get":
        told = desk.get(odd.server, desk.give(odd.server, size), login=oddity)
        assert desk.files() == {"file": sha256(size)}
    else:
        there = desk.remote(odd.server) / "file"
        told = desk.put(desk.source(size), odd.server, there, login=oddity)
        assert digests(there.parent) == {"file": sha256(size)}
    done(told)


def test_a_request_for_every_byte_does_not_end_the_program(desk: SftpBench, odd: Odd) -> None:
    """More requests in flight than there are ids for them: once an abort."""
    told = desk.get(odd.server, desk.give(odd.server, 5 * MIB), *ONCE, "--timeout-total", "15s", login="limits-read-unheard")
    failed(told, "transient", "--timeout-total")


# 13: listings without an end


def test_an_answer_without_names_ends_a_listing(desk: SftpBench, odd: Odd) -> None:
    (desk.remote(odd.server) / "tree").mkdir()
    told = get_tree(desk, odd.server, desk.remote(odd.server) / "tree", login="endless-nothing")
    assert told.code == 0, told.report


def test_a_listing_without_an_end_is_refused(desk: SftpBench, odd: Odd) -> None:
    (desk.remote(odd.server) / "tree").mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    told = get_tree(desk, odd.server, desk.remote(odd.server) / "tree", login="endless-names")
    failed(told, "permanent", "names")
    # This counts every program before ferry, too. A million names fit.
    assert max(before, 512 * KIB) >= resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


# 17, 18: names


def test_a_folder_name_does_not_steer_the_terminal(desk: SftpBench, openssh: SftpServer) -> None:
    root = tree_there(desk, openssh, 3)
    expected = digests(root)
    evil = root / "esc\x1b]0;owned\x07"
    evil.mkdir()
    evil.chmod(0)
    person().owns(evil)
    ferry = desk.start("get", "-r", openssh.url(f"{root}/"), "--output", "back", *desk.trust(openssh), "--quiet", json=True)
    code, stdout, _ = ferry.ended()
    assert (code, b"\\u001b" in stdout) == (EXIT_CODES["permanent"], False)
    ferry = desk.start("get", "-r", openssh.url(f"{root}/"), "--output", "again", *desk.trust(openssh), json=False)
    code, _, stderr = ferry.ended()
    evil.chmod(0o777)
    assert code == EXIT_CODES["permanent"]
    lines = [line for line in stderr.decode().splitlines() if "owned" in line]
    assert lines
    assert all(line.isprintable() for line in stderr.decode().splitlines()), lines
    assert digests(desk.folder / "back") == expected


def test_a_path_in_a_message_does_not_steer_the_terminal(desk: SftpBench, openssh: SftpServer) -> None:
    """The message about a tree that is too deep has the path in it."""
    path = desk.remote(openssh) / "tree"
    path.mkdir()
    for number in range(130):
        path = path / f"{number:03}\x1b"
        path.mkdir()
    ferry = desk.start(
        "get", "-r", openssh.url(f"{desk.remote(openssh)}/tree/"), "--output", "back", *desk.trust(openssh), json=False
    )
    _, _, stderr = ferry.ended()
    for line in stderr.decode().splitlines():
        is_one_clear_line(line)


@pytest.mark.parametrize("name", [".x.ferry-partial", ".x.ferry-partial.json", ".x.ferry-partial.json.new", ".X.FERRY-PARTIAL"])
def test_a_server_plants_no_partial_file(desk: SftpBench, openssh: SftpServer, name: str) -> None:
    root = tree_there(desk, openssh, 3)
    expected = digests(root)
    write(root / name, b"planted")
    told = get_tree(desk, openssh, root)
    assert told.code == EXIT_CODES["permanent"]
    assert digests(desk.folder / "back") == expected
    assert by_url(told)[name]["error"]["class"] == "permanent"  # type: ignore[index]


def test_a_planted_partial_file_is_not_fetched_by_its_url(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.give(openssh, 100, name=".x.ferry-partial")
    told = desk.run("get", "-O", openssh.url(there), *desk.trust(openssh))
    assert told.code == EXIT_CODES["usage"]
    assert desk.files() == {}


# 19: whether a part was cut


def test_a_part_is_not_cut(desk: SftpBench, odd: Odd) -> None:
    """A server that refuses to set a size, and has a part with a hole behind the place where the upload goes on."""
    size = 72 * MIB
    there = desk.remote(odd.server) / "file"
    failed(desk.put(desk.source(size), odd.server, there, *ONCE, *STALL, login="holds-first"), "transient")
    (part,) = left_over(there.parent)
    whole = content(size)
    write(there.parent / part, whole[: 10 * MIB] + bytes(20 * MIB) + whole[30 * MIB : 40 * MIB])
    (there.parent / part).chmod(0o666)
    told = desk.put(desk.folder / "source", odd.server, there, "--resume", login="sizes-fixed")
    done(told)
    assert 0 < told.transfer["offset"] <= 10 * MIB
    assert digests(there.parent) == {"file": sha256(size)}
