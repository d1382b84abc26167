"""Mistakes in the engine, as cargo-mutants names them, and whether a test sees that a function does nothing."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.mutation.copies import ROOT, Copy, Done, jobs, run
from tests.support.mutation.lab_tests import Seen, run_pytest
from tests.support.mutation.switches import SWITCH, Mistake

# Not compiled for Linux, so no test here can see them.
ELSEWHERE = re.compile(r"/platform/(?:windows|non_linux|other)\.rs$")
# Before others, because they say least. For other types the first that cargo-mutants offers.
NEUTRAL = ("()", "Ok(())", "None", "Ok(None)", "false", "Ok(false)", "0", "Ok(0)", "vec![]", "Ok(vec![])", "String::new()", '""')
# A copy has its own folder for what is built: the workspace's is shared by all checkouts. A mistake needs no backtrace.
VARIABLES = {
    "CARGO_BUILD_BUILD_DIR": "target/build",
    "CARGO_BUILD_JOBS": jobs(),
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "PROPTEST_RNG_SEED": "2026",
}
# A mistake may make a test wait for ever.
_CONFIG = '[profile.default]\nslow-timeout = { period = "60s", terminate-after = 2 }\n'
# nextest's exit codes.
_NO_TESTS, _TEST_FAILED = 4, 100
_FAILED = re.compile(r"^\s*(?:FAIL|TIMEOUT|SIG\w+|ABORT|LEAK-FAIL) \[[^\]]*\] (?:\([^)]*\) )?(.+)$", re.MULTILINE)


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


def shuffled(seed: int) -> list[Mistake]:
    """For every function whose body cargo-mutants can replace the mistake that it does nothing, in the seed's order."""
    by_function: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in listed("--workspace"):
        if each["genre"] == "FnValue":
            by_function.setdefault((each["file"], each["span"]["start"]["line"]), []).append(each)
    chosen = []
    for _, choices in sorted(by_function.items()):
        offered = [each["replacement"] for each in choices]
        chosen.append(choices[offered.index(next((each for each in NEUTRAL if each in offered), offered[0]))])
    random.Random(seed).shuffle(chosen)
    return [Mistake.of(number, each) for number, each in enumerate(chosen, 1)]


class Tests:
    """The engine's tests in a copy that was built with switches. A test that fails with no switch on proves nothing, so each set
    runs once like that."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self._red: dict[str, set[str]] = {}
        self._config = copy.root / "engine/target/mistakes.toml"
        self._config.parent.mkdir(exist_ok=True)
        self._config.write_text(_CONFIG)

    def look(self, mistake: Mistake, *, late: bool) -> Seen:
        """Switch it on and run tests until one fails, twice, because of it.

        First the unit tests of its crate; the `late` ones are those of the workspace, then those of ferry as a program.
        """
        done: list[str] = []
        first, *others = _sets(mistake.crate)
        on = {SWITCH: str(mistake.number)}
        for name, which in others if late else [first]:
            red = self._without_mistake(which)
            ran = self._nextest(which, on)
            done.append(name)
            for test in [each for each in failed(ran) if each not in red][:3]:
                program, _, of = test.partition(" ")
                if self._nextest(f"binary_id(={program}) & test(={of})", on).code == _TEST_FAILED:
                    return Seen(test, tuple(done))
        if not late:
            return Seen(None, tuple(done))
        return Seen(with_servers(self.copy, mistake.number, ["tests/engine"]), (*done, "tests/engine"))

    def _without_mistake(self, which: str) -> set[str]:
        if which not in self._red:
            ran = self._nextest(which, {}, "--no-fail-fast")
            if ran.code not in (0, _TEST_FAILED, _NO_TESTS):
                raise SystemExit(f"nextest -E '{which}': exit code {ran.code} without a mistake: {ran.text[-500:]}")
            self._red[which] = set(failed(ran))
        return self._red[which]

    def _nextest(self, which: str, on: Mapping[str, str], *words: str) -> Done:
        quiet = ["--cargo-quiet", "--show-progress", "none", "--status-level", "fail", "-j", jobs()]
        command = [
            "cargo",
            "nextest",
            "run",
            "--locked",
            "--workspace",
            "--config-file",
            self._config,
            *quiet,
            "-E",
            which,
            *words,
        ]
        return self.copy.run(command, 1200, folder="engine", **VARIABLES, **on)


def with_servers(copy: Copy, number: int, which: Sequence[str]) -> str | None:
    """The test of ferry against real and misbehaving servers that sees the mistake in the copy's ferry; None where none does."""
    ferry = copy.root / "engine/target/debug/ferry"
    mistaken = switched(ferry, number, copy.root / "engine/target/mistaken/ferry")
    # A test that fails is not run again once the machine is quiet.
    words = [*which, "-n", jobs(), "--dist", "loadfile", "--again-for", "0", "--await-quiet", "0"]
    _, red = run_pytest(copy, words, 1500, ROUGHWATER_FERRY=str(mistaken))
    for test in red[:3]:
        if run_pytest(copy, [test], 600, ROUGHWATER_FERRY=str(ferry))[0] == 0:
            return test
    return None


def switched(program: Path, number: int, script: Path) -> Path:
    """Write a script that runs the program with this mistake on: a host of the lab starts it without the tests' variables."""
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\n{SWITCH}={number} exec {shlex.quote(str(program))} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def failed(ran: Done) -> list[str]:
    """Program and name of each test that failed."""
    return list(dict.fromkeys(each.strip() for each in _FAILED.findall(ran.text)))


def _sets(crate: str) -> list[tuple[str, str]]:
    """Sets of tests by name and nextest's words for them, fastest first."""
    if crate in ("ferry", "ferry-engine"):
        return [(f"unit tests of {crate}", f"package(={crate}) & (kind(lib) | kind(bin))"), ("tests of the workspace", "all()")]
    return [(f"tests of {crate}", f"package(={crate})"), ("tests of the workspace", "all()")]
