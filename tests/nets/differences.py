"""What differs between two stored runs of the same work, without what no two runs have in common."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tests.nets.rows import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VOLATILE = (
    "*.at",
    "*.ended_at",
    "*.started_at",
    "*.run",
    "*.timing_s.*",
    "*.real_s",
    "*.machine.cpu_s",
    "*.machine.load_1min",
    "*.machine.steal_s",
    "*.lab.commit",
    "*.lab.dirty",
)
"""Clocks and load of the machine, names of runs, and the revision of the lab: they differ between two runs of one lab."""
_LINE_KEY = re.compile(r"\[\d+\]")


def flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Each leaf of a JSON document with its path (`.samples[3].rate`). An empty list or mapping is a leaf."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from flat(each, f"{name}.{key}")
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from flat(each, f"{name}[{number}]")
    else:
        yield name, value


def compare_documents(base: object, here: object, kind: Kind) -> list[str]:
    """One line for each leaf that differs: its path, before and now.

    In real time: for each path without numbers of lists that only one of them has, and for each verdict of another name.
    """
    old, new = dict(flat(base)), dict(flat(here))
    if kind == "real":
        return _compare_forms(old, new)
    names = [name for name in dict.fromkeys([*old, *new]) if not _matches(name, _VOLATILE)]
    return [f"{name}: {_shown(old, name)} -> {_shown(new, name)}" for name in names if _shown(old, name) != _shown(new, name)]


def _compare_forms(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    one, two = ({_LINE_KEY.sub("[]", name) for name in leaves} for leaves in (old, new))
    lines = [f"{name}: only before" for name in sorted(one - two)] + [f"{name}: only now" for name in sorted(two - one)]
    names = [name for name in old if name.endswith("verdict.name") and name in new]
    return lines + [f"{name}: {old[name]!r} -> {new[name]!r}" for name in names if old[name] != new[name]]


def compare_runs(base: Path, here: Path, kind: Kind) -> list[str]:
    """The differences of all JSON files of two runs, each line with its file. A file that one of them lacks is a line."""
    old, new = ({str(path.relative_to(run)) for path in run.rglob("*.json")} for run in (base, here))
    lines = [f"{name}: only before" for name in sorted(old - new)] + [f"{name}: only now" for name in sorted(new - old)]
    for name in sorted(old & new):
        one, two = (json.loads((run / name).read_text(encoding="utf-8")) for run in (base, here))
        lines += [f"{name}: {line}" for line in compare_documents(one, two, kind)]
    return lines


def compare_texts(base: str, here: str) -> list[str]:
    """One line for the first line that differs, and how many do."""
    pairs = [*zip(base.splitlines(), here.splitlines(), strict=False)]
    differ = [(number, one, two) for number, (one, two) in enumerate(pairs, 1) if one != two]
    lengths = len(base.splitlines()) - len(here.splitlines())
    if not differ:
        return [f"{abs(lengths)} lines {'less' if lengths > 0 else 'more'}"] if lengths else []
    number, one, two = differ[0]
    return [f"line {number} of {len(differ)} that differ: {one[:160]!r} -> {two[:160]!r}"]


def undeclared(lines: list[str], declared: list[str]) -> list[str]:
    """Those that no declared pattern (`*` for any text) is the beginning of."""
    meant = [re.compile(re.escape(pattern).replace(r"\*", ".*")) for pattern in declared]
    return [line for line in lines if not any(each.match(line) for each in meant)]


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _shown(leaves: Mapping[str, object], name: str) -> str:
    return json.dumps(leaves[name]) if name in leaves else "missing"
