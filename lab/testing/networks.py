"""The network that a test asks for: a name, a YAML file, a link's settings, or a name and what differs from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.model.base import YAML_SUFFIXES, first_problem
from lab.model.errors import UsageProblem, did_you_mean
from lab.model.link import Link
from lab.model.load import load_topology
from lab.model.topology import Topology

_REMEDY = '@pytest.mark.lab_link("lte"), or @pytest.mark.lab_link(rate="4 Mbit/s", rtt="120 ms", loss="1 %")'


def topology_of(words: Sequence[Any], changes: Mapping[str, Any], folder: Path) -> Topology:
    """`words` are the network, if any; a file is looked for in the test's `folder` first. Raises UsageProblem."""
    if len(words) > 1:
        raise UsageProblem("a test has one network", remedy=_REMEDY)
    if not words and not changes:
        raise UsageProblem("no network is given for this test", remedy=_REMEDY)
    base = _base(words[0], folder) if words else None
    if not changes:
        assert base is not None
        return base
    check_settings(changes)
    name = "-".join([base.name if base else "link", *(f"{key}-{value}" for key, value in changes.items())])
    try:
        link = Link.model_validate({**(base.link.model_dump() if base else {}), **changes})
    except ValueError as problem:
        raise UsageProblem(f"no such link: {first_problem(problem)}", remedy=_REMEDY) from None
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower())[:64].strip("-.")
    described = f"{base.description} Changed by a test." if base else "A link of a test."
    _check_trace(base, changes)
    try:
        return Topology.model_validate({**dict(base or {}), "name": slug, "description": described, "link": link})
    except ValueError as problem:
        raise UsageProblem(f"no such network: {first_problem(problem)}", remedy=_REMEDY) from None


def _check_trace(base: Topology | None, changes: Mapping[str, Any]) -> None:
    """Raise UsageProblem for a rate where a trace decides what passes."""
    if base and base.schedule and base.schedule.trace and "rate" in changes:
        raise UsageProblem(
            f"{base.name} replays a trace, which sets the rate",
            remedy="leave the rate out, or take a network without a trace",
        )


def check_settings(changes: Mapping[str, Any]) -> None:
    """Raise UsageProblem for a setting that links do not have."""
    known = sorted(Link.model_fields)
    if unknown := next((name for name in changes if name not in known), ""):
        raise UsageProblem(f"a link has no {unknown!r}{did_you_mean(unknown, known)}", remedy="known: " + ", ".join(known))


def _base(given: Any, folder: Path) -> Topology:
    if isinstance(given, Topology):
        return given
    text = str(given)
    here = folder / text
    return load_topology(str(here) if text.endswith(YAML_SUFFIXES) and here.is_file() else text)
