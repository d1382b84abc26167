"""Many files at once: trees, names that lead elsewhere, special files, unreadable files."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.engine.harness import EXIT_CODES, Told, failed
from tests.engine.sftp_harness import SftpBench, content, digests, done, left_over, sha256, until_gone
from tests.engine.sftp_servers import Odd, SftpServer, person

FEW = 12


def tree_there(desk: SftpBench, server: SftpServer, count: int = FEW) -> Path:
    """Make a tree of `count` files on the server and return its root."""
    root = desk.remote(server) / "tree"
    (root / "sub" / "deeper").mkdir(parents=True)
    for number in range(count):
        path = root / ("", "sub", "sub/deeper")[number % 3] / f"file-{number:02}"
        path.write_bytes(content(1000 + number, version=number))
    for path in [root, *root.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
        person().owns(path)
    return root


def get_tree(desk: SftpBench, server: SftpServer, root: Path, *words: str, login: str = "") -> Told:
    return desk.run("get", "-r", server.url(f"{root}/", login=login), "--output", "back", *desk.trust(server), *words)


def by_url(told: Told) -> dict[str, dict[str, object]]:
    return {str(transfer["url"]).rsplit("/", 1)[1]: transfer for transfer in told.report["transfers"]}


def test_one_file_that_may_not_be_read(desk: SftpBench, openssh: SftpServer) -> None:
    root = tree_there(desk, openssh)
    expected = {name: digest for name, digest in digests(root).items() if name != "sub/file-04"}
    (root / "sub" / "file-04").chmod(0)
    told = get_tree(desk, openssh, root)
    assert told.code == EXIT_CODES["permanent"]
    assert told.report["ok"] is False
    assert digests(desk.folder / "back") == expected
    errors = {name: transfer["error"] for name, transfer in by_url(told).items() if transfer.get("error")}
    assert list(errors) == ["file-04"]
    assert errors["file-04"]["class"] == "permanent"  # type: ignore[index]


def test_one_file_that_may_not_be_written(desk: SftpBench, openssh: SftpServer) -> None:
    root = tree_there(desk, openssh)
    shutil.copytree(root, desk.folder / "tree")
    for path in [desk.folder / "tree", *(desk.folder / "tree").rglob("*")]:
        person().owns(path)
    (desk.folder / "tree" / "sub" / "file-04").chmod(0)
    there = desk.remote(openssh) / "new"
    told = desk.put(desk.folder / "tree", openssh, f"{there}/")
    assert told.code == EXIT_CODES["local"]
    expected = {name: digest for name, digest in digests(root).items() if name != "sub/file-04"}
    assert digests(there) == expected
    assert until_gone(there) == []


def test_the_worst_failure_is_the_exit_code(desk: SftpBench, openssh: SftpServer) -> None:
    """Permanent there, local here, and everything else arrives."""
    root = tree_there(desk, openssh)
    (root / "file-00").chmod(0)
    desk.write("back/sub/file-04", b"mine")
    told = get_tree(desk, openssh, root)
    assert told.code == EXIT_CODES["local"]
    found = digests(desk.folder / "back")
    assert len(found) == FEW - 1
    assert (desk.folder / "back" / "sub" / "file-04").read_bytes() == b"mine"
    classes = {name: transfer["error"]["class"] for name, transfer in by_url(told).items() if transfer.get("error")}  # type: ignore[index]
    assert classes == {"file-00": "permanent", "file-04": "local"}


def test_a_folder_that_may_not_be_entered(desk: SftpBench, openssh: SftpServer) -> None:
    root = tree_there(desk, openssh)
    (root / "sub" / "deeper").chmod(0)
    told = get_tree(desk, openssh, root)
    (root / "sub" / "deeper").chmod(0o777)
    assert told.code == EXIT_CODES["permanent"]
    expected = {name: digest for name, digest in digests(root).items() if not name.startswith("sub/deeper/")}
    assert digests(desk.folder / "back") == expected


@pytest.mark.parametrize("way", ["get", "put"])
def test_special_files(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    """A pipe would be read for ever, a link may lead out of the tree or around it: none of them keeps the files from arriving."""
    root = tree_there(desk, openssh)
    if way == "put":
        shutil.copytree(root, desk.folder / "tree")
    here = root if way == "get" else desk.folder / "tree"
    expected = digests(here)
    os.mkfifo(here / "pipe", 0o666)
    (here / "loop").symlink_to("..")
    (here / "dangling").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as sock:
        cwd = Path.cwd()
        os.chdir(here)
        sock.bind("socket")
        os.chdir(cwd)
    for path in [here, *here.rglob("*")]:
        os.chown(path, person().uid, person().gid, follow_symlinks=False)
    if way == "get":
        told = get_tree(desk, openssh, root)
        arrived = desk.folder / "back"
    else:
        arrived = desk.remote(openssh) / "new"
        told = desk.put(here, openssh, f"{arrived}/")
    found = digests(arrived)
    assert {name: found.get(name) for name in expected} == expected, told.report.get("error")
    assert "pipe" not in found
    assert not any(name.startswith("loop/") for name in found)
    assert left_over(arrived) == []


def test_a_name_with_a_line_feed(desk: SftpBench, openssh: SftpServer) -> None:
    """No name for a report or a terminal: it is refused, and the others arrive."""
    root = tree_there(desk, openssh, 3)
    expected = digests(root)
    (root / "two\nlines").write_bytes(b"")
    told = get_tree(desk, openssh, root)
    assert told.code == EXIT_CODES["permanent"]
    assert digests(desk.folder / "back") == expected


HOSTILE = ("name-dots", "name-up", "name-slash", "name-absolute", "name-empty", "name-nul")


@pytest.mark.parametrize("oddity", HOSTILE)
def test_names_that_lead_elsewhere(desk: SftpBench, odd: Odd, oddity: str) -> None:
    root = tree_there(desk, odd.server)
    expected = digests(root)
    told = get_tree(desk, odd.server, root, login=oddity)
    found = digests(desk.folder)
    assert not [name for name in found if "escaped" in name], found
    assert not Path("/tmp/roughwater-test-escaped").exists()
    assert not (desk.folder.parent / "escaped").exists()
    if oddity == "name-dots":
        # Every folder has that name; no file has it.
        done(told)
    else:
        assert told.code == EXIT_CODES["permanent"], told.report
        [refused] = [transfer["error"] for transfer in by_url(told).values() if transfer.get("error")]
        assert refused["class"] == "permanent"  # type: ignore[index]
    assert {name.removeprefix("back/"): digest for name, digest in found.items()} == expected, "the others arrive"


def test_a_name_that_comes_twice(desk: SftpBench, odd: Odd) -> None:
    root = tree_there(desk, odd.server)
    told = get_tree(desk, odd.server, root, login="name-twice")
    found = digests(desk.folder / "back")
    done(told)
    asked = [str(transfer["url"]).rsplit("/", 1)[1] for transfer in told.report["transfers"]]
    folders = ("", "sub/", "sub/deeper/")
    assert asked.count("twice") == len(folders), "once in each of them"
    assert len(asked) == told.report["set"]["files"] == FEW + len(folders)
    expected = digests(root)
    assert found.keys() == expected.keys() | {f"{folder}twice" for folder in folders}
    assert {name: found[name] for name in expected} == expected


def test_a_name_that_is_not_utf_8(desk: SftpBench, odd: Odd) -> None:
    root = tree_there(desk, odd.server, 3)
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))).write_bytes(content(500))
    told = get_tree(desk, odd.server, root, login="honest")
    done(told)
    assert b"caf\xe9" in {os.fsencode(path.name) for path in (desk.folder / "back").iterdir()}


def test_an_empty_file_is_asked_for_once(desk: SftpBench, odd: Odd) -> None:
    """Its size may be unknown (/proc has such files), but ferry must not ask for megabytes."""
    done(desk.get(odd.server, desk.give(odd.server, 0), login="honest"))
    assert len([ask for ask in odd.asked() if ask["kind"] == "READ"]) <= 4


def test_five_thousand_names(desk: SftpBench, odd: Odd) -> None:
    """A listing comes in pieces; every name of it becomes a file."""
    root = desk.remote(odd.server) / "tree"
    root.mkdir()
    for number in range(5000):
        (root / f"{number:04}").touch()
    told = get_tree(desk, odd.server, root, login="honest")
    done(told)
    assert told.report["set"]["files"] == 5000
    assert sorted(path.name for path in (desk.folder / "back").iterdir()) == [f"{number:04}" for number in range(5000)]


@pytest.mark.parametrize("oddity", ["unordered", "random-reads", "tiny", "bare", "one-channel"])
def test_a_set_and_an_odd_server(desk: SftpBench, odd: Odd, oddity: str) -> None:
    root = tree_there(desk, odd.server)
    expected = digests(root)
    done(get_tree(desk, odd.server, root, login=oddity))
    assert digests(desk.folder / "back") == expected
    there = desk.remote(odd.server) / "new"
    done(desk.put(desk.folder / "back", odd.server, f"{there}/", login=oddity))
    assert digests(there) == expected


def test_a_set_on_a_connection_that_ends(desk: SftpBench, odd: Odd) -> None:
    root = tree_there(desk, odd.server)
    (root / "big").write_bytes(content(3_000_000))
    expected = digests(root)
    told = get_tree(
        desk, odd.server, root, "--retry", "2", "--retry-max-wait", "50ms", login=f"closes-connection.once.{desk.word}"
    )
    done(told)
    assert digests(desk.folder / "back") == expected
    assert len(by_url(told)["big"]["attempts"]) == 2  # type: ignore[arg-type]


def test_a_set_is_resumed(desk: SftpBench, odd: Odd) -> None:
    """A file that was cut short goes on where it ended; complete files are fetched again, as `--overwrite` says."""
    root = tree_there(desk, odd.server)
    (root / "big").write_bytes(content(3_000_000))
    expected = digests(root)
    login = f"closes-connection.once.{desk.word}"
    assert get_tree(desk, odd.server, root, "--retry", "0", login=login).code == EXIT_CODES["transient"]
    (part,) = (path for path in (desk.folder / "back").rglob("*") if path.name.endswith(".ferry-partial"))
    kept = part.stat().st_size
    told = get_tree(desk, odd.server, root, "--resume", "--overwrite", login=login)
    done(told)
    assert digests(desk.folder / "back") == expected
    big = by_url(told)["big"]
    assert (big["offset"], big["bytes"]) == (kept, 3_000_000 - kept)
    assert kept > 0


def test_an_empty_tree(desk: SftpBench, openssh: SftpServer) -> None:
    root = desk.remote(openssh) / "tree"
    (root / "empty").mkdir(parents=True)
    told = get_tree(desk, openssh, root)
    assert told.code == 0, told.report
    assert (desk.folder / "back").is_dir()
    assert digests(desk.folder) == {}


def test_a_tree_that_is_not_there(desk: SftpBench, openssh: SftpServer) -> None:
    told = get_tree(desk, openssh, desk.remote(openssh) / "nowhere")
    failed(told, "permanent", "nowhere")
    assert digests(desk.folder) == {}


@pytest.mark.parametrize("inner_first", [False, True])
@pytest.mark.parametrize("login", ["honest", "closes-connection.once"])
def test_a_tree_inside_of_another(desk: SftpBench, odd: Odd, login: str, inner_first: bool) -> None:
    """The files of both go to two places, also by way of a second connection."""
    root = tree_there(desk, odd.server)
    (root / "sub" / "deeper" / "big").write_bytes(content(3_000_000))
    expected = {f"back/{path.name}/{name}": digest for path in (root, root / "sub") for name, digest in digests(path).items()}
    urls = [odd.server.url(path, login=f"{login}.{desk.word}") for path in (root, root / "sub")]
    words = ["--output", "back/", "--retry", "2", "--retry-max-wait", "50ms", *desk.trust(odd.server)]
    told = desk.run("get", "-r", *(reversed(urls) if inner_first else urls), *words)
    done(told)
    assert desk.files() == expected
    assert told.report["set"]["files"] == len(expected)


def test_several_urls(desk: SftpBench, openssh: SftpServer) -> None:
    """Even a missing file: only that one fails."""
    names = [desk.give(openssh, 1000 + number, f"file-{number}", number) for number in range(3)]
    urls = [openssh.url(path) for path in [*names, desk.remote(openssh) / "nothing"]]
    told = desk.run("get", "-O", *urls, *desk.trust(openssh))
    assert told.code == EXIT_CODES["permanent"]
    assert [bool(transfer.get("error")) for transfer in told.report["transfers"]] == [False, False, False, True]
    assert desk.files() == {f"file-{number}": sha256(1000 + number, number) for number in range(3)}
