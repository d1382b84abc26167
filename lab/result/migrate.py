"""Results of older labs, read by this one: one step per change of schema, on the raw document, before any model sees it.

A step is a pure function of one document of one kind; it gives a new document of the next version and touches nothing else. What
the older lab did not know is written as what it is, not known (null, or empty), never guessed. Files on disk stay as they are:
`lab results migrate` rewrites them when somebody asks.

A change of schema adds one row to STEPS, a folder tests/data/results-OLD with real files of the version before it, and a line to
docs/results.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from lab.errors import UsageProblem
from lab.result.models import SCHEMA_VERSION

Kind = Literal["cell", "run", "study", "pair", "finding", "qualification"]
KINDS: tuple[Kind, ...] = ("cell", "run", "study", "pair", "finding", "qualification")
Document: TypeAlias = Mapping[str, object]
Step = Callable[[Document], dict[str, object]]


def upgrade(document: object, kind: Kind, origin: str) -> dict[str, object]:
    """`document` as today's schema has it. Raises UsageProblem, one line with `origin`: no result, newer, or unknown."""
    known = checked_version(document, SCHEMA_VERSION, origin)
    while (version := str(known["schema_version"])) != SCHEMA_VERSION:
        if version not in STEPS:
            wanted = ", ".join((*STEPS, SCHEMA_VERSION))
            remedy = "read it with the lab that wrote it"
            raise UsageProblem(f"{origin}: schema {version} is none that this lab knows ({wanted})", remedy=remedy)
        target, step = STEPS[version][0], STEPS[version][1].get(kind)
        known = {**(step(known) if step else known), "schema_version": target}
    return known


def checked_version(document: object, newest: str, origin: str, *, remedy: str = "") -> dict[str, object]:
    """`document`, an object that names a schema_version of at most `newest`. Raises UsageProblem, one line with `origin`."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,6}\.[0-9]{1,6}", version):
        raise UsageProblem(f"{origin}: not of this lab, it names no schema_version such as {newest}", remedy=remedy)
    if version_number(version) > version_number(newest):
        newer = f"{origin}: schema {version} is newer than {newest}, the newest this lab reads"
        raise UsageProblem(newer, remedy="update the lab")
    return document


def version_number(version: str) -> tuple[int, ...]:
    """For comparing: 1.10 is newer than 1.9."""
    return tuple(int(part) for part in version.split("."))


def _cell_1_0(cell: Document) -> dict[str, object]:
    """1.1 watches the machine, keeps what it spoilt, and says when it meant to look and how the interval was made."""
    grown = {"set_aside": [], "host": None, "plan": [], **_verdict_1_0(cell)}
    if isinstance(samples := cell.get("samples"), list):
        grown["samples"] = [_with(sample, host=None) for sample in samples]
    return grown


def _verdict_1_0(document: Document) -> dict[str, object]:
    """1.1 says how an interval was made."""
    return {**document, **({"verdict": _with(document["verdict"], method=None)} if "verdict" in document else {})}


def _cell_1_1(cell: Document) -> dict[str, object]:
    """1.2 knows a second clock and seeds of samples; every older cell ran in real time."""
    grown: dict[str, object] = {"clock": "real", "virtual": None, **cell}
    if isinstance(samples := cell.get("samples"), list):
        grown["samples"] = [_with(sample, seed=None) for sample in samples]
    if isinstance(aside := cell.get("set_aside"), list):
        grown["set_aside"] = [
            {**each, "sample": _with(each["sample"], seed=None)} if isinstance(each, dict) and "sample" in each else each
            for each in aside
        ]
    return grown


def _run_1_1(run: Document) -> dict[str, object]:
    return {"clocks": ["real"], **run}


def _compared_1_1(document: Document) -> dict[str, object]:
    return {"lab_clock": "real", **document}


def _finding_1_1(finding: Document) -> dict[str, object]:
    return {"clock": "real", **finding}


def _with(part: object, **unknown: object) -> object:
    """`part` with what it does not know yet; what is no object is left for the model to refuse."""
    return {**unknown, **part} if isinstance(part, dict) else part


STEPS: dict[str, tuple[str, dict[Kind, Step]]] = {
    "1.0": ("1.1", {"cell": _cell_1_0, "study": _verdict_1_0, "pair": _verdict_1_0, "finding": _verdict_1_0}),
    "1.1": ("1.2", {"cell": _cell_1_1, "run": _run_1_1, "study": _compared_1_1, "pair": _compared_1_1, "finding": _finding_1_1}),
}
"""From which version to which, and what changes in which kind; a kind that is not named only gets its new number."""
