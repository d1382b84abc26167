"""The programs of a crate's tests, run with one mistake switched on."""

from __future__ import annotations

import json
import os
import re
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.mutation.copies import Copy, Done, jobs, run
from tests.support.mutation.switches import SWITCH

# As cargo-mutants: a mistake may make a test wait for ever.
_LEAST_LIMIT_S = 20.0
_LIMIT_FACTOR = 5.0
_BASELINE_S = 300.0
_QUICK_S = 0.2
# And may make it take all memory.
_MEMORY = 8 << 30
_FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A file that cargo built, and the folder in which its tests run."""

    name: str
    file: str
    folder: Path


@dataclass
class Batch:
    """Tests of a program that run together, and the seconds that they take without a mistake."""

    program: Program
    tests: list[str]
    took_s: float


class Programs:
    """Those that cargo's messages, in JSON, name. A test that fails without a mistake is left out."""

    def __init__(self, copy: Copy, messages: str) -> None:
        self._copy = copy
        self._batches: list[Batch] = []
        for program in found(messages):
            quick, slow = Batch(program, [], 0.0), Batch(program, [], 0.0)
            for test in _names(self._run(program, 0, 60, "--list", "--format", "terse").text):
                begun = time.monotonic()
                ran = self._run(program, 0, _BASELINE_S, "--exact", test)
                took_s = time.monotonic() - begun
                if ran.code == 0:
                    batch = quick if took_s < _QUICK_S else slow
                    batch.tests.append(test)
                    batch.took_s += took_s
                else:
                    print(f"left out, as it fails without a mistake: {program.name} {test}", flush=True)
            self._batches += [batch for batch in (quick, slow) if batch.tests]
        # Those that take long see few mistakes that the others do not.
        self._batches.sort(key=lambda batch: batch.took_s / len(batch.tests))

    def look(self, number: int) -> str | None:
        """What saw the mistake: a test that fails because of it, or a program that did not end. None where nothing did."""
        for batch in self._batches:
            limit_s = max(_LEAST_LIMIT_S, _LIMIT_FACTOR * batch.took_s)
            ran = self._run(batch.program, number, limit_s, "--exact", *batch.tests)
            if ran.code is None:
                return f"{batch.program.name} did not end"
            if ran.code and not (red := failed(ran)):
                return f"{batch.program.name} ended with {ran.code}"
            for test in red[:3] if ran.code else ():
                if self._run(batch.program, 0, limit_s, "--exact", test).code == 0:
                    return f"{batch.program.name} {test}"
                batch.tests.remove(test)
        return None

    def _run(self, program: Program, number: int, limit_s: float, *words: str) -> Done:
        env = {**os.environ, "PROPTEST_RNG_SEED": "2026", "PROPTEST_FAILURE_PERSISTENCE": "off", SWITCH: str(number)}
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, limits[1]))
        try:
            return run([program.file, *words, "--test-threads", jobs()], limit_s, program.folder, env)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)


def _names(listed: str) -> list[str]:
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


def found(messages: str) -> list[Program]:
    """The programs of tests in cargo's messages."""
    programs = []
    for line in messages.splitlines():
        if not line.startswith("{"):
            continue
        each = json.loads(line)
        if each.get("executable") and each["profile"]["test"]:
            programs.append(Program(each["target"]["name"], each["executable"], Path(each["manifest_path"]).parent))
    return programs


def failed(ran: Done) -> Sequence[str]:
    """The tests that failed, by their names in the program."""
    return list(dict.fromkeys(_FAILED.findall(ran.text)))
