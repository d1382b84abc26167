"""The tables of findings in the engine and in the tests name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_TABLE = _ROOT / "engine/docs/findings.md"
_TESTS = _ROOT / "tests/findings.md"
_ROW = re.compile(r"^\| (\d+|\+) \|.*\| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(\w+)`")
_PATH = re.compile(r"`((?:tests|docs|lab|benchmarks)/[\w./-]+\.\w+)`")


def defined(*folders: str) -> set[str]:
    """Names of functions, with a pattern for each folder's files."""
    paths = [path for folder in folders for path in _ROOT.glob(folder)]
    return set(re.findall(r"\b(?:def|fn) (\w+)\(", "\n".join(path.read_text() for path in paths)))


def test_every_finding_has_tests_and_they_exist() -> None:
    rows = _ROW.findall(_TABLE.read_text())
    assert [number for number, _ in rows if number != "+"] == [str(number) for number in range(1, 21)]
    there = defined("tests/engine/*.py", "engine/crates/*/src/**/*.rs")
    for number, tests in rows:
        named = set(_TEST.findall(tests))
        assert named, f"finding {number} has no test"
        assert named <= there, f"finding {number}: {named - there} does not exist"


def test_what_the_list_of_the_tests_names_exists() -> None:
    text = _TESTS.read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    assert [section.split(".")[0] for section in sections[1:]] == ["1", "2", "3", "4"]
    numbers = re.findall(r"^\| (\d) \|", sections[1], re.MULTILINE)
    assert set(numbers) == {str(number) for number in range(1, 7)}
    named = {name for name in _TEST.findall(text) if name.startswith("test_") or name.count("_") > 2}
    there = defined("tests/**/*.py", "engine/crates/**/*.rs")
    assert named <= there, f"{named - there} does not exist"
    paths = set(_PATH.findall(text))
    assert len(paths) > 20
    assert not [path for path in paths if not (_ROOT / path).exists()]
