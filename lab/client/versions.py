"""Versions of a client by name: `curl@8.4.0`, `curl@debian`. `lab client build` makes them, this finds them."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from pathlib import Path

from lab.assets import curl_build, store
from lab.assets.curl_versions import VERSIONS, order
from lab.errors import UsageProblem

CLIENT = "curl"
SYSTEM = "debian"
_SYSTEM_PROGRAM = Path("/usr/bin/curl")


@dataclass(frozen=True)
class Available:
    """One version: where it comes from, its program once it is there, and the protocols it was built without."""

    spec: str
    source: str
    program: Path | None
    lacks: tuple[str, ...] = ()


def program(spec: str) -> str:
    """The path of what `curl@VERSION` names. Raises UsageProblem when it is not built, not known or no version at all."""
    version = parse(spec)
    if version == SYSTEM:
        if not _SYSTEM_PROGRAM.exists():
            raise UsageProblem("curl of this system is not installed", remedy="sudo apt-get install curl")
        return str(_SYSTEM_PROGRAM)
    if found := curl_build.find(version):
        return str(found)
    raise UsageProblem(f"{CLIENT} {version} has not been built", remedy=f"lab client build {spec}")


def lacks(spec: str) -> tuple[str, ...]:
    """Protocols that this version was built without."""
    version = parse(spec)
    return VERSIONS[version].lacks if version in VERSIONS else ()


def parse(spec: str) -> str:
    """`8.4.0` of `curl@8.4.0`, a version of the table for sure, or `debian`."""
    client, at, version = spec.partition("@")
    if client != CLIENT or not at:
        raise UsageProblem(f"{spec!r} names no version of a client", remedy=f"write {CLIENT}@VERSION, e.g. {CLIENT}@8.4.0")
    if version == SYSTEM or version in VERSIONS:
        return version
    raise UsageProblem(f"{CLIENT} {version!r} is in no registry the lab knows", remedy=f"known: {_nearest(version)}")


def available() -> list[Available]:
    """Every known version, the system's first, then oldest to newest."""
    known = VERSIONS.items()
    return [
        _system(),
        *(Available(f"{CLIENT}@{each}", str(package), curl_build.find(each), package.lacks) for each, package in known),
    ]


def _system() -> Available:
    spec = f"{CLIENT}@{SYSTEM}"
    if not _SYSTEM_PROGRAM.exists():
        return Available(spec, "this system's package", None)
    code, said = store.run([_SYSTEM_PROGRAM, "-q", "--version"], timeout_s=30)
    version = said.split()[1] if code == 0 and said.startswith(f"{CLIENT} ") else "unknown"
    return Available(spec, f"this system's package, {version}", _SYSTEM_PROGRAM)


def _nearest(version: str) -> str:
    """The neighbours of a version that is none of ours; of what is no number, both ends of the table."""
    known = list(VERSIONS)
    try:
        at = bisect([order(each) for each in known], order(version))
    except ValueError:
        return f"{known[0]} to {known[-1]}, {SYSTEM}"
    return ", ".join(known[max(at - 1, 0) : at + 1])
