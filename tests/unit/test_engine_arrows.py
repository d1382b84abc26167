"""Which room of ferry-engine may use which other one (docs/decisions/0019), and no two files that need each other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "engine/crates"
PLAIN = {"clock", "error", "filter", "log", "observer", "options", "pages", "report", "stop", "sync", "units"}
"""Types and helpers that every room may use."""
ROOMS = {
    "platform": set[str](),
    "files": {"platform"},
    "net": {"platform"},
    "ssh": {"platform"},
    "transfer": {"files", "net", "platform"},
    "sftp": {"files", "net", "platform", "ssh", "transfer"},
    "job": {"files", "net", "platform", "sftp", "ssh", "transfer"},
    "remote": {"platform", "sftp_url"},
    "sftp_url": {"files"},
    # Their types are part of the options.
    "options": {"files", "net", "platform"},
}

Path_ = tuple[str, ...]


@cache
def arrows(crate: str) -> dict[Path_, set[Path_]]:
    """For every file, the files of the same crate that it imports. A module and its own submodules count as one place."""
    root = CRATES / crate / "src"
    files = {_module(path.relative_to(root)): path for path in root.rglob("*.rs") if not re.search("tests|faults", path.stem)}
    found: dict[Path_, set[Path_]] = {}
    for module, path in files.items():
        named = {_resolved(module, name.split("::"), set(files)) for name in _imports(path.read_text())}
        related = {other for other in named if other[: len(module)] == module or module[: len(other)] == other}
        found[module] = named - related
    return found


def _module(path: Path) -> Path_:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def _imports(text: str) -> Iterator[str]:
    text = re.sub(r"//.*", "", re.split(r"\n#\[cfg\(test\)\]", text)[0])
    for use in re.findall(r"\buse ([^;]+);", text):
        yield from _flat(re.sub(r"\s+", "", re.sub(r" as \w+", "", use)))
    yield from re.findall(r"\b(?:crate|super)(?:::\w+)+", text)


def _flat(use: str) -> Iterator[str]:
    """`a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`."""
    prefix, brace, rest = use.partition("{")
    if not brace:
        yield use
        return
    depth, item = 0, ""
    for letter in rest[:-1] + ",":
        if letter == "," and depth == 0:
            yield from _flat(prefix + item)
            item = ""
        else:
            depth += (letter == "{") - (letter == "}")
            item += letter


def _resolved(module: Path_, names: list[str], files: set[Path_]) -> Path_:
    """The deepest file that a name leads to; the crate's root for names of other crates."""
    base: Path_ = ()
    if names[0] in ("super", "self"):
        base = module
        while names[0] in ("super", "self"):
            base = base[:-1] if names[0] == "super" else base
            names = names[1:]
    elif names[0] == "crate":
        names = names[1:]
    elif (*module, names[0]) in files:
        base = module
    else:
        return ()
    paths = [base + tuple(names[:count]) for count in range(len(names) + 1)]
    return next((path for path in reversed(paths) if path in files), ())


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in CRATES.glob("*/Cargo.toml")))
def test_no_two_files_need_each_other(crate: str) -> None:
    try:
        TopologicalSorter(arrows(crate)).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join("/".join(module) for module in error.args[1]))


def test_rooms_of_the_engine_use_only_the_rooms_below_them() -> None:
    uses = {(module[0], other[0]) for module, others in arrows("ferry-engine").items() for other in others if module and other}
    wrong = {(one, other) for one, other in uses if one != other and other not in ROOMS.get(one, set()) | PLAIN}
    assert not wrong


@pytest.mark.parametrize("crate", ["clap", "indicatif", "ferry", "clap_complete"])
def test_the_engine_has_no_flags_and_no_terminal(crate: str) -> None:
    manifest = tomllib.loads((CRATES / "ferry-engine/Cargo.toml").read_text())
    assert crate not in manifest["dependencies"]
