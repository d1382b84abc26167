"""Digests of everything on a machine that decides the bytes of a cell in virtual time, and the first difference of machines."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import socket
import subprocess
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from lab import __version__
from lab.assets import kernel
from lab.assets.tools import host_program
from lab.assets.userlands import get as get_userland
from lab.clients import windows
from lab.clients.described import described_files
from lab.clients.registry import resolve, userland_of
from lab.hosts.local import LocalHost
from lab.hosts.virtual.program import interpreter
from lab.model import files
from lab.model.base import YAML_SUFFIXES
from lab.model.errors import RoughwaterError
from lab.model.paths import package_root
from lab.model.results import Closed
from lab.model.scratch import scratch_folder
from lab.model.transfer import ClientSpec
from lab.run.clocks import is_windows_name
from lab.store.provenance import git_revision

INSTANCE = uuid.uuid4().hex
"""This process, and no other that may take its place at the same address."""
_PROGRAMS = ("ethtool", "ip", "iperf3", "nginx", "ping", "python3", "sh", "ssh-keygen", "sshd", "tc")
_LIBRARY = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_SHOWN = 12


class Facts(Closed):
    """One machine; digests are SHA-256, and a program's includes the libraries that it loads."""

    instance: str
    host: str
    arch: str
    cores: int
    lab_version: str
    git_revision: str | None
    lab: str
    """The digest of the lab's own sources."""
    kernel: str
    """The kernel of virtual time; empty where the shipped one cannot be read."""
    programs: dict[str, str]
    clients: dict[str, str]
    """By name. `missing: ...` for a program or client that the machine does not have."""
    described: dict[str, str]
    """By client: the digest of the file that describes it; empty where the machine has none."""


def facts(clients: Iterable[ClientSpec] = ()) -> Facts:
    """The facts of this machine, with these clients."""
    clients = list(clients)
    return Facts(
        instance=INSTANCE,
        host=socket.gethostname(),
        arch=platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        lab_version=__version__,
        git_revision=git_revision(),
        lab=_sources(),
        kernel=_kernel(),
        programs={name: _program(name) for name in _PROGRAMS},
        clients={client.name: _client(client) for client in clients},
        described={client.name: _description(client) for client in clients},
    )


def against_this_machine(name: str, other: Facts, clients: Iterable[ClientSpec] = ()) -> str:
    """One line where a machine has another lab, kernel or description of a client than this one; empty where it has not.

    A description that only the other machine has is its own affair: this one runs nothing.
    """
    own = {"lab": _sources(), "kernel": _kernel()}
    if what := next((what for what, digest in own.items() if getattr(other, what) != digest), ""):
        return _line(name, "this machine", _KINDS[what], getattr(other, what), own[what])
    for client in clients:
        here, there = _description(client), other.described.get(client.name, "")
        if here and here != there:
            return _line(name, "this machine", f"description of client {client.name}", there, here)
    return ""


def first_difference(machines: Mapping[str, Facts]) -> str:
    """One line for the first program or client in which machines differ, by their names; empty where they do not."""
    names = sorted(machines)
    for kind in ("programs", "clients"):
        for name in names[1:]:
            one, other = (getattr(machines[each], kind) for each in (names[0], name))
            for what in sorted(one.keys() | other.keys()):
                if one.get(what) != other.get(what):
                    thing = f"{what}" if kind == "programs" else f"client {what}"
                    return _line(name, names[0], thing, other.get(what, ""), one.get(what, ""))
    return ""


_KINDS = {"lab": "lab", "kernel": "kernel of virtual time"}


def _line(name: str, reference: str, what: str, found: str, wanted: str) -> str:
    return f"{name} has another {what} than {reference}: {_short(found)}, not {_short(wanted)}"


def _short(digest: str) -> str:
    return digest[:_SHOWN] if re.fullmatch(r"[0-9a-f]{64}", digest) else digest or "none"


@cache
def _sources() -> str:
    """The packages of the lab as they are on the disk, whatever revision they are said to be of."""
    found = hashlib.sha256()
    for path in sorted((package_root() / "lab").rglob("*")):
        parts = path.relative_to(package_root()).parts
        # The files that ship with a wheel lie elsewhere in a checkout.
        if path.is_file() and "__pycache__" not in parts and parts[1] != "shipped":
            found.update(f"{'/'.join(parts)} {files.digest(path)}\n".encode())
    return found.hexdigest()


def _kernel() -> str:
    try:
        return kernel.facts().sha256
    except RoughwaterError:
        return ""


def _program(name: str) -> str:
    try:
        return _with_libraries([Path(host_program(name)), *([Path(interpreter())] if name == "python3" else [])])
    except (RoughwaterError, OSError) as problem:
        return f"missing: {problem}"


def _descriptions(client: ClientSpec) -> list[Path]:
    described = [Path(client.program)] if Path(client.program).suffix in YAML_SUFFIXES else []
    if shipped := described_files().get(client.name.partition("@")[0]):
        described.append(shipped)
    return described


def _description(client: ClientSpec) -> str:
    """The digest of the first file that describes it; empty where it is not there."""
    try:
        return next((files.digest(path) for path in _descriptions(client)), "")
    except (RoughwaterError, OSError):
        return ""


def _client(client: ClientSpec) -> str:
    described = _descriptions(client)
    try:
        if own := userland_of(client):
            return _joined([get_userland(own, _silent).facts.digest, *map(files.digest, described)])
        if is_windows_name(client):  # it is not run to ask its version: that needs Wine
            return _joined([files.digest(windows.find_ferry() if "/" not in client.program else Path(client.program))])
        with scratch_folder("roughwater-") as folder:
            identity = resolve(client).identify(LocalHost("client", folder))
            words = [identity.version, *identity.notes, identity.sha256, _with_libraries([Path(identity.path)])]
        return _joined([*words, *map(files.digest, described)])
    except (RoughwaterError, OSError) as problem:
        return f"missing: {problem}"


def _silent(_text: str) -> None:
    """A worker has no progress to show."""


def _with_libraries(programs: Sequence[Path]) -> str:
    """The digest of programs and of all libraries that the loader finds for them. Raises OSError."""
    places = [path.resolve() for path in programs]
    done = subprocess.run(["ldd", *map(str, places)], capture_output=True, text=True, check=False, timeout=60)
    return _joined([*map(files.digest, places), *sorted({files.digest(Path(each)) for each in _LIBRARY.findall(done.stdout)})])


def _joined(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
