"""What a change needs checked, as a pure function of the changed paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.support.check import crates
from tests.support.check.imports import UNIT, Users, is_test, is_unit_test
from tests.support.check.readers import ALL, readers

MOST = 20
"""So many files of other rooms' tests run for a file that most of the lab uses: all would take minutes (40 s are the goal)."""
_TYPED = ("lab/", "reports/")
_TYPES_TOO = ("pyproject.toml", "requirements-test.lock")
DOCKERFILES = tuple(f"images/{role}/Dockerfile" for role in ("base", "client", "lab", "router", "server"))


@dataclass(frozen=True)
class Selection:
    """`tests` are files and folders of tests/unit. `notes` say what is left out, and what was chosen for want of better."""

    tests: tuple[str, ...] = ()
    crates: tuple[str, ...] = ()
    fuzz: bool = False
    rust: bool = False
    types: bool = False
    waits: bool = False
    suites: bool = False
    dockerfiles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkout:
    """The checkout, as far as the selection asks: which paths are there, and which files use which."""

    exists: Callable[[str], bool]
    users: Users
    dependents: Mapping[str, frozenset[str]]


def select(paths: Collection[str], checkout: Checkout) -> Selection:
    tests: set[str] = set()
    notes = []
    for path in paths:
        chosen, note = tests_of(path, checkout)
        tests |= {each for each in chosen if checkout.exists(each)}
        if note:
            notes.append(f"{path}: {note}")
    python = [path for path in paths if path.endswith(".py")]
    return Selection(
        tests=tuple(sorted(without_inner(tests))),
        crates=crates.touched(paths, checkout.dependents),
        fuzz=any(path.startswith("engine/fuzz/") for path in paths),
        rust=any(path.startswith(crates.ENGINE) and path.endswith((".rs", ".toml")) for path in paths),
        types=any(path.startswith(_TYPED) for path in python) or not set(_TYPES_TOO).isdisjoint(paths),
        waits=any(path.startswith("tests/") for path in python) or "tests/waits.txt" in paths,
        suites=any(path.startswith("suites/") for path in paths),
        dockerfiles=_dockerfiles(paths, checkout),
        notes=tuple(notes),
    )


def tests_of(path: str, checkout: Checkout) -> tuple[frozenset[str], str]:
    """The unit tests that a change of one path can fail, and a word about it where it is not obvious."""
    if is_unit_test(path):
        return frozenset({path}), ""
    used_by = checkout.users.tests(path) if path.endswith(".py") else frozenset()
    room = rooms(path)
    elsewhere = frozenset(test for test in used_by if str(PurePosixPath(test).parent) not in room)
    near = elsewhere if path.startswith("tests/") else checkout.users.nearest(elsewhere, MOST)
    found = readers(path) | (used_by - elsewhere) | near | frozenset(each for each in room if checkout.exists(each))
    if path.startswith(f"{UNIT}/") and not used_by:
        found |= {str(PurePosixPath(path).parent)}
    if not found:
        return frozenset(ALL), "nothing says which tests read it, so all of tests/unit runs"
    if path.startswith("engine/peers/"):
        return found, "the benchmarks' peers are compiled by make bench-peers, not here"
    if path.startswith("tests/") and path.endswith(".py") and not used_by and checkout.exists(path):
        return found, f"not a unit test: .venv/bin/pytest {path}" if is_test(path) else "no unit test uses it"
    left = len(elsewhere - near)
    return found, f"{left} more files of tests/unit use it; make test runs them" if left else ""


def rooms(path: str) -> frozenset[str]:
    """The folder of tests/unit that mirrors a path's: `judge` for `lab/judge/x.py`, `benchmarks` for `benchmarks/x.py`."""
    parts = PurePosixPath(path).parts
    if len(parts) < 2:
        return frozenset()
    if parts[0] in ("lab", "images") and len(parts) > 2:
        return frozenset({f"{UNIT}/{parts[1]}"})
    if parts[0] in ("reports", "benchmarks"):
        return frozenset({f"{UNIT}/{parts[0]}"})
    return frozenset()


def without_inner(tests: Collection[str]) -> set[str]:
    """Without what is in a folder that is there too: pytest would run it twice."""
    return {each for each in tests if not any(str(parent) in tests for parent in PurePosixPath(each).parents)}


def _dockerfiles(paths: Collection[str], checkout: Checkout) -> tuple[str, ...]:
    """Those that changed; all where the linter's rules did."""
    return tuple(path for path in DOCKERFILES if checkout.exists(path) and (path in paths or "images/.hadolint.yaml" in paths))
