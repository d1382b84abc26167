"""Local files that ferry makes: who may read them while they come, and names that were taken before."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from tests.engine.harness import EXIT_CODES, failed
from tests.engine.test_hostile_http import BODY, arrived, get
from tests.support.hostile_http import HostileServer, Talk, head, serve
from tests.support.waiting import until

VALIDATOR = 'ETag: "one"'


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def honest(talk: Talk, _: HostileServer) -> None:
    talk.request()
    talk.send(head("200 OK", len(BODY), VALIDATOR) + BODY)


# Who may read a file while it comes


@pytest.mark.parametrize(("umask", "old", "final"), [(0o022, None, 0o644), (0o077, None, 0o600), (0o002, 0o640, 0o640)])
def test_a_file_that_comes_is_its_owners(tmp_path: Path, umask: int, old: int | None, final: int) -> None:
    file, report = tmp_path / "file", tmp_path / "report"
    if old is not None:
        for path in (file, report):
            path.write_bytes(b"old")
            path.chmod(old)
    seen: dict[str, int] = {}

    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.send(head("200 OK", len(BODY), VALIDATOR) + BODY[:1000])
        until((tmp_path / ".file.ferry-partial.json").exists, "the download has begun")
        seen.update((path.name, mode(path)) for path in tmp_path.glob(".file*"))
        talk.send(BODY[1000:])

    with serve(script) as server:
        told = get(tmp_path, server, "--overwrite", umask=umask)
        arrived(tmp_path, told)
        command = [str(find_ferry()), "get", server.url(), "-o", "file", "--retry", "0", "--json", "report"]
        assert (
            subprocess.run(command, cwd=tmp_path, umask=umask, capture_output=True, check=False).returncode == EXIT_CODES["local"]
        )
    assert seen == {".file.ferry-partial": 0o600, ".file.ferry-partial.json": 0o600}
    assert (mode(file), mode(report)) == (final, final)


def test_a_file_in_a_shared_folder_is_shared(tmp_path: Path) -> None:
    """A default access list takes the place of the umask, as for every file that `open` makes there."""
    try:
        # Version 2; owner rwx, group r-x, user 1234 rwx, mask rwx, others none.
        entries = ((0x01, 7, -1), (0x02, 7, 1234), (0x04, 5, -1), (0x10, 7, -1), (0x20, 0, -1))
        packed = b"".join(part.to_bytes(2, "little") for part in (2, 0))
        for tag, bits, who in entries:
            packed += tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little", signed=True)
        os.setxattr(tmp_path, "system.posix_acl_default", packed)
    except OSError:
        pytest.skip("this file system has no access lists")
    with serve(honest) as server:
        arrived(tmp_path, get(tmp_path, server, umask=0o077))
    assert mode(tmp_path / "file") == 0o660


# Names that were taken before


def link(victim: Path, name: Path) -> None:
    name.symlink_to(victim)


def second_name(victim: Path, name: Path) -> None:
    name.hardlink_to(victim)


PLANTS = pytest.mark.parametrize("plant", [link, second_name])


@PLANTS
def test_a_report_is_not_written_through_a_planted_name(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "plant").write_text(f"import os; os.{'sym' if plant is link else ''}link('victim', f'.j.{{os.getppid()}}.tmp')")
    # The shell plants the name that its own process, ferry then, will choose.
    script = 'python3 plant; exec "$0" get http://127.0.0.1:9/x -O --retry 0 --json j'
    subprocess.run(["/bin/sh", "-c", script, find_ferry()], cwd=tmp_path, capture_output=True, check=False)
    assert victim.read_bytes() == b"mine"
    assert b'"exit_code"' in (tmp_path / "j").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j", "plant", "victim"]


@PLANTS
@pytest.mark.parametrize("name", [".file.ferry-partial", ".file.ferry-partial.json", ".file.ferry-partial.json.new"])
def test_a_download_is_not_written_through_a_planted_name(tmp_path: Path, name: str, plant: Callable[[Path, Path], None]) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    plant(victim, tmp_path / name)
    with serve(honest) as server:
        told = get(tmp_path, server, "--retry", "0")
    assert victim.read_bytes() == b"mine"
    if name == ".file.ferry-partial":
        failed(told, "local", name)
        assert not (tmp_path / "file").exists()
    else:
        arrived(tmp_path, told)
        assert (tmp_path / "file").stat().st_nlink == 1


def test_a_pipe_in_the_place_of_a_partial_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".file.ferry-partial")
    with serve(honest) as server:
        failed(get(tmp_path, server, "--retry", "0"), "local", ".file.ferry-partial")
