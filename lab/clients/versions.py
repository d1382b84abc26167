"""Versions of a client by name: `curl@8.4.0`, `curl@debian`, or with a libssh2 of its own, `curl@8.4.0-libssh2-1.10.1`.

`libcurl@8.4.0` is the lab's application on that library, `NAME@8.4.0` an application from a YAML file, `requests@2.31.0` a client
whose description names a package of PyPI. `lab client build` makes them, this finds them.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.assets import curl_build, libcurl_build, python_packages, store
from lab.assets.curl_versions import LIBCURLS, LIBSSH2, LIBSSH2S, VERSIONS, WITH_LIBSSH2, Package, order
from lab.clients.described import described_files, load_client
from lab.model.client import ClientFile
from lab.model.errors import UsageProblem
from lab.model.libcurl import LibcurlSettings

CURL = "curl"
LIBCURL = "libcurl"
SYSTEM = libcurl_build.SYSTEM
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
    if found := find(spec):
        return str(found)
    client, version = split(spec)
    if client == CURL and version == SYSTEM:
        raise UsageProblem("curl of this system is not installed", remedy="sudo apt-get install curl")
    raise UsageProblem(f"{client} {version} has not been built", remedy=f"lab client build {spec}")


def find(spec: str) -> Path | None:
    """The program, if it is there. Raises UsageProblem for an unknown version."""
    client, version = split(spec)
    if file := _packaged(client):
        return python_packages.find(file.package, version, file.program)
    if client != CURL:
        return libcurl_build.find(version)
    if version == SYSTEM:
        return _SYSTEM_PROGRAM if _SYSTEM_PROGRAM.exists() else None
    return curl_build.find(version)


def build(spec: str, progress: Callable[[str], None]) -> None:
    """Build the version unless it is there. This system's curl is not built. Raises UsageProblem or LabFault."""
    client, version = split(spec)
    if file := _packaged(client):
        python_packages.build(file.package, version, progress)
    elif client != CURL:
        libcurl_build.build(version, progress)
    elif version != SYSTEM:
        curl_build.build(version, progress)


def lacks(spec: str) -> tuple[str, ...]:
    """Features that this version lacks, for `Curl.lacks`."""
    client, version = split(spec)
    found = table(client).get(version.partition(WITH_LIBSSH2)[0])
    return found.lacks if found else ()


def split(spec: str) -> tuple[str, str]:
    """Client and version in `curl@8.4.0`, `libcurl@8.4.0-libssh2-1.10.1` or `curl@debian`. Raises UsageProblem."""
    client, at, version = spec.partition("@")
    packaged = _packaged(client) is not None
    if not at or not (client in (CURL, LIBCURL) or packaged or settings(client)):
        raise UsageProblem(f"{spec!r} names no version of a client", remedy=f"write {CURL}@VERSION, e.g. {CURL}@8.4.0")
    version, chosen, libssh2 = version.partition(WITH_LIBSSH2)
    known = table(client)
    if packaged and version not in known:
        remedy = (
            f"known: {_nearest(version, [*known])}" if known else f"install it, and name its program: {client}-{version}=PATH"
        )
        raise UsageProblem(f"{client} {version!r} has no lock file in the lab", remedy=remedy)
    if version != SYSTEM and version not in known:
        if version in LIBCURLS:
            problem = f"no registry has curl {version} as a program, only as a library ({LIBCURLS[version]})"
            raise UsageProblem(problem, remedy=f"{LIBCURL}@{version}{chosen}{libssh2}")
        raise UsageProblem(
            f"{client} {version!r} is in no registry the lab knows", remedy=f"known: {_nearest(version, [*known], SYSTEM)}"
        )
    if chosen:
        _check_choice(client, version, libssh2)
    return client, f"{version}{chosen}{libssh2}"


def parse(spec: str) -> str:
    """The version that `split` finds, without the client."""
    return split(spec)[1]


def table(client: str) -> Mapping[str, Package]:
    """The versions of a client, oldest first."""
    if file := _packaged(client):
        return python_packages.versions(file.package)
    return VERSIONS if client == CURL else LIBCURLS


def settings(client: str) -> LibcurlSettings | None:
    """The settings of an application on libcurl; None for any other client."""
    if client == LIBCURL:
        return LibcurlSettings()
    file = _description(client)
    return file.libcurl if file else None


def _packaged(client: str) -> ClientFile | None:
    """The description of a client that is a package of PyPI."""
    file = _description(client)
    return file if file and file.package else None


def _description(client: str) -> ClientFile | None:
    file = described_files().get(client)
    return load_client(file) if file else None


def available() -> list[Available]:
    """Every known version of curl, libcurl and clients of PyPI, the system's first; of other libssh2s what is built."""
    rows = [_system()]
    for version, package in VERSIONS.items():
        rows.append(Available(f"{CURL}@{version}", str(package), curl_build.find(version), package.lacks))
        rows.extend(_with_others(version, package))
    rows.append(Available(f"{LIBCURL}@{SYSTEM}", "this system's libcurl.so.4", libcurl_build.find(SYSTEM)))
    for version, package in LIBCURLS.items():
        rows.append(Available(f"{LIBCURL}@{version}", str(package), libcurl_build.find(version), package.lacks))
    for client in sorted(described_files()):
        if file := _packaged(client):
            for version, package in python_packages.versions(file.package).items():
                program = python_packages.find(file.package, version, file.program)
                rows.append(Available(f"{client}@{version}", str(package), program))
    return rows


def _system() -> Available:
    spec = f"{CURL}@{SYSTEM}"
    if not _SYSTEM_PROGRAM.exists():
        return Available(spec, "this system's package", None)
    code, said = store.run([_SYSTEM_PROGRAM, "-q", "--version"], timeout_s=30)
    version = said.split()[1] if code == 0 and said.startswith(f"{CURL} ") else "unknown"
    return Available(spec, f"this system's package, {version}", _SYSTEM_PROGRAM)


def _check_choice(client: str, version: str, libssh2: str) -> None:
    """Raises UsageProblem if libssh2 cannot be chosen for this version of curl, or the chosen one does not exist."""
    if version not in VERSIONS:
        problem = f"{client}@{version} is not built by the lab, so its libssh2 cannot be chosen"
        raise UsageProblem(problem, remedy=f"libssh2 can be chosen for {_nearest(version, [*VERSIONS])}")
    if libssh2 not in LIBSSH2S:
        known = _nearest(libssh2, [*LIBSSH2S])
        raise UsageProblem(f"libssh2 {libssh2!r} is in no registry the lab knows", remedy=f"known: {known}")


def _with_others(version: str, package: Package) -> Iterator[Available]:
    for libssh2, crate in LIBSSH2S.items():
        name = f"{version}{WITH_LIBSSH2}{libssh2}"
        if crate != LIBSSH2 and (found := curl_build.find(name)):
            yield Available(f"{CURL}@{name}", f"{package}, {crate.name} {crate.version}", found, package.lacks)


def _nearest(version: str, known: Sequence[str], *others: str) -> str:
    """The neighbours of a version that is not in `known`; for a word that is not a version, both ends of them and `others`."""
    try:
        at = bisect([order(each) for each in known], order(version))
    except ValueError:
        return ", ".join((f"{known[0]} to {known[-1]}", *others))
    return ", ".join(known[max(at - 1, 0) : at + 1])
