"""`cargo test`: the programs that cargo compiles for it, in their packages' folders."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.model.errors import UsageProblem
from lab.run.project.plan import Outside, Plan, Step, name_of, names, parted, refused

_SWITCHES = names(
    "q quiet v vv verbose workspace all lib bins tests examples benches all-targets release r all-features no-default-features "
    "locked offline frozen ignore-rust-version timings"
)
_VALUES = names(
    "p package exclude bin test example bench F features target target-dir manifest-path profile j jobs color config Z"
)
_JOINED = re.compile(r"-[pFjZ].+")
_KINDS = ("lib", "rlib", "proc-macro", "bin", "test", "example", "bench")
_NO_DOCS = "tests in documentation are not run: rustdoc compiles them while they run"


@dataclass
class _Words:
    cargo: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    goes_on: bool = False


def plan(cargo: str, words: Sequence[str], outside: Outside) -> Plan:
    found = split(words)
    text = outside.ask(cargo, "test", "--no-run", "--message-format=json-render-diagnostics", *found.cargo)
    return Plan(tuple(steps(text, found.program)), stops=not found.goes_on, notes=(_NO_DOCS,))


def split(words: Sequence[str]) -> _Words:
    """The words of `cargo test` by where they belong. Raises UsageProblem."""
    found = _Words()
    left, after = parted(words)
    while left:
        word = left.pop(0)
        name = name_of(word)
        if not word.startswith("-"):
            found.program.append(word)
        elif word == "--no-fail-fast":
            found.goes_on = True
        elif name in _SWITCHES or ("=" in word and name in _VALUES) or _JOINED.fullmatch(word):
            found.cargo.append(word)
            if name in ("q", "quiet"):
                found.program.append("--quiet")
        elif name in _VALUES:
            if not left:
                raise UsageProblem(f"cargo test {word}: it needs a value", remedy=f"{word} VALUE")
            found.cargo += [word, left.pop(0)]
        else:
            raise refused("cargo test", word, "flags of the tests go after --")
    found.program += after
    return found


def steps(text: str, words: Sequence[str]) -> list[Step]:
    """A step for each test program that cargo names, sorted: cargo names them as they become ready."""
    found = []
    for line in text.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            found.append((_order(message), _step(message, words)))
    return [step for _, step in sorted(found, key=lambda pair: pair[0])]


def _order(message: dict[str, Any]) -> tuple[str, int, str]:
    kind = message["target"]["kind"][0]
    return message["manifest_path"], _KINDS.index(kind) if kind in _KINDS else len(_KINDS), message["target"]["name"]


def _step(message: dict[str, Any], words: Sequence[str]) -> Step:
    program, folder = Path(message["executable"]), Path(message["manifest_path"]).parent
    variables = {
        "CARGO_MANIFEST_DIR": str(folder),
        "CARGO_MANIFEST_PATH": message["manifest_path"],
        "LD_LIBRARY_PATH": str(program.parent),
    }
    return Step(f"{message['target']['name']} ({message['target']['kind'][0]})", (str(program), *words), folder, variables)
