"""From what the user wrote (`ferry`, `./axel.yaml`, `/opt/curl-8/bin/curl`, `curl@8.4.0`) to the adapter that speaks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

from lab.client import windows
from lab.client.adapter import ClientAdapter
from lab.client.curl import Curl
from lab.client.data import DataClient, load_client, program_of
from lab.client.ferry import Ferry
from lab.errors import NotSupported, UsageProblem
from lab.paths import clients_dirs
from lab.spec.load import meant
from lab.spec.models import YAML_SUFFIXES, ClientSpec, Transfer

# Those whose reports, or whose way onto the host, need code.
_CODE: dict[str, Callable[[str, str], ClientAdapter]] = {"ferry": Ferry, "curl": Curl}


def list_clients() -> list[str]:
    """Every client that has a name: the lab's own first, then those of files, sorted."""
    return [*_CODE, *sorted({*_described()} - {*_CODE})]


def adapter_for(name: str, path: str = "") -> ClientAdapter:
    """The adapter that `name` is, or begins with, or else that the program's file is. Raises UsageProblem where there is none.

    `path` is of a program, or of a file that describes a client; `name` alone may have a version that the lab built.
    """
    if PurePath(path).suffix in YAML_SUFFIXES:
        spec = load_client(Path(path))
        return DataClient(name, program_of(spec, Path(path).parent), spec)
    if "@" in name and path in ("", name):
        from lab.client import versions

        return Curl(name, versions.program(name), versions.lacks(name))
    # A command runs in its host's own folder: a relative path means the one where the user typed it.
    program = os.path.abspath(path) if "/" in path else path  # noqa: PTH100 - keeps symlinks, as typed
    known = _find(name, program)
    if known is None:
        names = list_clients()
        raise UsageProblem(
            f"unknown client {name!r}{meant(name, names)}",
            remedy=f"known: {', '.join(names)}; NAME=PATH names a build of one, PATH.yaml describes another",
        )
    if known != "ferry" and windows.is_windows_file(Path(program)):
        raise UsageProblem(
            f"client {name}: {program} is a Windows program, and of those only ferry runs here, under Wine",
            remedy=f"{windows.BUILD}, then --client {windows.FERRY}",
        )
    file = _described().get(known)
    if file is None:
        return _CODE[known](name, program or known)
    spec = load_client(file)
    return DataClient(name, program if program not in ("", known) else program_of(spec, file.parent), spec)


def parse_client(text: str) -> ClientSpec:
    """As `ClientSpec.parse`, in the lab's own error."""
    try:
        return ClientSpec.parse(text)
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def resolve(client: ClientSpec) -> ClientAdapter:
    """The adapter of a cell's client; its results bear the cell's name for it."""
    return adapter_for(client.name, client.program)


def resolve_for(client: ClientSpec, transfer: Transfer, what: str) -> ClientAdapter:
    """As `resolve`. Raises NotSupported where the client cannot do the transfer; `what` is the id of what would be run."""
    adapter = resolve(client)
    assert_able(adapter, client, transfer, what)
    return adapter


def assert_able(adapter: ClientAdapter, client: ClientSpec, transfer: Transfer, what: str) -> None:
    """Raises NotSupported as `resolve_for`, for a client that is resolved already."""
    if reason := adapter.supports(transfer):
        raise NotSupported(f"{client.name} cannot do {what}: {reason}")


def _find(name: str, program: str) -> str | None:
    """The client that is called so; a build of one (`curl-8.5`); one whose program is called so (`/opt/hpn/bin/sftp`)."""
    names = list_clients()
    file = PurePath(program).name
    if name in names:
        return name
    found = next((known for known in names if _begins(known, name) or _begins(known, file)), None)
    return found or next((known for known, called in _programs() if _begins(called, file)), None)


def _begins(known: str, candidate: str) -> bool:
    return candidate == known or candidate.startswith(tuple(f"{known}{mark}" for mark in "-_.@"))


def _described() -> dict[str, Path]:
    """Files by client; a user's own come before the lab's."""
    found: dict[str, Path] = {}
    for folder in clients_dirs():
        for file in sorted(folder.iterdir()):
            if file.suffix in YAML_SUFFIXES:
                found.setdefault(file.stem, file)
    return found


def _programs() -> Iterator[tuple[str, str]]:
    """Clients whose program is not called as they are."""
    for known, file in _described().items():
        yield known, PurePath(load_client(file).program).name
