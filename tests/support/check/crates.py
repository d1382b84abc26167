"""Which crates of the engine a change touches, which depend on them, and which of their tests read a real clock."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ENGINE = "engine/"
_CRATES = "engine/crates/"
# They change what every crate is built from, or how.
_EVERY = ("engine/Cargo.toml", "engine/Cargo.lock", "engine/.cargo/", "engine/rustfmt.toml")
# One of its tests compares them with what the program prints.
_PAGES, _PAGES_READER = "engine/docs/", "ferry"
_TABLES = ("dependencies", "dev-dependencies", "build-dependencies")


def dependents(root: Path) -> dict[str, frozenset[str]]:
    """For every crate of the workspace, the crates that depend on it, directly or not, itself included."""
    manifests = {file.parent.name: tomllib.loads(file.read_text()) for file in sorted((root / _CRATES).glob("*/Cargo.toml"))}
    uses = {
        name: {used for table in _tables(manifest) for used in table} & manifests.keys() for name, manifest in manifests.items()
    }
    return {name: frozenset(each for each in uses if name in reached(each, uses)) for name in uses}


def _tables(manifest: Mapping[str, object]) -> Iterable[Mapping[str, object]]:
    """Its dependencies, those of single systems too."""
    target = manifest.get("target")
    places = [manifest, *(target.values() if isinstance(target, dict) else ())]
    return [table for place in places for name in _TABLES if isinstance(table := place.get(name), dict)]


def reached(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    """What the edges lead to from here, and here."""
    seen, todo = {start}, [start]
    while todo:
        for each in edges.get(todo.pop(), ()):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return seen


def touched(paths: Iterable[str], above: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The crates to test: those that changed and those that depend on them; `above` is what `dependents` gives."""
    found: set[str] = set()
    for path in paths:
        crate = path.removeprefix(_CRATES).partition("/")[0] if path.startswith(_CRATES) else ""
        if path.startswith(_EVERY):
            found |= above.keys()
        elif path.startswith(_PAGES):
            found |= above.get(_PAGES_READER, frozenset())
        else:
            found |= above.get(crate, frozenset())
    return tuple(sorted(found))


def filterset(pattern: str) -> str:
    """nextest's expression for the tests whose `PROGRAM NAME` matches the pattern (REALTIME of tests/support/engine_tests.py)."""
    parts = []
    for alternative in _alternatives(pattern):
        program, _, name = alternative.partition(" ")
        parts.append(f"(binary_id(/^({program})$/) & test(/^({name})$/))")
    return " + ".join(parts)


def _alternatives(pattern: str) -> list[str]:
    """Split at each `|` that is in no group."""
    parts, depth = [""], 0
    for character in pattern:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
