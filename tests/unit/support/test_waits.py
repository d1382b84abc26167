"""What is found in the source of a test, and how it is compared with what is argued."""

from __future__ import annotations

import pytest

from tests.support.waits import Found, argued, places, problems


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("time.sleep(1)", ["sleep"]),
        ("clock.sleep(1)", []),
        ("run(timeout_s=1.9)", ["timeout"]),
        ("run(timeout_ms=1999)", ["timeout"]),
        ("run(timeout_s=2.0)", []),
        ("run(timeout_s=given)", []),
        ("run('get', '--stall', '200ms')", ["timeout"]),
        ("flags = ('--timeout-total', '1s')", ["timeout"]),
        ("run('get', '--stall', '2s')", []),
        ("run('get', '--retry-max-wait', '50ms')", []),
        ("begun = time.monotonic(); assert time.monotonic() - begun < 5", ["clock"]),
        ("begun = time.monotonic(); took = time.monotonic() - begun; assert took < 5", ["clock"]),
        ("begun = time.monotonic(); assert begun <= time.monotonic()", []),
        ("begun = time.monotonic(); done = run(begun); assert done.code == 0", []),
        ("assert done.user_s < 5", []),
    ],
)
def test_what_is_found(body: str, kinds: list[str]) -> None:
    assert [each.kind for each in places(f"def test_it():\n    {body}\n", "tests/test_x.py")] == kinds


def test_where_it_is() -> None:
    source = "FLAGS = ('--stall', '1s')\nclass TestIt:\n    def test_a(self):\n        def inner(): time.sleep(1)\n"
    assert [(each.where, each.kind, each.line) for each in places(source, "tests/test_x.py")] == [
        ("tests/test_x.py::", "timeout", 1),
        ("tests/test_x.py::test_a", "sleep", 4),
    ]


def test_what_is_not_argued_and_what_argues_nothing() -> None:
    found = [
        Found("tests/test_x.py::test_a", "sleep", 3, "nap"),
        Found("tests/test_x.py::test_b", "clock", 9, "assert"),
    ]
    assert problems(found, argued("sleep | tests/test_x.py::test_* | why\nclock | tests/test_x.py::test_c | why\n")) == [
        "tests/test_x.py:9: clock, not argued: assert",
        "clock | tests/test_x.py::test_c: no test has such a line",
    ]
    assert problems(found, argued("# why\nsleep | *::test_a | why\nclock | *::test_b | why\n")) == []


@pytest.mark.parametrize("line", ["sleep | tests/x.py::test_a", "nap | tests/x.py::test_a | why", "sleep | | why"])
def test_a_line_without_a_meaning(line: str) -> None:
    with pytest.raises(ValueError, match="line 1 "):
        argued(line)
