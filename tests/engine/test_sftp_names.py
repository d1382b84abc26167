"""Names on a server that would read as others on a terminal: they are transferred as they are, and shown escaped."""

from __future__ import annotations

import pytest

from tests.engine.sftp_harness import ONCE, SftpBench
from tests.engine.sftp_servers import SftpServer

# Right to left from here: reads as "photoexe.png".
SPOOFED = "photo\u202egnp.exe"
SHOWN = r"photo\u{202e}gnp.exe"


@pytest.mark.parametrize("way", ["dry-run", "delete", "filtered", "blocked"])
def test_a_name_cannot_reorder_a_line(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    there, here = desk.remote(openssh) / "tree", desk.folder / "tree"
    for folder in (there, here):
        folder.mkdir()
        (folder / "other").write_bytes(b"x")
        folder.chmod(0o777)
    words = ["get", "-r", openssh.url(f"{there}/"), "-o", "tree", "-vv", "--mirror", "--overwrite", *ONCE, *desk.trust(openssh)]
    if way == "delete":
        (here / SPOOFED).write_bytes(b"x")
        words.append("--delete")
    else:
        (there / SPOOFED).write_bytes(b"x")
    if way == "dry-run":
        words.append("--dry-run")
    elif way == "filtered":
        words = ["put", str(there), openssh.url(f"{there}-again/"), "-vv", "--exclude", "*.exe", *ONCE, *desk.trust(openssh)]
    elif way == "blocked":
        (here / SPOOFED).mkdir()
    code, _, stderr = desk.start(*words, json=False, dropped=False).ended()
    said = stderr.decode()
    assert code == (13 if way == "blocked" else 0), said
    assert "\u202e" not in said
    assert SHOWN in said
    if way == "delete":
        assert not (here / SPOOFED).exists()


def test_such_a_name_arrives_as_it_is(desk: SftpBench, openssh: SftpServer) -> None:
    there = desk.remote(openssh) / "tree"
    there.mkdir()
    (there / SPOOFED).write_bytes(b"x")
    code, _, stderr = desk.start("get", "-r", openssh.url(f"{there}/"), "-o", "tree", *desk.trust(openssh), json=False).ended()
    assert code == 0, stderr
    assert (desk.folder / "tree" / SPOOFED).read_bytes() == b"x"
