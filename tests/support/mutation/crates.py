"""Mistakes in the engine, as cargo-mutants names them, and whether a test sees one."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.mutation.copies import ROOT, Copy, Done, jobs, run
from tests.support.mutation.lab_tests import Seen, run_pytest

# Not compiled for Linux, so no test here can see them.
ELSEWHERE = re.compile(r"/platform/(?:windows|non_linux|other)\.rs$")
# Before others, because they say least. For other types the first that cargo-mutants offers.
NEUTRAL = ("()", "Ok(())", "None", "Ok(None)", "false", "Ok(false)", "0", "Ok(0)", "vec![]", "Ok(vec![])", "String::new()", '""')
# nextest's exit codes.
_NO_TESTS, _TEST_FAILED, _BUILD_FAILED = 4, 100, 101
_FAILED = re.compile(r"^\s*(?:FAIL|TIMEOUT|SIG\w+|ABORT|LEAK-FAIL) \[[^\]]*\] (?:\([^)]*\) )?(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A function by its file and name, its crate, and the file's text with a body that does nothing."""

    path: str
    name: str
    crate: str
    body: str
    planted: str

    def __str__(self) -> str:
        return f"{self.name} ({self.path}): {self.body}"


def tool() -> list[str]:
    """The command of cargo-mutants. `$CARGO_MUTANTS` names it where it is not on the PATH."""
    return [os.environ.get("CARGO_MUTANTS", "cargo-mutants"), "mutants"]


def listed(*which: str) -> list[dict[str, Any]]:
    """All mistakes that cargo-mutants knows in the engine, or in what the arguments name."""
    done = run([*tool(), "--list", "--json", *which], 600, ROOT / "engine", os.environ)
    if done.code:
        raise SystemExit(f"cargo mutants --list: exit code {done.code}: {done.text[-500:]}")
    found = json.loads(done.text[done.text.index("[") :])
    return [each for each in found if not ELSEWHERE.search(each["file"])]


def shuffled(root: Path, seed: int) -> list[Place]:
    """Every function whose body cargo-mutants can replace, in the seed's order."""
    by_function: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in listed("--workspace"):
        if each["genre"] == "FnValue":
            by_function.setdefault((each["file"], each["span"]["start"]["line"]), []).append(each)
    places = []
    for (path, _), choices in sorted(by_function.items()):
        offered = [each["replacement"] for each in choices]
        chosen = choices[offered.index(next((each for each in NEUTRAL if each in offered), offered[0]))]
        text = (root / "engine" / path).read_text(encoding="utf-8")
        name = chosen["function"]["function_name"]
        planted = replaced(text, chosen["span"], chosen["replacement"])
        places.append(Place(path, name, chosen["package"], chosen["replacement"], planted))
    random.Random(seed).shuffle(places)
    return places


def replaced(text: str, span: dict[str, dict[str, int]], by: str) -> str:
    """The text with another piece between the span's ends, which count from one."""
    lines = text.splitlines(keepends=True)
    (first, begin), (last, end) = ((span[side]["line"] - 1, span[side]["column"] - 1) for side in ("start", "end"))
    return "".join(lines[:first]) + lines[first][:begin] + by + lines[last][end:] + "".join(lines[last + 1 :])


class Tests:
    """The engine's tests in a copy. A test that fails without a mistake proves nothing, so each set runs once without any."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self._red: dict[tuple[str, ...], set[str]] = {}

    def look(self, place: Place, *, late: bool) -> Seen | None:
        """Plant it and run tests until one fails, twice, because of it; None where it does not compile.

        First the unit tests of its crate; the `late` ones are those of the workspace, then those of ferry as a program.
        """
        done: list[str] = []
        first, *others = _sets(place.crate)
        for name, words in others if late else [first]:
            red = self._without_mistake(words)
            with self.copy.planted(f"engine/{place.path}", place.planted):
                ran = _nextest(self.copy, words)
                if ran.code == _BUILD_FAILED:
                    return None
                done.append(name)
                for test in [each for each in failed(ran) if each not in red][:3]:
                    program, _, of = test.partition(" ")
                    if _nextest(self.copy, [*words, "-E", f"binary_id(={program}) & test(={of})"]).code == _TEST_FAILED:
                        return Seen(test, tuple(done))
        return _with_servers(self.copy, place, done) if late else Seen(None, tuple(done))

    def _without_mistake(self, words: tuple[str, ...]) -> set[str]:
        if words not in self._red:
            ran = _nextest(self.copy, [*words, "--no-fail-fast"])
            if ran.code not in (0, _TEST_FAILED, _NO_TESTS):
                raise SystemExit(f"nextest {' '.join(words)}: exit code {ran.code} without a mistake: {ran.text[-500:]}")
            self._red[words] = set(failed(ran))
        return self._red[words]


def failed(ran: Done) -> list[str]:
    """Program and name of each test that failed."""
    return list(dict.fromkeys(each.strip() for each in _FAILED.findall(ran.text)))


def _sets(crate: str) -> list[tuple[str, tuple[str, ...]]]:
    """Sets of tests by name and the arguments that choose them, fastest first."""
    unit = ("--lib", "--bins") if crate in ("ferry", "ferry-engine") else ()
    found = [(f"unit tests of {crate}", ("-p", crate, *unit)), ("tests of the workspace", ("--workspace",))]
    return found if unit else [(f"tests of {crate}", ("-p", crate)), *found[1:]]


def _with_servers(copy: Copy, place: Place, done: list[str]) -> Seen:
    """The tests of ferry against real and misbehaving servers, with the copy's ferry."""
    ferry = str(copy.root / "engine/target/debug/ferry")

    def build() -> None:
        built = _cargo(copy, "build", "--quiet", "-p", "ferry")
        if built.code:
            raise SystemExit(f"ferry does not build: {built.text[-500:]}")

    with copy.planted(f"engine/{place.path}", place.planted):
        build()
        _, failed = run_pytest(copy, ["tests/engine", "-n", jobs(), "--dist", "loadfile"], 1500, THROUGHLINE_FERRY=ferry)
    done.append("tests/engine")
    if failed:
        build()
    for test in failed[:3]:
        if run_pytest(copy, [test], 600, THROUGHLINE_FERRY=ferry)[0] == 0:
            return Seen(test, tuple(done))
    return Seen(None, tuple(done))


def _cargo(copy: Copy, *words: str) -> Done:
    return copy.run(["cargo", *words], 1800, folder="engine", CARGO_BUILD_BUILD_DIR="target/build", CARGO_BUILD_JOBS=jobs())


def _nextest(copy: Copy, words: Sequence[str]) -> Done:
    variables = {"PROPTEST_RNG_SEED": "2026", "CARGO_BUILD_BUILD_DIR": "target/build", "CARGO_BUILD_JOBS": jobs()}
    command = [
        "cargo",
        "nextest",
        "run",
        "--locked",
        "--cargo-quiet",
        "--show-progress",
        "none",
        "--status-level",
        "fail",
        "-j",
        jobs(),
    ]
    return copy.run([*command, *words], 1200, folder="engine", **variables)
