"""The table of findings in the engine names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_TABLE = _ROOT / "engine/docs/findings.md"
_ROW = re.compile(r"^\| (\d+|\+) \|.*\| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(\w+)`")


def test_every_finding_has_tests_and_they_exist() -> None:
    rows = _ROW.findall(_TABLE.read_text())
    assert [number for number, _ in rows if number != "+"] == [str(number) for number in range(1, 21)]
    sources = [*(_ROOT / "tests/engine").glob("*.py"), *(_ROOT / "engine/crates").glob("*/src/**/*.rs")]
    defined = set(re.findall(r"\b(?:def|fn) (\w+)\(", "\n".join(path.read_text() for path in sources)))
    for number, tests in rows:
        named = set(_TEST.findall(tests))
        assert named, f"finding {number} has no test"
        assert named <= defined, f"finding {number}: {named - defined} does not exist"
