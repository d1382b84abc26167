"""Finds what makes a test depend on how fast the machine is: `python -m tests.support.waits` compares it with tests/waits.txt.

    sleep    a pause of real time in a test or its helpers
    timeout  a limit of less than two seconds that a slow machine may miss: an argument, or a flag of ferry
    clock    an assertion about a duration that was measured on the machine's clock

A line of the file is `KIND | PATH::FUNCTION | REASON`; functions are patterns of a shell. The command fails where something
is found that no line argues, and where a line argues nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARGUED = ROOT / "tests/waits.txt"
LEAST_S = 2.0
KINDS = ("sleep", "timeout", "clock")
_CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns", "process_time"}
_READ = "read: "
_LIMIT = re.compile(r"(?:^|_)(?:timeout|deadline|patience|wait)(?:_s|_ms)?$")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


@dataclass(frozen=True, order=True)
class Found:
    """One place. `where` is the path and the function, `line` only for people."""

    where: str
    kind: str
    line: int
    text: str


def places(source: str, path: str) -> list[Found]:
    """All places of a module."""
    found: list[Found] = []
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(each) for function in functions for each in ast.walk(function) if each is not function and each in functions}
    outer = [function for function in functions if id(function) not in inner]
    for function in outer:
        for kind, node in _in_function(function):
            found.append(Found(f"{path}::{function.name}", kind, node.lineno, ast.unparse(node)[:90]))
    inside = {id(each) for function in outer for each in ast.walk(function)}
    for node in ast.walk(tree):
        if id(node) not in inside and isinstance(node, ast.Call | ast.Tuple) and (kind := _pause_or_limit(node)):
            found.append(Found(f"{path}::", kind, node.lineno, ast.unparse(node)[:90]))
    return sorted(found)


def _in_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    measured = _measured(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Call | ast.Tuple) and (kind := _pause_or_limit(node)):
            yield kind, node
        elif isinstance(node, ast.Assert) and any(_is_measured(each, measured) for each in _compared(node.test)):
            yield "clock", node


def _pause_or_limit(node: ast.Call | ast.Tuple) -> str:
    """The kind of a call or of words for ferry, or nothing."""
    if isinstance(node, ast.Tuple):
        return "timeout" if _short_flags(node.elts) else ""
    name = ast.unparse(node.func)
    if name in ("time.sleep", "sleep", "asyncio.sleep"):
        return "sleep"
    if any(keyword.arg and _LIMIT.search(keyword.arg) and _is_short(keyword.arg, keyword.value) for keyword in node.keywords):
        return "timeout"
    return "timeout" if _short_flags(node.args) else ""


def _is_short(name: str, value: ast.expr) -> bool:
    if not isinstance(value, ast.Constant) or isinstance(value.value, bool) or not isinstance(value.value, int | float):
        return False
    return value.value / (1000 if name.endswith("_ms") else 1) < LEAST_S


def _short_flags(words: Sequence[ast.expr]) -> bool:
    """`--stall 200ms`, `--timeout-first-byte 1s` among the words of a command line."""
    texts = [word.value if isinstance(word, ast.Constant) and isinstance(word.value, str) else "" for word in words]
    for flag, value in pairwise(texts):
        if flag == "--stall" or flag.startswith("--timeout-"):
            matched = _DURATION.fullmatch(value)
            if matched and float(matched[1]) / (1000 if matched[2] == "ms" else 1) < LEAST_S:
                return True
    return False


def _measured(function: ast.AST) -> set[str]:
    """Names of what was computed from the machine's clock: durations, deadlines. The order of two moments is neither."""
    read: set[str] = set()
    computed: set[str] = set()
    for _ in range(3):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                names = {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
                if _is_read(node.value, read):
                    read |= names
                elif _is_measured(node.value, computed) or _computes(node.value, read):
                    computed |= names
    return computed | {f"{_READ}{name}" for name in read}


def _is_measured(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return _computes(node, {name.removeprefix(_READ) for name in names})


def _computes(node: ast.AST, read: set[str]) -> bool:
    """Arithmetic with a moment or with what was computed from one."""
    return isinstance(node, ast.BinOp) and any(_is_read(each, read) or _computes(each, read) for each in (node.left, node.right))


def _is_read(node: ast.AST, read: set[str]) -> bool:
    """A moment of the machine's clock; a call that merely takes such a value is something else."""
    if isinstance(node, ast.Name):
        return node.id in read
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.attr in _CLOCKS and isinstance(node.func.value, ast.Name) and node.func.value.id == "time"
    return False


def _compared(test: ast.expr) -> Iterator[ast.AST]:
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)


def argued(text: str) -> list[tuple[str, str]]:
    """Kinds and patterns of the file's lines. ValueError names a line that has another form."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            words = [word.strip() for word in line.split(" | ")]
            if len(words) != 3 or not all(words) or words[0] not in KINDS:
                raise ValueError(f"line {number} is not `KIND | PATH::FUNCTION | REASON`: {line}")
            found.append((words[0], words[1]))
    return found


def problems(found: Sequence[Found], lines: Sequence[tuple[str, str]]) -> list[str]:
    """Places that no line argues, and lines that argue nothing."""
    said = [
        f"{each.where.partition('::')[0]}:{each.line}: {each.kind}, not argued: {each.text}"
        for each in found
        if not any(kind == each.kind and fnmatchcase(each.where, pattern) for kind, pattern in lines)
    ]
    return said + [
        f"{kind} | {pattern}: no test has such a line"
        for kind, pattern in lines
        if not any(kind == each.kind and fnmatchcase(each.where, pattern) for each in found)
    ]


def main() -> int:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    found = [each for path in paths for each in places(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))]
    wrong = problems(found, argued(ARGUED.read_text(encoding="utf-8")))
    print("\n".join(wrong) if wrong else f"{len(found)} waits and clocks in tests, each argued in {ARGUED.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
