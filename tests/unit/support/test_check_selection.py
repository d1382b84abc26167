"""The choice of `make check`: a pure function of the changed paths, and the same function asked of this checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.model.paths import project_root
from tests.support.check import crates, imports
from tests.support.check.imports import Users
from tests.support.check.readers import READERS
from tests.support.check.selection import DOCKERFILES, MOST, Checkout, Selection, rooms, select, without_inner

USERS = Users(
    {
        "lab/judge/verdicts.py": frozenset(
            {"lab/run/outer.py", "tests/unit/judge/test_verdicts.py", "tests/unit/run/test_reasons.py"}
        ),
        "lab/judge/inner.py": frozenset({"lab/judge/verdicts.py"}),
        "lab/run/outer.py": frozenset({"tests/support/helper.py", "tests/unit/run/conftest.py"}),
        "lab/model/common.py": frozenset(f"tests/unit/net/test_{number:02}.py" for number in range(MOST + 5)),
        "lab/model/other.py": frozenset({"tests/unit/net/test_00.py"}),
        "tests/support/helper.py": frozenset({"tests/support/more.py"}),
        "tests/support/more.py": frozenset({"tests/unit/cli/test_words.py", "tests/cells/test_small.py"}),
        "tests/unit/run/conftest.py": frozenset(),
        "tests/unit/run/test_reasons.py": frozenset(),
        "tests/unit/run/test_other.py": frozenset(),
    },
    naming={
        "lab/judge/inner.py": frozenset({"tests/unit/docs/test_names.py"}),
        "lab/judge/alone.py": frozenset({"tests/unit/docs/test_names.py"}),
        "lab/judge/verdicts.py": frozenset({"tests/support/helper.py"}),
    },
)
ABOVE = {"http": frozenset({"http", "engine", "ferry"}), "engine": frozenset({"engine", "ferry"}), "ferry": frozenset({"ferry"})}


def chosen(*paths: str, gone: tuple[str, ...] = ()) -> Selection:
    return select(paths, Checkout(lambda path: path not in gone, USERS, ABOVE))


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/unit/judge/test_verdicts.py", {"tests/unit/judge/test_verdicts.py"}),
        # The room, and who imports or names the file elsewhere; a folder stands for its files.
        ("lab/judge/verdicts.py", {"tests/unit/judge", "tests/unit/run/test_reasons.py", "tests/unit/cli/test_words.py"}),
        # No test imports it: the tests of the file that does, and those that only name it.
        (
            "lab/judge/inner.py",
            {
                "tests/unit/judge",
                "tests/unit/run/test_reasons.py",
                "tests/unit/docs/test_names.py",
                "tests/unit/cli/test_words.py",
            },
        ),
        ("lab/judge/alone.py", {"tests/unit/judge", "tests/unit/docs/test_names.py"}),
        # Through two helpers, and not all tests of a folder whose conftest imports it.
        ("lab/run/outer.py", {"tests/unit/run", "tests/unit/cli/test_words.py"}),
        (
            "tests/unit/run/conftest.py",
            {"tests/unit/run/test_reasons.py", "tests/unit/run/test_other.py", "tests/unit/support/test_skips.py"},
        ),
        ("tests/unit/link/tc-6.15.json", {"tests/unit/link", "tests/unit/support/test_skips.py"}),
        ("docs/how-to/ci.md", {"tests/unit/docs", "tests/unit/ci"}),
        ("benchmarks/README.md", {"tests/unit/benchmarks", "tests/unit/docs/test_links.py"}),
        ("lab/judge/table.json", {"tests/unit/judge"}),
        ("pyproject.toml", {"tests/unit"}),
        ("strange/thing.bin", {"tests/unit"}),
    ],
)
def test_a_path_chooses_the_tests_that_it_can_fail(path: str, tests: set[str]) -> None:
    assert set(chosen(path).tests) == tests


def test_what_the_table_lacks_is_said() -> None:
    assert "all of tests/unit" in chosen("strange/thing.bin").notes[0]
    assert ".venv/bin/pytest tests/cells/test_small.py" in chosen("tests/cells/test_small.py").notes[0]
    assert not chosen("lab/judge/verdicts.py").notes


def test_of_a_file_that_all_use_the_closest_tests_run_and_the_others_are_counted() -> None:
    units = chosen("lab/model/common.py")
    elsewhere = [test for test in units.tests if "/net/" in test]
    assert len(elsewhere) == MOST
    assert "tests/unit/net/test_00.py" not in elsewhere, "it uses more files than the others"
    assert "tests/unit/model" in units.tests
    assert units.notes == ("lab/model/common.py: 5 more files of tests/unit use it; make test runs them",)


def test_what_was_deleted_is_not_run() -> None:
    assert chosen("tests/unit/run/test_old.py", gone=("tests/unit/run/test_old.py",)).tests == ()
    assert chosen("lab/gone/x.py", gone=("lab/gone/x.py", "tests/unit/gone")).tests == ("tests/unit",)


def test_nothing_changed_selects_nothing() -> None:
    assert chosen() == Selection()


@pytest.mark.parametrize(
    ("path", "checks"),
    [
        ("lab/judge/verdicts.py", {"types"}),
        ("reports/sheet.py", {"types"}),
        ("pyproject.toml", {"types"}),
        ("tests/unit/run/test_reasons.py", {"waits"}),
        ("tests/waits.txt", {"waits"}),
        ("suites/throttle.robot", {"suites"}),
        ("engine/crates/http/src/lib.rs", {"rust"}),
        ("engine/fuzz/fuzz_targets/url.rs", {"rust", "fuzz"}),
        ("docs/concepts.md", set()),
    ],
)
def test_checks_follow_the_kind_of_file(path: str, checks: set[str]) -> None:
    found = chosen(path)
    assert {name for name in ("types", "waits", "suites", "rust", "fuzz") if getattr(found, name)} == checks


def test_dockerfiles_that_changed_and_all_of_them_after_a_change_of_the_rules() -> None:
    assert chosen("images/base/Dockerfile").dockerfiles == ("images/base/Dockerfile",)
    assert chosen("images/.hadolint.yaml").dockerfiles == DOCKERFILES
    assert chosen("images/base/Dockerfile", gone=("images/base/Dockerfile",)).dockerfiles == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("engine/crates/http/src/lib.rs", ("engine", "ferry", "http")),
        ("engine/crates/ferry/src/main.rs", ("ferry",)),
        ("engine/docs/flags.md", ("ferry",)),
        ("engine/Cargo.lock", ("engine", "ferry", "http")),
        ("engine/fuzz/Cargo.toml", ()),
        ("engine/crates/gone/src/lib.rs", ()),
        ("lab/judge/verdicts.py", ()),
    ],
)
def test_a_crate_comes_with_those_that_depend_on_it(path: str, expected: tuple[str, ...]) -> None:
    assert chosen(path).crates == expected


def test_dependents_are_read_from_the_manifests(tmp_path: Path) -> None:
    for name, lines in {
        "low": "[dependencies]\nserde = '1'",
        "middle": "[target.'cfg(unix)'.dependencies]\nlow = { workspace = true }",
        "high": "[dev-dependencies]\nmiddle.workspace = true",
    }.items():
        folder = tmp_path / "engine/crates" / name
        folder.mkdir(parents=True)
        (folder / "Cargo.toml").write_text(f"[package]\nname = '{name}'\n{lines}\n")
    assert crates.dependents(tmp_path) == {"low": {"low", "middle", "high"}, "middle": {"middle", "high"}, "high": {"high"}}


def test_a_pattern_of_tests_becomes_an_expression_of_nextest() -> None:
    assert crates.filterset("a::(b|c) .*|d (e|f)::.*") == (
        "(binary_id(/^(a::(b|c))$/) & test(/^(.*)$/)) + (binary_id(/^(d)$/) & test(/^((e|f)::.*)$/))"
    )


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("lab/judge/x.py", {"tests/unit/judge"}),
        ("lab/assets/release/x.py", {"tests/unit/assets"}),
        ("images/kernel/build.py", {"tests/unit/kernel"}),
        ("reports/x.py", {"tests/unit/reports"}),
        ("lab/__init__.py", set()),
        ("Makefile", set()),
        ("docs/x.md", set()),
    ],
)
def test_rooms(path: str, room: set[str]) -> None:
    assert rooms(path) == room


def test_a_file_in_a_folder_that_runs_does_not_run_twice() -> None:
    assert without_inner({"tests/unit/a", "tests/unit/a/test_x.py", "tests/unit/ab/test_y.py"}) == {
        "tests/unit/a",
        "tests/unit/ab/test_y.py",
    }


def test_names_in_a_text() -> None:
    files = {"lab.cli.one": "lab/cli/one.py", "lab.judge": "lab/judge/__init__.py", "lab.cli.two": "lab/cli/two.py"}
    assert imports.named("patch('lab.cli.one.app'); run('lab/cli/two.py'); lab.nothing; lab", files) == {
        "lab/cli/one.py",
        "lab/cli/two.py",
    }
    assert imports.any_of('import_module(f"lab.cli.{name}")', files) == {"lab/cli/one.py", "lab/cli/two.py"}
    assert imports.any_of('import_module("lab.cli.name")', files) == set()


@pytest.fixture(scope="module")
def checkout() -> Checkout:
    root = project_root()
    return Checkout(lambda path: (root / path).exists(), imports.build(root), crates.dependents(root))


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("lab/judge/tolerance.py", "tests/unit/judge"),
        ("lab/cli/compare.py", "tests/unit/store/test_compare_command.py"),
        # `lab` imports it by a name that only a run knows.
        ("lab/cli/search.py", "tests/unit/docs/test_reference.py"),
        ("lab/store/history/query.py", "tests/unit/history"),
        ("reports/page.js", "tests/unit/reports"),
        ("topologies/lte.yaml", "tests/unit/model"),
        ("tests/support/check/selection.py", "tests/unit/support/test_check_selection.py"),
        ("tests/support/skips.py", "tests/unit/support/test_skips.py"),
    ],
)
def test_of_this_checkout(path: str, test: str, checkout: Checkout) -> None:
    assert test in select([path], checkout).tests


def test_every_file_of_this_checkout_has_tests_and_every_row_of_the_table_exists(checkout: Checkout) -> None:
    root = project_root()
    held = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    unknown = [
        path
        for path in held
        if checkout.exists(path) and any("all of tests/unit" in note for note in select([path], checkout).notes)
    ]
    assert not unknown, "give them a row in tests/support/check/readers.py"
    named = {each if each.startswith("tests/") else f"tests/unit/{each}" for _, tests in READERS for each in tests}
    assert not [each for each in named if not checkout.exists(each)]


def test_this_engine_s_crates(checkout: Checkout) -> None:
    assert select(["engine/crates/ferry-http/src/lib.rs"], checkout).crates == (
        "ferry",
        "ferry-conformance",
        "ferry-engine",
        "ferry-http",
    )


def test_a_text_of_the_lab_is_a_use_and_one_of_a_test_only_a_name(checkout: Checkout) -> None:
    own = "tests/unit/support/test_check_selection.py"
    assert own in checkout.users.by_path["tests/support/check/selection.py"]
    assert own not in checkout.users.naming["tests/support/check/selection.py"], "it imports it"
    assert own in checkout.users.naming["lab/cli/compare.py"]
    assert not [user for users in checkout.users.naming.values() for user in users if not user.startswith("tests/")]
