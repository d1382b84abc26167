"""Mistakes of Rust behind switches: what is planted where, what the compiler refuses, and which tests failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.mutation import programs, switches
from tests.support.mutation.copies import Done
from tests.support.mutation.switches import Mistake

RUST = """\
fn both(a: u64, b: u64) -> bool {
    let far = a * b + 1;
    !late(far) && a < FAR
}

fn kind(of: Option<u64>) -> Kind {
    match of {
        Some(1) => Kind::One,
        Some(n) if n > 9 => Kind::Many,
        _ => Kind { size: 2, ..Kind::none() },
    }
}

const FAR: u64 = 2 / 3;

fn all() -> Option<impl Iterator<Item = u64>> {
    Some([1, 2].into_iter())
}
"""


@pytest.fixture
def rust() -> Any:
    if not switches.installed():
        pytest.skip("tree-sitter is not in build/: make mutants-engine")
    return switches.parser()


def mistake(genre: str, place: str, by: str, number: int = 7) -> Mistake:
    """The replacement of a piece of the text that occurs once."""
    assert RUST.count(place) == 1

    def position(index: int) -> tuple[int, int]:
        before = RUST[:index].split("\n")
        return len(before), len(before[-1]) + 1

    begin = RUST.index(place)
    return Mistake(number, "crates/made/src/lib.rs", "made", "f", "f", genre, by, position(begin), position(begin + len(place)))


def planted(rust: Any, *mistakes: Mistake) -> switches.Planted:
    return switches.planted(rust.parse(RUST.encode()), RUST.encode(), mistakes)


@pytest.mark.parametrize(
    ("genre", "place", "by", "line"),
    [
        ("FnValue", "let far", "false", "    if ON { return false; } let far = a * b + 1;"),
        ("BinaryOperator", "*", "/", "    let far = (if ON { a / b } else { a * b }) + 1;"),
        ("BinaryOperator", "+", "-", "    let far = (if ON { a * b - 1 } else { a * b + 1 });"),
        ("BinaryOperator", "&&", "||", "    (if ON { !late(far) || a < FAR } else { !late(far) && a < FAR })"),
        ("UnaryOperator", "!", "", "    (if ON { late(far) } else { !late(far) }) && a < FAR"),
        ("MatchArm", "Some(1) => Kind::One,", "", "        Some(1) if !ON => Kind::One,"),
        ("MatchArm", "Some(n) if n > 9 => Kind::Many,", "", "        Some(n) if (if ON { false } else { n > 9 }) => Kind::Many,"),
        ("MatchArmGuard", "n > 9", "true", "        Some(n) if (if ON { true } else { n > 9 }) => Kind::Many,"),
        (
            "StructField",
            "size: 2,",
            "",
            "        _ => Kind { size: (if ON { (Kind::none()).size } else { 2 }), ..Kind::none() },",
        ),
    ],
)
def test_a_mistake_has_a_switch(rust: Any, genre: str, place: str, by: str, line: str) -> None:
    lines = planted(rust, mistake(genre, place, by)).text.decode().replace("crate::__mistake::is(7)", "ON").splitlines()
    assert [each for each in lines if each not in RUST.splitlines()] == [line]


def test_mistakes_within_each_other_have_a_switch_each(rust: Any) -> None:
    outer, inner = mistake("BinaryOperator", "+", "-", 1), mistake("BinaryOperator", "*", "/", 2)
    found = planted(rust, outer, inner)
    on = "if crate::__mistake::is"
    assert f"far = ({on}(1) {{ a * b - 1 }} else {{ ({on}(2) {{ a / b }} else {{ a * b }}) + 1 }});" in found.text.decode()
    assert [found.text[slice(*found.places[each])] for each in (outer, inner)] == [b"a * b - 1", b"a / b"]


def test_what_the_compiler_evaluates_and_values_of_one_hidden_type_have_no_switch(rust: Any) -> None:
    constant, hidden = mistake("BinaryOperator", "/", "+"), mistake("FnValue", "Some([1, 2].into_iter())", "None")
    assert planted(rust, constant, hidden).places == {}


def test_only_errors_of_the_compiler_refuse_a_mistake(rust: Any) -> None:
    one = mistake("UnaryOperator", "!", "")
    found = planted(rust, one)
    begin, end = found.places[one]

    def said(level: str, byte: int) -> str:
        spans = [{"file_name": one.path, "byte_start": byte, "byte_end": byte + 1}]
        return json.dumps({"reason": "compiler-message", "message": {"level": level, "spans": spans}})

    others = ['{"reason": "compiler-artifact"}', said("warning", begin), said("error", end), "error: could not compile"]
    assert switches.refused("\n".join(others), {one.path: found}) == set()
    assert switches.refused(said("error", end - 1), {one.path: found}) == {one}


def test_the_programs_of_tests_and_what_failed_in_them() -> None:
    def built(executable: str | None, *, test: bool) -> str:
        return json.dumps(
            {"executable": executable, "profile": {"test": test}, "target": {"name": "made"}, "manifest_path": "/made/Cargo.toml"}
        )

    messages = [
        built("/t/made-1", test=True),
        built("/t/ferry", test=False),
        built(None, test=True),
        '{"success": true}',
        "words",
    ]
    assert [each.file for each in programs.found("\n".join(messages))] == ["/t/made-1"]
    text = "test a::b ... ok\ntest a::c ... FAILED\ntest a::d - should panic ... FAILED\n\nfailures:\n    a::c\n"
    assert programs.failed(Done(101, text)) == ["a::c", "a::d"]
