"""Mirrors, both ways: the same trees as rsync makes, nothing twice, and nothing removed that should have stayed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.harness import EXIT_CODES, Told, failed
from tests.engine.sftp_harness import SftpBench, content, done, left_over
from tests.engine.sftp_servers import Odd, SftpServer, person
from tests.support.tcp_proxy import proxy_to
from tests.support.torture import build

MIB = 1 << 20
WAYS = pytest.mark.parametrize("way", ["get", "put"])
# What a file is: content's version, size, time of modification.
Files = dict[str, tuple[int, int, int]]


def plant(root: Path, files: Files, directories: tuple[str, ...] = ()) -> Path:
    for name in ("", *directories):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, (version, size, modified) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(size, version))
        os.utime(path, (modified, modified))
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            person().owns(path)
    return root


def tree(root: Path) -> dict[str, object]:
    """Names, and of a file what is in it and its time; of a link where it leads."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = (path.read_bytes(), int(path.stat().st_mtime))
        else:
            found[name] = None
    return found


def turn_into_a_link(path: Path, moved: Path) -> None:
    """A directory that was moved to another disk, or just a link to one; nothing in what is a link already."""
    if not path.parent.is_dir() or path.parent.is_symlink():
        return
    if path.is_dir():
        path.rename(moved)
    else:
        moved.mkdir()
        person().owns(moved)
    path.symlink_to(moved)


def turn_into(path: Path, what: str, elsewhere: Path) -> None:
    """A directory becomes something that is passed over."""
    if what == "link":
        turn_into_a_link(path, elsewhere)
        return
    shutil.rmtree(path)
    if what == "pipe":
        os.mkfifo(path)
        person().owns(path)
    elif what == "dangling":
        path.symlink_to("nowhere")
    else:
        path.symlink_to(path.name)


@dataclass
class Mirror:
    """One direction, between `desk.remote` (the server) and `desk.folder`."""

    desk: SftpBench
    server: SftpServer
    way: str

    @property
    def source(self) -> Path:
        return (self.desk.remote(self.server) if self.way == "get" else self.desk.folder) / "source"

    @property
    def target(self) -> Path:
        return (self.desk.folder if self.way == "get" else self.desk.remote(self.server)) / "target"

    def words(self, *words: str, login: str = "") -> list[str]:
        trust = self.desk.trust(self.server)
        if self.way == "get":
            url = self.server.url(f"{self.source}/", login=login)
            return ["get", "-r", url, "--output", str(self.target), "--mirror", *trust, *words]
        url = self.server.url(f"{self.target}/", login=login)
        return ["put", str(self.source), url, "--mirror", *trust, *words]

    def run(self, *words: str, login: str = "") -> Told:
        return self.desk.run(*self.words(*words, login=login))


@pytest.fixture
def mirror(desk: SftpBench, openssh: SftpServer, request: pytest.FixtureRequest) -> Mirror:
    return Mirror(desk, openssh, request.getfixturevalue("way"))


@pytest.fixture
def strange(desk: SftpBench, odd: Odd) -> Callable[[str], Mirror]:
    return lambda way: Mirror(desk, odd.server, way)


@pytest.fixture(scope="module")
def rsync() -> str:
    found = shutil.which("rsync")
    if found is None:
        pytest.skip("rsync is not installed: make peers")
    return found


SOURCE: Files = {"a": (1, 1000, 10**9), "sub/b": (2, 2000, 10**9 + 1), "sub/deep/c": (3, 0, 10**9 + 2)}
OLD: Files = {
    "a": (1, 1000, 10**9),
    "sub/b": (9, 1999, 10**9 + 1),
    "sub/old": (4, 10, 10**9),
    "gone/x": (5, 20, 10**9),
    "gone/deep/y": (6, 30, 10**9),
}

_FILE = st.tuples(st.integers(1, 2), st.sampled_from((0, 7, 300)), st.sampled_from((10**9, 10**9 + 5)))
_PATH = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(("d", "e")), max_size=2),
    st.sampled_from(("f", "g", "h.o")),
)
_TREE = st.dictionaries(_PATH, _FILE, max_size=7)
_LINKS = st.sets(st.sampled_from(("d", "e", "d/e", "e/d")), max_size=2)
_RULES = st.lists(
    st.sampled_from(("--exclude=*.o", "--exclude=/d/", "--exclude=e", "--include=g", "--exclude=/e/**", "--max-size=100")),
    max_size=2,
    unique=True,
)


@WAYS
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(new=_TREE, old=_TREE, links=_LINKS, rules=_RULES, delete=st.booleans())
def test_the_same_tree_as_rsync(
    mirror: Mirror, rsync: str, way: str, new: Files, old: Files, links: set[str], rules: list[str], delete: bool
) -> None:
    expected, elsewhere = mirror.desk.folder / "rsync", mirror.source.parent / "elsewhere"
    for path in (mirror.source, mirror.target, expected, elsewhere):
        shutil.rmtree(path, ignore_errors=True)
    # ferry removes nothing for an empty source.
    plant(mirror.source, {**new, "always": (1, 5, 10**9)})
    elsewhere.mkdir()
    for name in sorted(links):
        turn_into_a_link(mirror.source / name, elsewhere / name.replace("/", "-"))
    plant(mirror.target, old)
    shutil.copytree(mirror.target, expected)
    words = [*rules, *(["--delete"] if delete else [])]
    subprocess.run([rsync, "-rt", *words, f"{mirror.source}/", f"{expected}/"], check=True)
    planned = mirror.run(*words, "--dry-run")
    assert planned.code == 0
    told = mirror.run(*words)
    done(told)
    assert tree(mirror.target) == tree(expected)
    moved = [each for each in planned.report["planned"] if each["action"] in ("send", "receive")]
    assert len(moved) == told.report["set"]["files"]
    assert len([each for each in planned.report["planned"] if each["action"] == "delete"]) == told.report["set"]["deleted"]
    again = mirror.run(*words)
    done(again)
    assert (again.report["transfers"], again.report["set"]["deleted"]) == ([], 0)


@WAYS
def test_only_what_differs_and_every_word_of_it(mirror: Mirror, way: str) -> None:
    plant(mirror.source, SOURCE)
    plant(mirror.target, OLD)
    told = mirror.run("--delete", "-v")
    done(told)
    assert tree(mirror.target) == tree(mirror.source)
    facts = told.report["set"]
    assert (facts["files"], facts["unchanged"], facts["deleted"]) == (2, 1, 5)
    assert told.stderr.count(" deleted") == 5
    assert told.stderr.count(" unchanged") == 1


@WAYS
def test_without_delete_nothing_goes(mirror: Mirror, way: str) -> None:
    plant(mirror.source, SOURCE)
    plant(mirror.target, OLD)
    done(mirror.run())
    assert set(tree(mirror.target)) == set(tree(mirror.source)) | {"sub/old", "gone", "gone/x", "gone/deep", "gone/deep/y"}


@WAYS
def test_a_destination_that_is_not_there(mirror: Mirror, way: str) -> None:
    plant(mirror.source, SOURCE, ("empty",))
    planned = mirror.run("--delete", "--dry-run")
    done(planned)
    assert not mirror.target.exists()
    assert [each["action"] for each in planned.report["planned"]].count("make") == 4
    done(mirror.run("--delete"))
    assert tree(mirror.target) == tree(mirror.source)


@WAYS
def test_a_dry_run_changes_nothing_and_says_all(mirror: Mirror, way: str) -> None:
    plant(mirror.source, SOURCE)
    before = tree(plant(mirror.target, OLD))
    code, out, err = mirror.desk.start(*mirror.words("--delete", "--dry-run"), json=False).ended()
    assert (code, out) == (0, b"")
    verb = "receive" if way == "get" else "send"
    said = [line.replace(f"{mirror.target}/", "") for line in err.decode().splitlines()]
    assert {line for line in said if line.startswith("would")} == {
        "would make the directory sub/deep",
        f"would {verb} sub/b (2000 bytes)",
        f"would {verb} sub/deep/c (0 bytes)",
        *(f"would delete {name}" for name in ("sub/old", "gone/x", "gone/deep/y", "gone/deep", "gone")),
    }
    assert tree(mirror.target) == before


@WAYS
def test_an_empty_source_removes_nothing(mirror: Mirror, way: str) -> None:
    plant(mirror.source, {})
    before = tree(plant(mirror.target, OLD))
    told = mirror.run("--delete")
    assert told.code == EXIT_CODES["permanent"]
    assert "the source is empty" in told.error["message"]
    assert tree(mirror.target) == before


@WAYS
@pytest.mark.parametrize(("most", "fine"), [(4, False), (5, True)])
def test_no_more_is_removed_than_allowed(mirror: Mirror, way: str, most: int, fine: bool) -> None:
    plant(mirror.source, SOURCE)
    plant(mirror.target, OLD)
    told = mirror.run("--delete", "--max-delete", str(most))
    assert told.code == (0 if fine else EXIT_CODES["permanent"])
    assert (mirror.target / "gone" / "x").exists() is not fine
    assert (mirror.target / "sub" / "deep" / "c").exists()


@WAYS
@pytest.mark.parametrize("unreadable", ["a", "sub"])
def test_what_cannot_be_read_keeps_everything(mirror: Mirror, way: str, unreadable: str) -> None:
    plant(mirror.source, SOURCE)
    plant(mirror.target, {**OLD, "sub/b": (9, 1, 1), "a": (9, 1, 1)})
    before = set(tree(mirror.target))
    (mirror.source / unreadable).chmod(0)
    try:
        told = mirror.run("--delete")
    finally:
        (mirror.source / unreadable).chmod(0o755)
    assert told.code == EXIT_CODES["permanent" if way == "get" else "local"]
    assert before <= set(tree(mirror.target))


@WAYS
def test_links_at_the_destination_are_removed_and_not_followed(mirror: Mirror, way: str) -> None:
    plant(mirror.source, SOURCE)
    plant(mirror.target, {"sub/b": (2, 2000, 10**9 + 1)})
    outside = plant(mirror.target.parent / "outside", {"precious": (1, 10, 10**9)})
    (mirror.target / "link").symlink_to(outside)
    (mirror.target / "sub" / "loop").symlink_to("..")
    (mirror.target / "broken").symlink_to("nowhere")
    done(mirror.run("--delete"))
    assert tree(mirror.target) == tree(mirror.source)
    assert (outside / "precious").exists()


@WAYS
@pytest.mark.parametrize("what", ["link", "dangling", "loop", "pipe"])
@pytest.mark.parametrize("name", ["sub", "sub/deep"])
def test_what_the_source_passes_over_keeps_everything_below_its_name(mirror: Mirror, way: str, name: str, what: str) -> None:
    plant(mirror.source, SOURCE)
    done(mirror.run("--delete"))
    before = tree(mirror.target)
    plant(mirror.target, {f"{name}/more/mine": (4, 10, 10**9), "old": (5, 10, 10**9)})
    turn_into(mirror.source / name, what, mirror.source.parent / "moved")
    told = mirror.run("--delete")
    done(told)
    assert told.report["set"]["deleted"] == 1
    assert set(tree(mirror.target)) == set(before) | {f"{name}/more", f"{name}/more/mine"}


@WAYS
def test_a_file_that_takes_no_part_keeps_the_directory_of_its_name(mirror: Mirror, way: str) -> None:
    plant(mirror.source, {"a": (1, 5, 10**9), "big": (1, 5000, 10**9)})
    before = plant(mirror.target, {"big/mine": (1, 5, 10**9), "old": (1, 5, 10**9)})
    done(mirror.run("--delete", "--max-size", "1000"))
    assert set(tree(before)) == {"a", "big", "big/mine"}


@WAYS
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_link_in_the_way_keeps_everything(mirror: Mirror, way: str, kind: str) -> None:
    plant(mirror.source, SOURCE)
    plant(mirror.target, {"old": (1, 10, 10**9)})
    outside = plant(mirror.target.parent / "outside", {"precious": (1, 10, 10**9), "b": (7, 7, 10**9)})
    (mirror.target / ("sub" if kind == "directory" else "a")).symlink_to(outside if kind == "directory" else outside / "b")
    before = tree(outside)
    told = mirror.run("--delete")
    assert told.code == EXIT_CODES["local"]
    assert "a symbolic link" in told.stderr
    assert tree(outside) == before
    assert (mirror.target / "old").exists()


@WAYS
def test_what_is_excluded_stays(mirror: Mirror, way: str) -> None:
    plant(mirror.source, {**SOURCE, "cache/new": (1, 5, 10**9)})
    plant(mirror.target, {**OLD, "cache/mine": (1, 5, 10**9), "gone/keep.log": (1, 5, 10**9)})
    told = mirror.run("--delete", "--exclude", "/cache", "--exclude", "*.log")
    done(told)
    left = {name for name, what in tree(mirror.target).items() if what is not None}
    assert left == {"a", "sub/b", "sub/deep/c", "cache/mine", "gone/keep.log"}


@WAYS
def test_unfinished_files_of_ferry_stay(mirror: Mirror, way: str) -> None:
    plant(mirror.source, SOURCE)
    recent = int(time.time())
    parts = {
        ".a.ferry-partial": 10**9,
        ".a.ferry-partial.json": 10**9,
        ".a.0123456789abcdef.ferry-old0": 10**9,
        "sub/.b.0123456789abcdef.ferry-part": recent,
        "sub/.b.0123456789abcdef.fedcba9876543210.ferry-part": recent,
    }
    plant(mirror.target, {**OLD, "gone/.x.0123.ferry-part": (1, 5, 10**9)})
    plant(mirror.target, {name: (1, 5, written) for name, written in parts.items()})
    done(mirror.run("--delete"))
    assert set(tree(mirror.target)) == set(tree(mirror.source)) | set(parts)


def test_what_interrupted_uploads_have_left_goes_after_a_day(desk: SftpBench, openssh: SftpServer) -> None:
    mirror = Mirror(desk, openssh, "put")
    with proxy_to(openssh.port) as proxy:
        for version in (1, 2):
            plant(mirror.source, {"big": (version, 16 * MIB, 10**9 + version)})
            proxy.hold_after("up", 8 * MIB)
            url = openssh.url(f"{mirror.target}/", port=proxy.port)
            ferry = desk.start("put", str(mirror.source), url, "--mirror", "--delete", *desk.trust(openssh, proxy.port))
            proxy.wait_held()
            ferry.kill()
            proxy.reset()
            proxy.release()
    left = left_over(mirror.target)
    assert len(left) == 2
    plant(mirror.target, {".other.0123456789abcdef.ferry-part": (1, 5, 10**9)})
    plant(mirror.source, {**SOURCE, "big": (3, 1000, 10**9 + 3)})
    done(mirror.run("--delete"))
    assert set(left) <= set(left_over(mirror.target)), "it may be that another run still writes there"
    for name in left:
        os.utime(mirror.target / name, (10**9, 10**9))
    planned = mirror.run("--delete", "--dry-run")
    done(planned)
    assert {each["path"] for each in planned.report["planned"]} == {str(mirror.target / name) for name in left}
    told = mirror.run("--delete")
    done(told)
    assert told.report["set"]["deleted"] == 2
    assert left_over(mirror.target) == [".other.0123456789abcdef.ferry-part"]


@WAYS
def test_a_run_that_is_cut_short_removes_nothing(strange: Callable[[str], Mirror], way: str) -> None:
    mirror = strange(way)
    plant(mirror.source, {**SOURCE, "big": (1, 3 * MIB, 10**9)})
    plant(mirror.target, OLD)
    login = f"closes-connection.once.{mirror.desk.word}"
    assert mirror.run("--delete", "--retry", "0", login=login).code == EXIT_CODES["transient"]
    assert (mirror.target / "gone" / "x").exists()
    done(mirror.run("--delete", login=login))
    assert tree(mirror.target) == tree(mirror.source)


@WAYS
def test_a_retry_finishes_the_mirror(strange: Callable[[str], Mirror], way: str) -> None:
    mirror = strange(way)
    plant(mirror.source, {**SOURCE, "big": (1, 3 * MIB, 10**9)})
    plant(mirror.target, OLD)
    login = f"closes-connection.once.{mirror.desk.word}"
    done(mirror.run("--delete", "--retry", "2", "--retry-max-wait", "50ms", login=login))
    assert tree(mirror.target) == tree(mirror.source)


@pytest.mark.parametrize("oddity", ["listing-fails", "listing-empty"])
@WAYS
def test_a_listing_that_is_not_complete(strange: Callable[[str], Mirror], way: str, oddity: str) -> None:
    mirror = strange(way)
    plant(mirror.source, SOURCE)
    before = tree(plant(mirror.target, OLD))
    told = mirror.run("--delete", login=oddity)
    if (way, oddity) == ("put", "listing-empty"):
        # Nothing is seen there, so nothing is removed.
        done(told)
    else:
        assert told.code == EXIT_CODES["permanent"]
    assert set(before) <= set(tree(mirror.target))


@pytest.mark.parametrize("name", ["half", "sub/half"])
def test_a_listing_that_ends_half_way(strange: Callable[[str], Mirror], name: str) -> None:
    mirror = strange("get")
    plant(mirror.source, {**SOURCE, **{f"{name}/{number:02}": (1, 5, 10**9) for number in range(20)}})
    done(mirror.run("--delete", login="honest"))
    before = tree(plant(mirror.target, OLD))
    told = mirror.run("--delete", login="listing-half")
    assert told.code == EXIT_CODES["permanent"]
    assert f"cannot list {mirror.source}/{name}" in told.stderr
    assert set(before) <= set(tree(mirror.target))


def test_a_local_listing_that_ends_half_way(desk: SftpBench, openssh: SftpServer) -> None:
    """At every entry: a file of the source is not taken for surplus because it was not seen."""
    mirror = Mirror(desk, openssh, "put")
    plant(mirror.source, SOURCE)
    library, log = build(desk.folder), desk.folder / "log"
    refused = 0
    for passed in range(100):
        desk.write("log", b"", 0o666)
        before = tree(plant(mirror.target, {**OLD, **SOURCE}))
        script = " ".join([*["readdir64:0"] * passed, f"readdir64:{errno.EIO}"])
        env = {"LD_PRELOAD": str(library), "TORTURE_LOG": str(log), "TORTURE_SCRIPT": script}
        told = desk.run(*mirror.words("--delete"), env=env)
        if told.code:
            failed(told, "local", "cannot read")
            assert tree(mirror.target) == before
            refused += 1
        else:
            # None failed, or one in a folder of the system's.
            assert tree(mirror.target) == tree(mirror.source)
        if len(log.read_text().split()) <= passed:
            break
    # Three directories, each with its two dots and an end.
    assert refused == 5 + 3 * 3


def test_a_file_that_nothing_can_be_learnt_of(desk: SftpBench, openssh: SftpServer) -> None:
    """In a directory that may be listed and not entered."""
    mirror = Mirror(desk, openssh, "put")
    plant(mirror.source, {**SOURCE, "closed/x": (1, 5, 10**9)})
    before = tree(plant(mirror.target, OLD))
    (mirror.source / "closed").chmod(0o444)
    try:
        told = mirror.run("--delete")
    finally:
        (mirror.source / "closed").chmod(0o755)
    assert told.code == EXIT_CODES["local"]
    assert set(before) <= set(tree(mirror.target))


@pytest.mark.parametrize("oddity", ["name-dots", "name-up", "name-slash", "name-absolute", "name-empty", "name-nul"])
@WAYS
def test_names_that_lead_elsewhere(strange: Callable[[str], Mirror], odd: Odd, way: str, oddity: str) -> None:
    mirror = strange(way)
    plant(mirror.source, SOURCE)
    plant(mirror.target, OLD)
    mirror.run("--delete", login=oddity)
    for ask in odd.asked():
        if ask["kind"] in ("REMOVE", "RMDIR"):
            assert os.path.normpath(ask["path"]) == ask["path"]
            assert mirror.target in Path(ask["path"]).parents
    assert mirror.source.is_dir()
    assert mirror.target.is_dir()


def test_a_server_that_lists_through_links(strange: Callable[[str], Mirror]) -> None:
    mirror = strange("put")
    plant(mirror.source, SOURCE)
    plant(mirror.target, OLD)
    outside = plant(mirror.target.parent / "outside", {"precious": (1, 10, 10**9)})
    (mirror.target / "link").symlink_to(outside)
    told = mirror.run("--delete", login="listing-follows")
    assert told.code == EXIT_CODES["permanent"]
    assert "no directory by itself" in told.stderr
    assert (outside / "precious").exists()


def test_times_that_the_server_rounds(strange: Callable[[str], Mirror]) -> None:
    mirror = strange("put")
    plant(mirror.source, SOURCE)
    done(mirror.run(login="coarse-times"))
    again = mirror.run(login="coarse-times")
    done(again)
    assert again.report["set"]["files"] == 1, "sub/b has an odd time"
    loose = mirror.run("--modify-window", "1s", login="coarse-times")
    done(loose)
    assert (loose.report["transfers"], loose.report["set"]["unchanged"]) == ([], 3)


def test_a_server_that_sets_no_times(strange: Callable[[str], Mirror]) -> None:
    mirror = strange("put")
    plant(mirror.source, SOURCE)
    plant(mirror.target, OLD)
    told = mirror.run("--delete", login="sizes-fixed")
    assert told.code == EXIT_CODES["permanent"]
    assert "--mirror" in told.error["message"]
    assert (mirror.target / "gone" / "x").exists()


def test_a_file_cannot_be_mirrored(desk: SftpBench, openssh: SftpServer) -> None:
    path = desk.give(openssh, 10)
    plant(desk.folder / "target", OLD)
    told = desk.run("get", "-r", openssh.url(path), "--output", "target", "--mirror", "--delete", *desk.trust(openssh))
    assert told.code == EXIT_CODES["permanent"]
    assert set(OLD) <= set(tree(desk.folder / "target"))


@pytest.mark.parametrize(
    "words",
    [
        ("--mirror",),
        ("-r", "--delete"),
        ("-r", "--dry-run"),
        ("-r", "--mirror", "--max-delete", "3"),
        ("-r", "--mirror", "--checksum", "sha256"),
    ],
)
def test_what_is_refused(desk: SftpBench, openssh: SftpServer, words: tuple[str, ...]) -> None:
    code, out, _ = desk.start("get", openssh.url("/x/y"), "--output", "back", *words, json=False).ended()
    assert (code, out) == (2, b"")
    assert not (desk.folder / "back").exists()
