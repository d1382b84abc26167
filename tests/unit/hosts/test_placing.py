"""Where a client of the caller's is shown in a machine in virtual time."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lab.hosts.agent.placing import copy_files
from lab.hosts.virtual.placing import Place, place_of, readable_files

ELF = b"\x7fELF and so on"


def program(path: Path, content: bytes, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_alike_everywhere_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr/bin/env")
    for each in ("curl", "/usr/bin/env", str(tmp_path / "link"), str(tmp_path / "missing"), str(tmp_path)):
        assert place_of(each) is None


def test_a_program_is_shown_in_its_folder(tmp_path: Path) -> None:
    assert place_of(program(tmp_path / "mine" / "up", ELF)) == Place(str(tmp_path / "mine"), "up")


def test_a_program_in_bin_keeps_its_neighbours(tmp_path: Path) -> None:
    assert place_of(program(tmp_path / "mine" / "bin" / "up", ELF)) == Place(str(tmp_path / "mine"), "bin/up")


def test_a_program_that_looks_for_its_neighbours_stays(tmp_path: Path) -> None:
    assert place_of(program(tmp_path / "mine" / "up", ELF + b"$ORIGIN/../lib")) is None


def test_the_cache_is_shown_as_one(cache: Path) -> None:
    assert place_of(program(cache / "curl-8" / "bin" / "curl", ELF)) == Place(str(cache), "curl-8/bin/curl")


def test_a_scripts_folder_is_copied_without_files_that_are_not_read(tmp_path: Path) -> None:
    named = program(tmp_path / "mine" / "up.py", b"#!/usr/bin/python3\n")
    for name in ("helper.py", "data/ca.pem", ".env", ".git/config", "__pycache__/helper.pyc", "packet/sub/more.py"):
        program(tmp_path / "mine" / name, b"x", 0o644)
    for name in ("empty", "data/other", "packet/__init__.py"):
        program(tmp_path / "mine" / name, b"", 0o644)
    files = (".env", "data/ca.pem", "helper.py", "packet/__init__.py", "packet/sub/more.py", "up.py")
    assert place_of(named) == Place(str(tmp_path / "mine"), "up.py", files)


def test_results_next_to_a_script_stay_out_of_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run adds to them."""
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "mine" / "runs"))
    named = program(tmp_path / "mine" / "up.py", b"#!/usr/bin/python3\n")
    program(tmp_path / "mine" / "runs" / "one" / "run.json", b"{}", 0o644)
    assert place_of(named) == Place(str(tmp_path / "mine"), "up.py", ("up.py",))


def test_a_program_that_others_may_not_execute_is_copied(tmp_path: Path) -> None:
    assert place_of(program(tmp_path / "mine" / "up", ELF, 0o700)) == Place(str(tmp_path / "mine"), "up", ("up",))


def test_a_folder_that_is_too_large_is_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "mine" / "up.py", b"#!/usr/bin/python3\n")
    monkeypatch.setattr("lab.hosts.virtual.placing._MOST_FILES", 3)
    for number in range(3):
        program(tmp_path / "mine" / f"{number}", b"x", 0o644)
    assert readable_files(tmp_path / "mine") is None
    assert place_of(named) == Place(str(tmp_path / "mine"), "up.py")


@pytest.mark.parametrize(
    "text", ["open('../x')", "join(here, '..')", "Path(__file__).parent.parent", "here.parents[1]", "dirname(os.path.dirname(x))"]
)
def test_a_script_that_names_the_folder_above_its_own_stays(tmp_path: Path, text: str) -> None:
    named = program(tmp_path / "mine" / "up.py", b"#!/usr/bin/python3\nimport helper...\n")
    assert place_of(named)
    program(tmp_path / "mine" / "helper.py", text.encode(), 0o644)
    assert place_of(named) is None


def test_a_script_next_to_a_linked_folder_stays(tmp_path: Path) -> None:
    named = program(tmp_path / "mine" / "up.py", b"#!/usr/bin/python3\n")
    (tmp_path / "mine" / "library").symlink_to("..")
    assert place_of(named) is None


def test_a_copy_has_contents_and_may_be_executed_by_all(tmp_path: Path) -> None:
    program(tmp_path / "from" / "a" / "up", b"#!/bin/sh\n", 0o700)
    program(tmp_path / "from" / "b", b"x" * 100_000, 0o600)
    copy_files(str(tmp_path / "from"), str(tmp_path / "to"), ["a/up", "b"])
    assert (tmp_path / "to" / "b").read_bytes() == b"x" * 100_000
    modes = [stat.S_IMODE((tmp_path / "to" / name).stat().st_mode) for name in ("a/up", "b")]
    assert modes == [0o755, 0o644]
