"""The result of a cell in one place, as digests, and how two places differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.model.results import CellResult
from lab.store.deterministic import digest, first_difference, view
from lab.store.run_dir import RunDir, read_cell


class Came(NamedTuple):
    """The part of a cell's result that must be equal, the SHA-256 of its captures, and the digest of what counts."""

    view: Mapping[str, object]
    captures: tuple[str, ...]
    counts: str

    @property
    def digest(self) -> str:
        """Digest of result and captures, 64 hexadecimal digits."""
        return hashlib.sha256("".join((digest(self.view), *self.captures)).encode()).hexdigest()


def found_in(results: Path) -> dict[str, Came]:
    """What came of the latest run's cells, by their names."""
    run = RunDir.find("latest", results=results)
    came = {}
    for path in sorted(run.cells.glob("*.json")):
        cell = read_cell(path)
        files = sorted(run.evidence(cell.id).glob("*.pcap"))
        captures = tuple(hashlib.sha256(each.read_bytes()).hexdigest() for each in files)
        came[cell.id] = Came(_view(cell), captures, cell.virtual.digest if cell.virtual else "")
    return came


def _view(cell: CellResult) -> dict[str, object]:
    """The result without what is the place's: a userland's folder (its digest stays), the cache's certificate of the link, and
    what another version of tc says of the router, or leaves out.
    """
    found: dict[str, Any] = view(cell)
    del found["certificate"]
    del found["router"]["iproute2"]
    for facts in filter(None, (found["before"], found["after"])):
        for qdisc in facts["router"]["qdiscs"]:
            del qdisc["options"]
    for userland in (found["userlands"] or {}).values():
        userland.pop("name", None)
    return found


def apart(here: Came, there: Came) -> str:
    """Empty where both are equal; else what differs first."""
    return "" if here.digest == there.digest else first_difference(here.view, there.view) or "captures"


def keep(came: Mapping[str, Came], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: each._asdict() for name, each in came.items()}))


def kept(file: Path) -> dict[str, Came]:
    """What `keep` wrote; empty where there is no such file."""
    if not file.exists():
        return {}
    return {
        name: Came(each["view"], tuple(each["captures"]), each["counts"]) for name, each in json.loads(file.read_text()).items()
    }
