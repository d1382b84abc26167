"""`put` of one file onto a symbolic link: the link stays, and the file that it leads to is replaced at once, as `get` does it."""

from __future__ import annotations

import pytest

from tests.engine.harness import failed
from tests.engine.sftp_harness import SftpBench, digests, done, sha256, until_gone
from tests.engine.sftp_servers import Odd, SftpServer

SIZE = 30_000


@pytest.mark.parametrize("link", ["absolute", "relative", "of a link"])
def test_a_link_stays_a_link(desk: SftpBench, openssh: SftpServer, link: str) -> None:
    folder = desk.remote(openssh)
    there = desk.give(openssh, 1000, name="releases", version=2)
    named = folder / "named"
    if link == "of a link":
        (folder / "between").symlink_to("releases")
    named.symlink_to({"absolute": there, "relative": "releases", "of a link": "between"}[link])
    before = named.readlink()
    done(desk.put(desk.source(SIZE), openssh, named))
    assert named.readlink() == before
    assert digests(folder) == {"releases": sha256(SIZE)}
    assert until_gone(folder) == []


def test_a_link_in_a_directory_that_the_url_names(desk: SftpBench, openssh: SftpServer) -> None:
    folder = desk.remote(openssh)
    (folder / "source").symlink_to("real")
    (folder / "real").write_bytes(b"old")
    (folder / "real").chmod(0o666)
    done(desk.put(desk.source(SIZE), openssh, folder))
    assert (folder / "source").is_symlink()
    assert digests(folder) == {"real": sha256(SIZE)}


def test_a_link_that_leads_nowhere_is_refused(desk: SftpBench, openssh: SftpServer) -> None:
    folder = desk.remote(openssh)
    (folder / "named").symlink_to("nowhere")
    failed(desk.put(desk.source(SIZE), openssh, folder / "named"), "permanent", "leads nowhere")
    assert (folder / "named").is_symlink()
    assert until_gone(folder) == []


def test_a_link_in_a_tree_is_replaced(desk: SftpBench, openssh: SftpServer) -> None:
    """As by rsync: a tree says what has which name, and nothing outside is written to."""
    folder = desk.remote(openssh)
    outside = desk.give(openssh, 1000, name="outside", version=2)
    (folder / "tree").mkdir()
    (folder / "tree").chmod(0o777)
    (folder / "tree" / "file").symlink_to(outside)
    desk.source(SIZE, name="tree/file")
    done(desk.put(desk.folder / "tree", openssh, folder / "tree"))
    assert not (folder / "tree" / "file").is_symlink()
    assert digests(folder) == {"outside": sha256(1000, 2), "tree/file": sha256(SIZE)}


def test_a_server_that_resolves_nothing_replaces_the_link(desk: SftpBench, odd: Odd) -> None:
    """Its REALPATH names the link again: better a new file than none."""
    folder = desk.remote(odd.server)
    (folder / "named").symlink_to("real")
    (folder / "real").write_bytes(b"old")
    done(desk.put(desk.source(SIZE), odd.server, folder / "named", login="honest"))
    assert not (folder / "named").is_symlink()
    assert digests(folder)["named"] == sha256(SIZE)
