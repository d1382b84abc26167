"""The parts that decide the bytes of a cell in virtual time, and one digest of them all.

Where the digest is the same, so are packets and results: on another machine, in another folder, of another user. The rest of what
the lab does in its machine is over before a client starts, or takes the same time everywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lab import __version__
from lab.assets.tools import find
from lab.hosts.host import Network
from lab.hosts.virtual.placing import is_script, place_of
from lab.model import files
from lab.model.endpoint import EndpointFile
from lab.model.results import ClientIdentity, VirtualMachine
from lab.model.transfer import Transfer
from lab.model.userland import UserlandFacts
from lab.servers.bundle import serving_host

_LOADER = Path("/lib64/ld-linux-x86-64.so.2")
_LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")
_LONGEST_S = 30.0
_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def counted(
    facts: VirtualMachine,
    network: Network,
    identity: ClientIdentity,
    program: str,
    transfer: Transfer,
    *,
    userlands: Mapping[str, UserlandFacts],
    link_changes: bool,
    endpoint: EndpointFile | None = None,
    description: str = "",
) -> VirtualMachine:
    """The guest's facts with what counts for this cell.

    `program` is the client's path or name on the lab's machine, `description` the digest of its file; `userlands` are by host.
    With `link_changes` the link has a schedule, whose queue tc gives rates in ticks that it rounds itself.
    """
    parts = {
        "lab": __version__,
        "kernel": facts.kernel_sha256,
        "price": f"{facts.charge_ns} to {facts.charge_most_ns} ns",
        "seed": str(facts.session_seed if facts.session_seed is not None else facts.seed),
        "client": identity.sha256,
        "client's description": description,
        **_client(network, program),
        **{f"{host}'s userland": userland.digest for host, userland in userlands.items()},
        **_server(network, transfer, endpoint),
        "tc": network.router_facts.iproute2 if link_changes else "",
    }
    parts = {name: value for name, value in parts.items() if value}
    return facts.model_copy(update={"counts": parts, "digest": digest(parts)})


def digest(parts: Mapping[str, str]) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(dict(parts), sort_keys=True).encode()).hexdigest()


def other_parts(one: VirtualMachine | None, other: VirtualMachine | None) -> list[str]:
    """The names of the parts that differ, where both guests recorded theirs."""
    if one is None or other is None or not one.counts or not other.counts:
        return []
    return [name for name in dict.fromkeys((*one.counts, *other.counts)) if one.counts.get(name) != other.counts.get(name)]


def _client(network: Network, program: str) -> dict[str, str]:
    """Its libraries, and of a script its folder. A userland has one digest for all its files."""
    if network.client.under_test is not network.client:
        return {}
    if not program:
        return {}
    named = program if "/" in program else shutil.which(program, path=":".join(_FOLDERS))
    if not named:
        return {}
    path = Path(named)
    place = place_of(named)
    folder = ""
    if place is not None and place.files is not None and is_script(path):
        listed = [(name, files.digest(Path(place.folder, name))) for name in place.files]
        folder = hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    return {"client's libraries": _libraries_of(path), "client's folder": folder}


def _server(network: Network, transfer: Transfer, endpoint: EndpointFile | None) -> dict[str, str]:
    if endpoint:
        begun = "" if endpoint.userland_name else "".join(map(_of_named, (endpoint.program, shlex.split(endpoint.start)[0])))
        return {"endpoint": endpoint.digest, "server": begun and hashlib.sha256(begun.encode()).hexdigest()}
    if serving_host(network.server, transfer.protocol) is not network.server:
        return {}
    names = ("sshd", "sftp-server") if transfer.protocol == "sftp" else ("nginx",)
    found = [path for name in names if (path := find(name))]
    return {"server": hashlib.sha256("".join(map(_of, found)).encode()).hexdigest()}


def _of_named(program: str) -> str:
    """A program by its path or name; empty for a word that is neither."""
    path = program if "/" in program else shutil.which(program, path=":".join(_FOLDERS))
    return _of(Path(path)) if path and Path(path).is_file() else ""


def _of(program: Path) -> str:
    """A program with its libraries."""
    return hashlib.sha256(f"{_digest(program.resolve())} {_libraries_of(program)}".encode()).hexdigest()


def _libraries_of(program: Path) -> str:
    """A digest of the libraries that the loader finds for a program; of a script, those of its interpreter and that itself."""
    found = program.resolve()
    if is_script(found):
        words = found.open("rb").readline(512)[2:].decode(errors="replace").split()
        named = words[-1] if words[:1] == ["/usr/bin/env"] else words[0] if words else ""
        path = shutil.which(named, path=":".join(_FOLDERS)) if named else None
        return "" if path is None or is_script(Path(path).resolve()) else _of(Path(path))
    return hashlib.sha256("".join(f"{path.name} {_digest(path)}\n" for path in _loaded(found)).encode()).hexdigest()


@cache
def _loaded(program: Path) -> tuple[Path, ...]:
    """Libraries, by the system's loader, which does not execute the program; none where it is static."""
    try:
        done = subprocess.run(
            [_LOADER, "--list", program], capture_output=True, text=True, timeout=_LONGEST_S, check=False, env={}
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(sorted(Path(path) for path in _LOADED.findall(done.stdout)))


@cache
def _digest(path: Path) -> str:
    return files.digest(path)
