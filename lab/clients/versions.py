"""Versions of a client by name: `curl@8.4.0`, `curl@debian`, or with a libssh2 of its own, `curl@8.4.0-libssh2-1.10.1`.

`lab client build` makes them, this finds them.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.assets import curl_build, store
from lab.assets.curl_versions import LIBSSH2, LIBSSH2S, VERSIONS, WITH_LIBSSH2, Package, order
from lab.model.errors import UsageProblem

CLIENT = "curl"
SYSTEM = "debian"
_SYSTEM_PROGRAM = Path("/usr/bin/curl")


@dataclass(frozen=True)
class Available:
    """One version: where it comes from, its program once it is there, and what it cannot (`Curl.lacks`)."""

    spec: str
    source: str
    program: Path | None
    lacks: tuple[str, ...] = ()


def program(spec: str) -> str:
    """The path of the program for `curl@VERSION`. Raises UsageProblem when it is not built, not known or not a version."""
    version = parse(spec)
    if version == SYSTEM:
        if not _SYSTEM_PROGRAM.exists():
            raise UsageProblem("curl of this system is not installed", remedy="sudo apt-get install curl")
        return str(_SYSTEM_PROGRAM)
    if found := curl_build.find(version):
        return str(found)
    raise UsageProblem(f"{CLIENT} {version} has not been built", remedy=f"lab client build {spec}")


def lacks(spec: str) -> tuple[str, ...]:
    """Features that this version lacks, for `Curl.lacks`."""
    version, _, _ = parse(spec).partition(WITH_LIBSSH2)
    return VERSIONS[version].lacks if version in VERSIONS else ()


def notes(spec: str) -> tuple[str, ...]:
    """Notes on this version for results, for `Curl.notes`."""
    version, _, _ = parse(spec).partition(WITH_LIBSSH2)
    return VERSIONS[version].notes if version in VERSIONS else ()


def parse(spec: str) -> str:
    """The version in `curl@8.4.0` or `curl@8.4.0-libssh2-1.10.1`, which is in the tables, or `debian`."""
    client, at, version = spec.partition("@")
    if client != CLIENT or not at:
        raise UsageProblem(f"{spec!r} names no version of a client", remedy=f"write {CLIENT}@VERSION, e.g. {CLIENT}@8.4.0")
    version, chosen, libssh2 = version.partition(WITH_LIBSSH2)
    if version != SYSTEM and version not in VERSIONS:
        known = _nearest(version, [*VERSIONS], SYSTEM)
        raise UsageProblem(f"{CLIENT} {version!r} is in no registry the lab knows", remedy=f"known: {known}")
    if chosen:
        _check_choice(version, libssh2)
    return f"{version}{chosen}{libssh2}"


def available() -> list[Available]:
    """Every known version, the system's first, then oldest to newest; one with another libssh2 where the cache has it."""
    rows = [_system()]
    for version, package in VERSIONS.items():
        rows.append(Available(f"{CLIENT}@{version}", str(package), curl_build.find(version), package.lacks))
        if not package.is_wheel:
            rows.extend(_with_others(version, package))
    return rows


def _system() -> Available:
    spec = f"{CLIENT}@{SYSTEM}"
    if not _SYSTEM_PROGRAM.exists():
        return Available(spec, "this system's package", None)
    code, said = store.run([_SYSTEM_PROGRAM, "-q", "--version"], timeout_s=30)
    version = said.split()[1] if code == 0 and said.startswith(f"{CLIENT} ") else "unknown"
    return Available(spec, f"this system's package, {version}", _SYSTEM_PROGRAM)


def _check_choice(version: str, libssh2: str) -> None:
    """Raises UsageProblem if libssh2 cannot be chosen for this version of curl, or the chosen one does not exist."""
    built = [each for each, package in VERSIONS.items() if not package.is_wheel]
    if version not in built:
        problem = f"{CLIENT}@{version} is not built by the lab, so its libssh2 cannot be chosen"
        raise UsageProblem(problem, remedy=f"libssh2 can be chosen for {_nearest(version, built)}")
    if libssh2 not in LIBSSH2S:
        known = _nearest(libssh2, [*LIBSSH2S])
        raise UsageProblem(f"libssh2 {libssh2!r} is in no registry the lab knows", remedy=f"known: {known}")


def _with_others(version: str, package: Package) -> Iterator[Available]:
    for libssh2, crate in LIBSSH2S.items():
        name = f"{version}{WITH_LIBSSH2}{libssh2}"
        if crate != LIBSSH2 and (found := curl_build.find(name)):
            yield Available(f"{CLIENT}@{name}", f"{package}, {crate.name} {crate.version}", found, package.lacks)


def _nearest(version: str, known: Sequence[str], *others: str) -> str:
    """The neighbours of a version that is not in `known`; for a word that is not a version, both ends of them and `others`."""
    try:
        at = bisect([order(each) for each in known], order(version))
    except ValueError:
        return ", ".join((f"{known[0]} to {known[-1]}", *others))
    return ", ".join(known[max(at - 1, 0) : at + 1])
