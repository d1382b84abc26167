"""Sets of files: made, listed, compared and timed, on this machine's own file system; and clients that get them wrong."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.host import Completed
from lab.model.endpoints import SET_NAME
from lab.model.errors import LabFault
from lab.model.results import MOST_FILE_TIMES
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from lab.run import sets
from lab.run.sample import patience_s
from lab.run.set_script import TEMPORARY
from lab.servers.payload import Payload, PayloadSet, write_payload, write_payload_set
from tests.support.local_host import LocalHost

FILES, SIZE = 5, 2_000
WANTED = Transfer(protocol="sftp", direction="get", size=Size(SIZE), files=FILES)


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    return LocalHost("server", tmp_path)


@pytest.fixture
def made(host: LocalHost) -> PayloadSet:
    return write_payload_set(host, SIZE, FILES)


def test_every_file_of_a_set_has_content_of_its_own(host: LocalHost, made: PayloadSet) -> None:
    assert made.name == "5x2000B"
    assert Path(made.path) == Path(host.workdir) / "files" / "5x2000B"
    contents = {path.name: path.read_bytes() for path in Path(made.path).iterdir()}
    assert sorted(contents) == [SET_NAME % index for index in range(FILES)] == list(made.sha256)
    assert {len(content) for content in contents.values()} == {SIZE}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()} == made.sha256
    assert len({*made.sha256.values(), write_payload(host, SIZE).sha256}) == FILES + 1


def test_no_room_is_the_labs_fault(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(LabFault, match="5x10B could not be written"):
        write_payload_set(LocalHost("server", tmp_path), 10, 5)


def test_a_good_set_has_no_problem_wherever_the_client_put_it_and_is_gone(host: LocalHost, made: PayloadSet) -> None:
    arrived = Path(host.workdir, "arrived")
    host.prepare_folder(str(arrived))
    Path(made.path).rename(arrived / "deeper")
    started_ns = time.monotonic_ns()
    (arrived / "deeper" / (SET_NAME % 0)).touch()
    found = sets.collect_set(host, str(arrived))
    assert sets.problem(found, made) == ""
    assert not arrived.exists()
    # This tells the hour between the two clocks' zeros from a kernel's tick.
    latest = max(file.ended_ns for file in found)
    assert started_ns - 100_000_000 < latest <= time.monotonic_ns() + 100_000_000


def test_prepare_leaves_an_empty_folder(host: LocalHost) -> None:
    folder = Path(host.workdir, "a", "b")
    for _ in range(2):
        host.prepare_folder(str(folder))
        assert list(folder.iterdir()) == []
        (folder / "left").write_text("over")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ("rm f00001 f00003", "2 of 5 files did not arrive: f00001, f00003"),
        ("rm f00000 f00001 f00002", "3 of 5 files did not arrive: f00000, f00001, f00002"),
        ("rm f00000 f00001 f00002 f00003", "4 of 5 files did not arrive: f00000, f00001, f00002, ..."),
        ("rm *", "5 of 5 files did not arrive: f00000, f00001, f00002, ..."),
        ("touch 'new one'", "1 unexpected files arrived: new one"),
        ("touch 'new\nline'", r"1 unexpected files arrived: new\nline"),
        ("mkdir d; cp f00000 d", "1 files arrived twice, in different folders"),
        ("truncate -s 1999 f00004", "1 of 5 files do not have 2000 bytes: f00004"),
        ("cp f00001 f00002; cp f00001 f00000", "the content of 2 of 5 files is wrong: f00000, f00002"),
        ("ln -sf f00000 f00001", "the content of 1 of 5 files is wrong: f00001"),
        ("mkfifo pipe; rm f00000; mkdir f00000", "1 of 5 files did not arrive: f00000"),
        (f"cp f00000 .f00000.1a2b{TEMPORARY}", ""),
        (f"mv f00000 .f00000.1a2b{TEMPORARY}", "1 of 5 files did not arrive: f00000"),
    ],
)
def test_what_is_wrong_with_a_set_is_one_line(host: LocalHost, made: PayloadSet, spoil: str, problem: str) -> None:
    host.run(["/bin/sh", "-ec", spoil], cwd=str(made.path))
    assert sets.problem(sets.collect_set(host, str(made.path)), made) == problem


def test_a_folder_that_is_not_there_is_an_empty_one(host: LocalHost, made: PayloadSet) -> None:
    assert sets.problem(sets.collect_set(host, "/no/such/folder"), made).startswith("5 of 5 files did not arrive")


def test_a_listing_that_makes_no_sense_is_the_labs_fault() -> None:
    class Broken(LocalHost):
        def run(self, *_: object, **__: object) -> Completed:
            return Completed((), 0, b"12\nnonsense\n", b"", 0, 0, 0.0, 0.0)

    with pytest.raises(LabFault, match="cannot be listed"):
        sets.collect_set(Broken("server", Path("/")), "/x")


def test_times_are_sorted_and_never_negative() -> None:
    found = sets.file_times([2_500_000_000, 999_000_000, 1_250_000_000], 1_000_000_000)
    assert found == sets.FileTimes([0.0, 0.25, 1.5])


def test_the_first_and_last_hundred_of_two_hundred() -> None:
    ends = [index * 10_000_000 for index in range(100)] + [2_000_000_000 + index * 20_000_000 for index in range(100)]
    found = sets.file_times(ends, 0)
    assert found.first_hundred_s_per_file == pytest.approx(0.01)
    assert found.last_hundred_s_per_file == pytest.approx(0.02)
    assert sets.file_times(ends[1:], 0).first_hundred_s_per_file is None


@given(st.integers(0, 10_000))
def test_never_more_times_are_kept_than_a_result_takes(count: int) -> None:
    found = sets.file_times(range(count), 0)
    assert len(found.times_s) <= MOST_FILE_TIMES
    assert len(range(0, count, found.every)) == len(found.times_s)


@pytest.mark.parametrize(
    ("count", "every"),
    [(0, 1), (MOST_FILE_TIMES, 1), (MOST_FILE_TIMES + 1, 2), (2 * MOST_FILE_TIMES, 2), (2 * MOST_FILE_TIMES + 1, 3)],
)
def test_as_many_times_are_kept_as_a_result_takes(count: int, every: int) -> None:
    found = sets.file_times([index * 1_000_000_000 for index in range(count)], 0)
    assert (found.every, found.times_s[1:3]) == (every, [float(every), 2.0 * every] if count else [])


def test_times_have_four_digits_and_a_file_costs_what_is_between_the_ends() -> None:
    assert sets.file_times([1_234_567_890], 0).times_s == [1.2346]
    ends = [index**2 * 1_000_000 for index in range(200)]
    found = sets.file_times(ends, 0)
    assert found.first_hundred_s_per_file == pytest.approx(99**2 / 99 / 1000)
    assert found.last_hundred_s_per_file == pytest.approx((199**2 - 100**2) / 99 / 1000)


ANSWER = Payload("5x", 10, "a" * 64, PurePosixPath("/5x"))


@pytest.mark.parametrize(
    ("size", "sha256", "count", "problem"),
    [
        (10, "a" * 64, 2, ""),
        (10, "a" * 64, 1, "1 of 2 answers were kept"),
        (10, "a" * 64, 3, "3 of 2 answers were kept"),
        (10, "b" * 64, 2, "the content of 2 of 2 answers is wrong: r0, r1"),
        (9, "a" * 64, 2, "the content of 2 of 2 answers is wrong: r0, r1"),
    ],
)
def test_every_answer_to_requests_for_one_file_is_that_file(size: int, sha256: str, count: int, problem: str) -> None:
    found = [sets.ArrivedFile(0, size, sha256, f"r{index}") for index in range(count)]
    assert sets.repeat_problem(found, 2, ANSWER) == problem


def test_one_wrong_answer_among_good_ones_is_named() -> None:
    found = [sets.ArrivedFile(0, 10, digest * 64, name) for digest, name in (("a", "r0"), ("b", "r2"), ("a", "r1"))]
    assert sets.repeat_problem(found, 3, ANSWER) == "the content of 1 of 3 answers is wrong: r2"


def test_patience_grows_with_the_files() -> None:
    assert patience_s(WANTED) == 605
    limited = WANTED.model_copy(update={"limit": ByteRate(1000)})
    assert patience_s(limited) == 5 + 60 + 5 * 10
