"""The pairs of cells that differ in one key only, which `lab compare --by` puts side by side; pure.

The keys are client, version, system, backend, clock and topology. Two cells are a pair when the key differs and the rest of their
ids is equal. Circumstances that are not part of an id (version, system, backend, clock, machine) may differ as well:
`lab.judge.compare.differences` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from lab.model.cell_name import format_transfer
from lab.model.results import CellResult

ByKey = Literal["client", "version", "os", "backend", "topology", "clock"]
BY_KEYS: tuple[ByKey, ...] = get_args(ByKey)
_VERSION = re.compile(r"\d+(?:\.\d+)+\S*")


@dataclass(frozen=True)
class Match:
    """A pair: their common name, and each cell's value of the key."""

    subject: str
    a: CellResult
    b: CellResult
    a_value: str
    b_value: str


def os_of(cell: CellResult) -> str:
    """The system that the client ran on: Linux, Wine or Windows.

    From the facts `system` and `os` in the snapshot of the machine or of the client's host. Without them, Linux: the lab ran
    nowhere else before it recorded them. A Windows program under Wine is known by its command line.
    """
    if any(re.fullmatch(r"(?:.*/)?wine(?:64)?", word) for word in cell.client.command[:1]):
        return "Wine"
    host = cell.before.hosts.get("client", {})
    for facts in (host, cell.before.machine):
        for key in ("os", "system"):
            if isinstance(value := facts.get(key), str) and value:
                return next((name for name in ("Wine", "Windows", "Linux") if name.lower() in value.lower()), value)
    return "Linux"


def place_of(cell: CellResult) -> str:
    """The system that `os_of` names, with Linux on a virtual machine kept apart: Linux, Linux VM, Wine or Windows."""
    found = os_of(cell)
    return "Linux VM" if found == "Linux" and cell.backend == "vagrant" else found


def short_version(cell: CellResult) -> str:
    """The number alone: "7.88.1" of "curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/..."; the complete text where it has no number."""
    found = _VERSION.search(cell.client.version)
    return found[0] if found else cell.client.version


def value_of(cell: CellResult, by: ByKey) -> str:
    """The cell's value of the key, as printed."""
    return _VALUES[by](cell)


def match_cells(a: Sequence[CellResult], b: Sequence[CellResult], by: ByKey) -> list[Match]:
    """Every pair of one cell of `a` and one of `b`, in A's order."""
    return [match for one in a for other in b if (match := _match(one, other, by)) is not None and match.a_value != match.b_value]


def match_within(cells: Sequence[CellResult], by: ByKey) -> list[Match]:
    """The pairs of one run: the first cell of each subject, in the order they started, against every other."""
    firsts: dict[str, CellResult] = {}
    found: list[Match] = []
    for cell in cells:
        first = firsts.setdefault(_subject(cell, by), cell)
        if (match := _match(first, cell, by)) is not None and match.a_value != match.b_value:
            found.append(match)
    return found


def _match(a: CellResult, b: CellResult, by: ByKey) -> Match | None:
    subject = _subject(a, by)
    return Match(subject, a, b, value_of(a, by), value_of(b, by)) if subject == _subject(b, by) else None


def _subject(cell: CellResult, by: ByKey) -> str:
    """The cell's id without the part that the key names; for a version that is `@8.4.0` in `curl@8.4.0`."""
    client, topology = cell.client.name, cell.topology.name
    head = f"{client}--{topology}--"
    # An id may come from another lab.
    asked = cell.id.removeprefix(head) if cell.id.startswith(head) else format_transfer(cell.transfer)
    parts = {"client": client.partition("@")[0] if by == "version" else client, "topology": topology, "asked": asked}
    return "--".join(part for name, part in parts.items() if name != by)


_VALUES: dict[ByKey, Callable[[CellResult], str]] = {
    "client": lambda cell: cell.client.name,
    "version": short_version,
    "os": place_of,
    "backend": lambda cell: cell.backend,
    "topology": lambda cell: cell.topology.name,
    "clock": lambda cell: cell.clock,
}
