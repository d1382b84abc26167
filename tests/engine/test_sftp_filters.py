"""Which files of a tree take part: patterns as rsync reads them, sizes, ages."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.harness import EXIT_CODES, Told
from tests.engine.sftp_harness import SftpBench, content, done
from tests.engine.sftp_servers import Odd, SftpServer, person

FILES = ("a", "ab.o", "b.o", "sub/a", "sub/b.o", "sub/ab/a.log", "sub/ab/b", "cache/a", "cache/ab/a.o", "deep/sub/ab/b.o")
PARTS = ("a", "b", "ab", "sub", "*", "a*", "*.o", "?", "[ab]", "[!a]", "[!a]*", "**", "cache", "{a}", "*b*")


def plant(root: Path) -> Path:
    for number, name in enumerate(FILES):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(100 * number, version=number))
    (root / "empty").mkdir()
    for path in [root, *root.rglob("*")]:
        person().owns(path)
    return root


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def fetch(desk: SftpBench, server: SftpServer, root: Path, *words: str, login: str = "", output: str = "back") -> Told:
    return desk.run("get", "-r", server.url(f"{root}/", login=login), "--output", output, *desk.trust(server), *words)


PATTERN = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", "/")),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join),
    st.sampled_from(("", "/")),
)
RULE = st.builds("--{}={}".format, st.sampled_from(("exclude", "include")), PATTERN)


@pytest.fixture(scope="module")
def rsync() -> str:
    found = shutil.which("rsync")
    if found is None:
        pytest.skip("rsync is not installed: make peers")
    return found


@pytest.mark.parametrize("way", ["get", "put"])
@settings(max_examples=20, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules=st.lists(RULE, min_size=1, max_size=4))
def test_rules_take_what_rsync_takes(desk: SftpBench, openssh: SftpServer, rsync: str, way: str, rules: list[str]) -> None:
    root = desk.remote(openssh) / "tree"
    if not root.exists():
        plant(root)
    expected, arrived = desk.folder / "rsync", desk.folder / "back"
    there = desk.remote(openssh) / "new"
    for path in (expected, arrived, there):
        shutil.rmtree(path, ignore_errors=True)
    subprocess.run([rsync, "-r", *rules, f"{root}/", f"{expected}/"], check=True)
    if way == "get":
        told = fetch(desk, openssh, root, *rules)
    else:
        arrived = there
        told = desk.put(root, openssh, f"{there}/", *rules)
    done(told)
    assert names(arrived) == names(expected)
    left_out = len(FILES) - sum(path.is_file() for path in expected.rglob("*"))
    assert (told.report["set"]["filtered"] > 0) or left_out == 0


def test_an_excluded_directory_is_not_listed(desk: SftpBench, odd: Odd) -> None:
    root = plant(desk.remote(odd.server) / "tree")
    told = fetch(desk, odd.server, root, "--exclude", "/sub/", "--exclude", "cache", login="honest")
    done(told)
    assert names(desk.folder / "back") == {name for name in names(root) if not name.startswith(("sub", "cache"))}
    listed = {Path(ask["path"]).relative_to(root).as_posix() for ask in odd.asked() if ask["kind"] == "OPENDIR"}
    assert listed == {".", "deep", "deep/sub", "deep/sub/ab", "empty"}
    assert told.report["set"]["filtered"] == 2


def test_an_excluded_directory_may_be_unreadable(desk: SftpBench, openssh: SftpServer) -> None:
    root = plant(desk.remote(openssh) / "tree")
    (root / "cache").chmod(0)
    assert fetch(desk, openssh, root, "--overwrite").code == EXIT_CODES["permanent"]
    done(fetch(desk, openssh, root, "--exclude", "cache/", output="other"))


@pytest.mark.parametrize("way", ["get", "put"])
def test_sizes_and_ages(desk: SftpBench, openssh: SftpServer, way: str) -> None:
    root = plant(desk.remote(openssh) / "tree")
    day = 24 * 3600
    now = time.time()
    for number, name in enumerate(FILES):
        os.utime(root / name, (now - number * day, now - number * day))
    rules = ("--min-size=200", "--max-size=700", "--newer-than=156h", "--older-than=84h")
    arrived = desk.folder / "back"
    if way == "get":
        told = fetch(desk, openssh, root, *rules)
    else:
        arrived = desk.remote(openssh) / "new"
        told = desk.put(root, openssh, f"{arrived}/", *rules)
    done(told)
    # 4 to 6 days old; those of 200 to 700 bytes are 2 to 7.
    assert {str(path.relative_to(arrived)) for path in arrived.rglob("*") if path.is_file()} == set(FILES[4:7])
    assert told.report["set"]["filtered"] == len(FILES) - 3
    assert told.report["set"]["files"] == 3


def test_a_file_of_patterns_and_what_verbose_says(desk: SftpBench, openssh: SftpServer) -> None:
    root = plant(desk.remote(openssh) / "tree")
    desk.write("patterns", b"# not these\n+ ab.o\n*.o\n\n")
    told = fetch(desk, openssh, root, "--exclude-from", "patterns", "-v")
    done(told)
    assert {name for name in names(desk.folder / "back") if name.endswith(".o")} == {"ab.o"}
    assert told.stderr.count("filtered") == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--exclude", "a**"), "**"),
        (("--include", "[a"), "[a"),
        (("--exclude", "../x"), "../x"),
        (("--exclude-from", "nowhere"), "nowhere"),
        (("--min-size", "2M", "--max-size", "1M"), "--min-size"),
    ],
)
def test_what_is_refused(desk: SftpBench, openssh: SftpServer, words: tuple[str, ...], said: str) -> None:
    told = desk.start("get", "-r", openssh.url("/x/"), "--output", "back", *words, json=False).ended()
    code, out, err = told
    assert (code, out) == (2, b"")
    assert said in err.decode()
    assert len(err.decode().strip().splitlines()) == 1


def test_filters_need_a_directory(desk: SftpBench, openssh: SftpServer) -> None:
    source = desk.source(10)
    url = openssh.url("/x")
    for words in (("get", url, "-O"), ("put", str(source), url), ("get", "http://localhost/x", "-O")):
        code, _, err = desk.start(*words, "--exclude", "x", json=False).ended()
        assert code == 2
        assert b"--exclude" in err
