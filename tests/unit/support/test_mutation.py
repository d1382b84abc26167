"""The tools that plant mistakes: what they draw, what they put in its place, and which test they hold guilty."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support import coverage_engine, coverage_lab, mutants_lab
from tests.support.mutation import copies, crates, equivalents, functions, lab_tests
from tests.support.mutation.copies import Copy, Done
from tests.support.mutation.equivalents import Equivalent
from tests.support.mutation.lab_tests import Step
from tests.support.mutation.score import Score


def places(source: str) -> dict[str, functions.Place]:
    return {each.name: each for each in functions.in_source(dedent(source), "lab/made.py")}


def planted(source: str, name: str) -> str:
    return places(source)[name].planted(dedent(source))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("None", "None"),
        ("bool", "False"),
        ("'int'", "0"),
        ("str | None", "None"),
        ("str | Path", '""'),
        ("list[Path]", "[]"),
        ("tuple[int, str]", '(0, "")'),
        ("tuple[int, ...]", "()"),
        ("tuple[int, Path]", None),
        ("Literal['up', 'down']", "'up'"),
        ("Iterator[Path]", "iter(())"),
        ("Path", None),
    ],
)
def test_a_type_has_a_value_that_means_nothing_or_none(annotation: str, value: str | None) -> None:
    assert functions.neutral(ast.parse(annotation, mode="eval").body) == value


def test_a_function_does_nothing_and_all_else_stays() -> None:
    source = '''
        def named(self) -> str:
            """What it is called."""
            @cache
            def inner() -> str:
                return "ä"
            return inner()  # for people

        LAST = 1
    '''
    assert planted(source, "named") == dedent('''
        def named(self) -> str:
            """What it is called."""
            return ""  # for people

        LAST = 1
    ''')


def test_a_function_on_one_line() -> None:
    assert planted("def two() -> int: return 1 + 1\n", "two") == "def two() -> int: return 0\n"


def test_functions_that_do_nothing_as_they_are_cannot_be_drawn() -> None:
    source = """
        class Host(Protocol):
            def run(self) -> None: ...

            @abstractmethod
            def stop(self) -> None:
                print("stop")

            def there(self) -> bool:
                return False

            def link(self) -> Link:
                return Link(1)

            def untyped(self):
                return 1

            def refuse(self) -> None:
                raise NotImplementedError
    """
    assert places(source) == {}


def test_where_the_type_has_no_value_an_argument_of_the_type_stands_for_it() -> None:
    source = """
        def faster(link: Link, by: float) -> Link:
            return link * by

        class Link:
            def slower(self) -> Link:
                return self / 2

            def checked(self) -> Self:
                check(self)
                return self

            @contextmanager
            def open(self) -> Iterator[None]:
                up(self)
                yield
                down(self)
    """
    assert {name: place.body for name, place in places(source).items()} == {
        "faster": "return link",
        "Link.slower": "return self",
        "Link.checked": "return self",
        "Link.open": "yield None",
    }


def test_a_seed_draws_the_same_functions_again() -> None:
    first, existing = functions.draw(copies.ROOT, 30, seed=24)
    assert functions.draw(copies.ROOT, 30, seed=24)[0] == first
    assert functions.draw(copies.ROOT, 30, seed=25)[0] != first
    assert existing > 1000
    for each in first:
        compile(each.planted((copies.ROOT / each.path).read_text()), each.path, "exec")


def made_copy(folder: Path, guilty: str) -> Copy:
    """A checkout of one module, with a test that fails for any mistake, and with two others."""
    (folder / "made").mkdir()
    (folder / "made/links.py").write_text("def rate() -> int:\n    return 5\n")
    tests = folder / "tests/unit/made"
    tests.mkdir(parents=True)
    (tests / "test_links.py").write_text(guilty)
    return Copy(folder)


def test_a_test_of_rust_that_failed_is_named_once_by_nextest() -> None:
    text = """
        FAIL [   0.004s] (12/44) ferry-http::attacks what_never_ends
     TIMEOUT [  60.001s] (13/44) ferry-engine ssh::session::tests::a_password
────────────
        FAIL [   0.004s] (12/44) ferry-http::attacks what_never_ends
"""
    assert crates.failed(Done(100, text)) == [
        "ferry-http::attacks what_never_ends",
        "ferry-engine ssh::session::tests::a_password",
    ]


GUILTY = """
import made.links, pytest

@pytest.mark.parametrize("said", ['a rate - in "words"'])
def test_rate(said):
    assert made.links.rate() == 5
"""


def test_a_test_that_fails_only_with_the_mistake_is_guilty(tmp_path: Path) -> None:
    copy = made_copy(tmp_path, GUILTY)
    path = "tests/unit/made/test_links.py"
    seen = lab_tests.look(copy, "made/links.py", "def rate() -> int:\n    return 0\n", [Step("near", (path,), 600)])
    assert seen.test == f'{path}::test_rate[a rate - in "words"]'
    assert "return 5" in (tmp_path / "made/links.py").read_text(), "the copy is as it was"


@pytest.mark.parametrize("test", ["def test_broken():\n    assert 0\n", "def test_blind():\n    import made.links\n"])
def test_a_mistake_survives_tests_that_do_not_see_it(tmp_path: Path, test: str) -> None:
    copy = made_copy(tmp_path, test)
    step = Step("near", ("tests/unit/made/test_links.py",), 600)
    seen = lab_tests.look(copy, "made/links.py", "def rate() -> int:\n    return 0\n", [step])
    assert (seen.test, seen.steps) == (None, ("near",))


def test_tests_that_ran_a_line_come_first(tmp_path: Path) -> None:
    lines = tmp_path / "tests.json"
    lines.write_text(
        json.dumps(
            {
                "lab/judge/tolerance.py": {
                    "tests/a.py::test_all": [1, 2, 3],
                    "tests/a.py::test_two": [2],
                    "tests/b.py::test_three": [3],
                }
            }
        )
    )
    traced = lab_tests.Traced(lines)
    assert traced.tests("lab/judge/tolerance.py", 2, 2) == ["tests/a.py::test_two", "tests/a.py::test_all"]
    assert len(traced.tests("lab/judge/tolerance.py", 9, 9)) == 3, "what runs at import belongs to all"
    first, second, *_, last = lab_tests.steps(copies.ROOT, "lab/judge/tolerance.py", (2, 2), traced)
    assert first.paths == ("tests/a.py::test_two", "tests/a.py::test_all")
    assert second.paths[0] == "tests/unit/judge/test_tolerance.py"
    assert last.paths == ("tests/network", "tests/vagrant")


def test_a_module_that_nothing_traced_has_its_room() -> None:
    found = lab_tests.steps(copies.ROOT, "lab/judge/tolerance.py", (2, 2), lab_tests.Traced(Path("/none")), quick=True)
    assert [step.paths[0] for step in found] == ["tests/unit/judge/test_tolerance.py", "tests/unit/judge"]


def test_coverage_names_tests_as_pytest_does() -> None:
    report = {
        "files": {
            "lab/a.py": {
                "contexts": {"3": ["", "tests.unit.run.test_faults.test_which"], "4": ["tests.unit.run.test_faults.Test.test_x"]}
            }
        }
    }
    assert coverage_lab.lines_by_test(report) == {
        "lab/a.py": {"tests/unit/run/test_faults.py::test_which": [3], "tests/unit/run/test_faults.py::Test::test_x": [4]}
    }


def test_lines_of_tests_do_not_count() -> None:
    texts = {
        "crates/made/src/lib.rs": "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n",
        "crates/made/src/lib/tests.rs": "fn c() {}\n",
        "crates/made/tests/all.rs": "fn d() {}\n",
        "crates/other/src/path_tests.rs": "fn e() {}\n",
    }
    report = "\n".join(f"SF:{coverage_engine.ENGINE}/{path}\nDA:1,3\nDA:2,0\nDA:5,7\nend_of_record" for path in texts)
    assert coverage_engine.by_crate(report, texts) == {"made": (2, 1)}


def test_a_score_of_a_sample_has_an_interval_and_one_of_all_has_none() -> None:
    low, high = Score(54, 60, 900).interval()
    assert (round(low, 3), round(high, 3)) == (0.799, 0.953), "Wilson's, by the published formula"
    assert Score(54, 60, 60).interval() == (0.9, 0.9)
    assert Score(1, 2, 10) + Score(3, 4, 20, 1) == Score(4, 6, 30, 1)


def test_what_is_equivalent_leaves_the_score() -> None:
    assert str(Score(45, 60, 60, 10)) == "45 of 50 seen, 90.0% (all of them; 10 more are equivalent)"
    assert Score(45, 60, 900, 10).interval() == Score(45, 50, 900).interval()
    assert str(Score(54, 60, 60)) == "54 of 60 seen, 90.0% (all of them)"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("for a, b in zip(x, y, strict=True):", "for a, b in zip(x, y, strict=False):", equivalents.GUARD),
        ("for a, b in zip(x, y, strict=True):", "for a, b in zip(y, x, strict=True):", None),
        ("while True:", "while False:", None),
        ("return a < b", "return a <= b", "both are whole"),
        ("return a < b", "return a > b", None),
    ],
)
def test_a_mistake_is_equivalent_only_where_its_change_is_known(before: str, after: str, reason: str | None) -> None:
    known = (Equivalent("lab/a.py", "return a < b", "return a <= b", "both are whole"),)
    assert equivalents.why("lab/a.py", before, after, known) == reason
    if reason != equivalents.GUARD:
        assert equivalents.why("lab/b.py", before, after, known) is None, "only in that file"


def test_each_equivalent_mistake_is_about_a_line_that_is_there() -> None:
    for each in equivalents.EQUIVALENTS:
        lines = [line.strip() for line in (copies.ROOT / each.path).read_text(encoding="utf-8").splitlines()]
        assert each.before in lines, each


def test_a_change_is_the_lines_that_differ() -> None:
    assert mutants_lab.changed("a = 1\nb = 2\n", "a = 1\nb = 3\n") == ("b = 2", "b = 3")


def test_a_program_has_its_mistake_wherever_it_is_started(tmp_path: Path) -> None:
    script = crates.switched(Path("/usr/bin/env"), 7, tmp_path / "mistaken/env")
    said = subprocess.run(
        [script, "printenv", "ROUGHWATER_MISTAKE"], env={}, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert said == "7\n"
