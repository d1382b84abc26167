"""The budget of skips: its lines, what differs from it, and what a session comes to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import skips
from tests.support.skips import Entry, differences, parse

ROOT = Path(__file__).parents[3]
BUDGET = """\
# Containers
no containers | tests/compose/* | no containers here: *
maybe no jq | tests/unit/test_page.py::test_a[1]* | no jq here

always | tests/docs/*::test_not_run* | *
"""
HERE, ELSEWHERE = {"no containers": True, "no jq": True, "always": True}, {"always": True}


def found(ran: dict[str, str | None], conditions: dict[str, bool]) -> list[str]:
    return differences(parse(BUDGET), ran, lambda condition: conditions.get(condition, False))


def test_lines() -> None:
    assert parse(BUDGET)[:2] == [
        Entry(2, "no containers", "tests/compose/*", "no containers here: *", maybe=False),
        Entry(3, "no jq", "tests/unit/test_page.py::test_a[1]*", "no jq here", maybe=True),
    ]


@pytest.mark.parametrize("line", ["always | tests/*", "always | | why", "on Tuesdays | tests/* | *", "maybe | a | b"])
def test_a_line_without_a_meaning(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 "):
        parse(f"# first\n{line}\n")


@pytest.mark.parametrize(
    ("test", "covered"),
    [("a::t[x-1]", True), ("a::u[y-1]", True), ("a::t[z-1]", False), ("a::v[x-1]", False), ("a::t[x,y-1]", False)],
)
def test_braces_are_a_choice(test: str, *, covered: bool) -> None:
    (entry,) = parse("always | a::{t,u}[{x,y}-1] | *")
    assert entry.covers(test) == covered


COMPOSE, PAGE = "tests/compose/test_x.py::test_y", "tests/unit/test_page.py::test_a[1]"
DOCS = "tests/docs/test_p.py::test_not_run[a]"


@pytest.mark.parametrize(
    ("ran", "conditions", "said"),
    [
        ({COMPOSE: "no containers here: no engine"}, HERE, []),
        ({COMPOSE: None}, ELSEWHERE, []),
        ({PAGE: "no jq here"}, HERE, []),
        ({PAGE: None}, HERE, []),
        ({DOCS: "a shell of a person"}, ELSEWHERE, []),
        ({COMPOSE: "no containers here: no engine"}, ELSEWHERE, [f"{COMPOSE} was skipped, which no line allows here: no cont"]),
        ({COMPOSE: "another reason"}, HERE, [f"{COMPOSE} was skipped, which no line allows here: another reason"]),
        ({PAGE.replace("1", "2"): "no jq here"}, HERE, ["tests/unit/test_page.py::test_a[2] was skipped"]),
        ({COMPOSE: None}, HERE, [f"{COMPOSE} ran, but line 2 says that it is skipped here (no containers)"]),
        ({DOCS: None}, HERE, [f"{DOCS} ran, but line 5 says"]),
        ({}, HERE, []),
    ],
)
def test_what_differs(ran: dict[str, str | None], conditions: dict[str, bool], said: list[str]) -> None:
    got = found(ran, conditions)
    assert len(got) == len(said)
    assert all(one.startswith(start) for one, start in zip(got, said, strict=True))


def test_the_projects_own_budget_is_one_and_its_tests_are_there() -> None:
    for entry in skips.read(ROOT / "tests/skips.txt"):
        for pattern in skips._expanded(entry.tests):
            path, _, name = pattern.partition("::")
            paths = [each for each in (ROOT / "tests").rglob("*.py") if skips._matches(str(each.relative_to(ROOT)), path)]
            assert paths, f"line {entry.line}: no file is called {path}"
            function = name.partition("[")[0].strip("*")
            assert any(function in each.read_text() for each in paths), f"line {entry.line}: there is no test called {name}"


def test_what_is_left_to_the_night_does_not_run_by_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "skips.txt").write_text("always | tests/b.py::* | no\n")
    (tmp_path / "nightly.txt").write_text("# minutes\ntests/a.py::test_long[*]\n\ntests/c.py::*[{1,2}]\n")
    entries = skips.read(tmp_path / "skips.txt")
    names = ("tests/a.py::test_long[12]", "tests/c.py::test_[1]", "tests/a.py::test_short", "tests/b.py::test_short")
    for value, left in (("", [True, True, False, False]), ("yes", [False] * 4)):
        skips.holds.cache_clear()
        monkeypatch.setenv("ROUGHWATER_NIGHTLY", value)
        assert [*map(skips.left_to_the_night(entries), names)] == left
    skips.holds.cache_clear()
    (tmp_path / "nightly.txt").unlink()
    assert not any(map(skips.left_to_the_night(skips.read(tmp_path / "skips.txt")), names))


def test_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    skips.holds.cache_clear()
    monkeypatch.setenv("ROUGHWATER_TEST_WORD", "yes")
    assert not skips.holds("ROUGHWATER_TEST_WORD is not set")
    assert skips.holds("ROUGHWATER_TEST_OTHER is not set")
    assert skips.holds("no such-program-anywhere")
    assert not skips.holds("no sh")
    assert skips.holds("root") is (os.geteuid() == 0) is not skips.holds("not root")
    for condition in skips.CONDITIONS:
        assert skips.holds(condition) in (True, False)


TESTS = """\
import pytest
def test_passes(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_lacks(n): pytest.skip("no jq here")
"""


@pytest.mark.parametrize(
    ("budget", "workers", "code", "last"),
    [
        ("always | *::test_lacks* | no jq here\n", (), 0, "1 passed, 2 skipped"),
        ("always | *::test_lacks[1] | no jq here\n", ("-n", "2"), 1, "1 failed by their skips in 0s"),
        ("always | *::test_* | *\n", (), 1, "1 failed by their skips in 0s"),
    ],
    ids=["as the budget says", "one more, with workers", "one less"],
)
def test_a_session(tmp_path: Path, budget: str, code: int, last: str, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "budget").write_text(budget)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-m", "pytest", "-q", "-p", "tests.support.skips", "-p", "no:cacheprovider", "--skips", "budget", *workers]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert last in done.stdout
