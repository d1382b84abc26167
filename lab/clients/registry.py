"""From a user's text (`ferry`, `./axel.yaml`, `/opt/curl-8/bin/curl`, `curl@8.4.0`) to the adapter of the client named there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath

from lab.assets import store
from lab.assets.userlands import RECIPES
from lab.clients import windows
from lab.clients.adapter import ClientAdapter
from lab.clients.curl import Curl
from lab.clients.described import DescribedClient, described_files, load_client, program_of
from lab.clients.ferry import (
    FERRIES,
    FERRY_BACKGROUND,
    FERRY_BACKGROUND_MANY,
    FERRY_FALLBACK,
    Ferry,
    in_background,
    in_background_many,
    with_fallback,
)
from lab.clients.libcurl import Libcurl
from lab.clients.variables import WithVariables, with_variables
from lab.hosts.host import Host
from lab.model.base import YAML_SUFFIXES
from lab.model.errors import NotSupported, UsageProblem, did_you_mean
from lab.model.libcurl import LibcurlSettings
from lab.model.results import ClientIdentity
from lab.model.transfer import ClientSpec, Transfer
from lab.model.userland import release_of

# Clients whose reports, or whose way onto the host, need code.
_CODE: dict[str, Callable[[str, str], ClientAdapter]] = {
    "ferry": Ferry,
    FERRY_BACKGROUND: in_background,
    FERRY_BACKGROUND_MANY: in_background_many,
    FERRY_FALLBACK: with_fallback,
    "curl": Curl,
    "libcurl": Libcurl,
}


_HTTP3_LIBRARY = re.compile(r"\b(nghttp3|quiche|msh3)/")


def list_clients() -> list[str]:
    """Every client that has a name: the lab's own first, then those of files, sorted."""
    return [*_CODE, *sorted({*described_files()} - {*_CODE})]


def adapter_for(name: str, path: str = "") -> ClientAdapter:
    """The adapter that `name` names or begins with, else by the program's file name. Raises UsageProblem for an unknown client.

    `path` is of a program, or of a file that describes a client; `name` alone may have a version that the lab built.
    """
    if PurePath(path).suffix in YAML_SUFFIXES:
        return _from_file(name, Path(path))
    if "@" in name and path in ("", name):
        return _of_version(name)
    # A command runs in its host's own folder: a relative path means the one where the user typed it.
    program = os.path.abspath(path) if "/" in path else path  # noqa: PTH100 - keeps symlinks, as typed
    known = _find(name, program)
    if known is None:
        names = list_clients()
        raise UsageProblem(
            f"unknown client {name!r}{did_you_mean(name, names)}",
            remedy=f"known: {', '.join(names)}; NAME=PATH names a build of one, PATH.yaml describes another",
        )
    if known not in FERRIES and windows.is_windows_file(Path(program)):
        raise UsageProblem(
            f"client {name}: {program} is a Windows program, and of those only ferry runs here, under Wine",
            remedy=f"{windows.BUILD}, then --client {windows.FERRY}",
        )
    own = "" if program == known else program
    if file := described_files().get(known):
        return _from_file(name, file, own)
    if known == "libcurl" and not own:
        return _application(name, LibcurlSettings().version, LibcurlSettings())
    return _CODE[known](name, program or known)


def parse_client(text: str) -> ClientSpec:
    """Parse as `ClientSpec.parse` does. Raises UsageProblem in place of its ValueError."""
    try:
        return ClientSpec.parse(text)
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def userland_of(client: ClientSpec) -> str:
    """The userland that the client's name or its file asks for; empty for the machine's own programs.

    A build of a described client, `mine-2=PATH`, has the description's.
    """
    name, _, version = client.name.partition("@")
    if client.program == client.name and (release := release_of(version)):
        return release
    program = Path(client.program)
    file = program if program.suffix in YAML_SUFFIXES else described_files().get(_find(name, client.program) or "")
    return load_client(file).userland if file else ""


def resolve(client: ClientSpec) -> ClientAdapter:
    """The adapter of a cell's client; its results bear the cell's name for it."""
    return adapter_for(client.name, client.program)


def on_host(adapter: ClientAdapter, host: Host) -> ClientAdapter:
    """The client with the path that its program has on that host. Ferry copies its own (`Ferry.identify`)."""
    if isinstance(adapter, WithVariables):
        return with_variables(on_host(adapter.inner, host), adapter.variables)
    if isinstance(adapter, Curl | DescribedClient | Libcurl) and "/" in adapter.program:
        return replace(adapter, program=host.place(adapter.program))
    return adapter


def program_here(adapter: ClientAdapter) -> str:
    """The path of the client's program on the lab's machine, or its name; empty for an adapter that has neither."""
    if isinstance(adapter, WithVariables):
        return program_here(adapter.inner)
    if isinstance(adapter, Ferry):
        return str(adapter.source())
    return adapter.program if isinstance(adapter, Curl | DescribedClient | Libcurl) else ""


def description_of(adapter: ClientAdapter) -> str:
    """Digest of the file that describes the client; empty for a client that code knows."""
    if isinstance(adapter, WithVariables):
        return description_of(adapter.inner)
    return adapter.spec.digest if isinstance(adapter, DescribedClient) else ""


def resolve_for(client: ClientSpec, transfer: Transfer, what: str) -> ClientAdapter:
    """The client's adapter. Raises NotSupported where the client cannot do the transfer; `what` is the cell's or answer's id."""
    adapter = resolve(client)
    assert_able(adapter, client, transfer, what)
    return adapter


def assert_able(adapter: ClientAdapter, client: ClientSpec, transfer: Transfer, what: str) -> None:
    """Raises NotSupported if the client, already resolved, cannot do the transfer `what`."""
    if reason := adapter.supports(transfer):
        raise NotSupported(f"{client.name} cannot do {what}: {reason}")


def assert_speaks(identity: ClientIdentity, transfer: Transfer, what: str) -> None:
    """Raises NotSupported for HTTP/3 where this program of curl, once found, is built without it: it says so in its version."""
    if transfer.protocol == "h3":
        _check_http3(identity.name, identity.version, what)


def assert_speaks_here(adapter: ClientAdapter, transfer: Transfer, what: str) -> None:
    """Raise NotSupported as `assert_speaks` does, for a program of this machine, before a userland is built for the other end."""
    if isinstance(adapter, WithVariables):
        assert_speaks_here(adapter.inner, transfer, what)
    elif transfer.protocol == "h3" and isinstance(adapter, Curl):
        _check_http3(adapter.name, _version_here(adapter.program), what)


def _check_http3(name: str, version: str, what: str) -> None:
    if version.startswith("curl ") and not _HTTP3_LIBRARY.search(version.splitlines()[0]):
        program = " ".join(version.split()[:2])
        raise NotSupported(f"{name} cannot do {what}: {program} was built without HTTP/3 (curl@debian13 has it)")


@cache
def _version_here(program: str) -> str:
    """Empty where the program cannot be started: its host says that better."""
    try:
        return store.run([program, "-q", "--version"], timeout_s=30)[1]
    except OSError:
        return ""


def _find(name: str, program: str) -> str | None:
    """The client with this name, the client of a build (`curl-8.5`), or the client of a program (`/opt/hpn/bin/sftp`)."""
    names = list_clients()
    file = PurePath(program).name
    if name in names:
        return name
    found = next((known for known in names if _begins(known, name) or _begins(known, file)), None)
    return found or next((known for known, called in _programs() if _begins(called, file)), None)


def _begins(known: str, candidate: str) -> bool:
    return candidate == known or candidate.startswith(tuple(f"{known}{mark}" for mark in "-_.@"))


def _from_file(name: str, file: Path, program: str = "") -> ClientAdapter:
    """The client that a file describes, run from `program` if that is given."""
    spec = load_client(file)
    if spec.libcurl and program:
        return Libcurl(name, program, spec.libcurl, notes=tuple(spec.notes))
    if spec.libcurl:
        return _application(name, name.partition("@")[2] or spec.libcurl.version, spec.libcurl, spec.notes)
    return DescribedClient(name, program or program_of(spec, file.parent), spec)


def _of_version(name: str) -> ClientAdapter:
    from lab.clients import versions

    base, _, word = name.partition("@")
    if release := release_of(word):
        return _of_userland(name, base, release)
    client, version = versions.split(name)
    if client == versions.CURL:
        return Curl(name, versions.program(name), versions.lacks(name))
    if file := described_files().get(client):
        spec = load_client(file)
        if not spec.package:
            return _from_file(name, file)
        with_others = f"{spec.package} {version} of PyPI, and what it needs by digest: {spec.package}-{version}.lock of the lab"
        return DescribedClient(name, versions.program(name), spec.model_copy(update={"notes": [*spec.notes, with_others]}))
    return _application(name, version, LibcurlSettings())


def _of_userland(name: str, client: str, userland: str) -> ClientAdapter:
    """A client by the program that its userland has of it."""
    if userland not in RECIPES:
        raise UsageProblem(
            f"client {name}: no userland {userland!r}", remedy=f"known: {', '.join(RECIPES)}; or --userland client=FOLDER"
        )
    note = f"of the userland {userland}"
    if client == "curl":
        return Curl(name, client, notes=(note,))
    if file := described_files().get(client):
        spec = load_client(file)
        if not spec.libcurl and "/" not in spec.program:
            return DescribedClient(name, spec.program, spec.model_copy(update={"notes": [*spec.notes, note]}))
    if client == "ferry":
        return Ferry(name, client)
    raise UsageProblem(f"{name}: no userland has a program of {client!r}", remedy="name one of its programs, e.g. curl@debian13")


def _application(name: str, version: str, settings: LibcurlSettings, notes: Sequence[str] = ()) -> Libcurl:
    """An application on a version of libcurl. Raises UsageProblem if it has not been built."""
    from lab.clients import versions

    spec = f"{versions.LIBCURL}@{version}"
    return Libcurl(name, versions.program(spec), settings, versions.lacks(spec), version, tuple(notes))


def _programs() -> Iterator[tuple[str, str]]:
    """Clients whose program is not called as they are. A file that cannot be read is for those who ask for its client."""
    for known, file in described_files().items():
        with suppress(UsageProblem):
            yield known, PurePath(load_client(file).program).name
