"""What a file makes the lab do, by the part of the lab that does it; through the lab's own code, onto hosts that note it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.clients.registry import parse_client, resolve, userland_of
from lab.hosts.host import Completed
from lab.hosts.virtual import ipv6, names
from lab.hosts.virtual import path as path_parts
from lab.hosts.wiring import ROUTER_MACS
from lab.link.hops import Hop
from lab.model.endpoint import EndpointFile
from lab.model.endpoints import Endpoints
from lab.model.errors import RoughwaterError
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.model.userland import NO_USERLANDS
from lab.model.wiring import Wiring
from lab.net import shape as shaping
from lab.net.scheduled import scheduled
from lab.net.shape import shape
from lab.run.userlands import http3_server_of, one_cell
from lab.servers.bundle import places
from lab.servers.endpoint import launch
from tests.support.noted_hosts import NotedNetwork

PARTS = ("link", "mtu", "congestion_control", "schedule", "userlands", "wiring", "endpoint")
"""The parts of a topology. A front end obeys a field if it obeys the parts that the field has an effect on."""


@contextmanager
def _holding() -> Iterator[None]:
    """The router holds what it was given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shaping, "compare", lambda *_: [])
        patch.setattr(Hop, "problems", lambda *_: [])
        yield


class _Router(NotedNetwork):
    def __init__(self) -> None:
        super().__init__(answers={"schedule_script": b"", "trace_script": b"0\n"})
        self.answers["tc"] = lambda words: json.dumps([]).encode() if words[-1] == "show" else b""

    @property
    def told(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(note.what, note.words) for note in self.notes if note.words[-1:] != ("show",)]


def topology_effects(topology: Topology) -> dict[str, Any]:
    """By part."""
    plain: Any = _Router()
    changing: Any = _Router()
    topology = topology.in_virtual_time()
    with _holding():
        shape(plain, topology.link)
        with scheduled(changing, topology) as running:
            if running:
                running.start()
    return {
        "link": plain.told,
        "mtu": topology.link.mtu,
        "congestion_control": topology.congestion_control,
        "schedule": changing.told if topology.schedule else None,
        "userlands": (one_cell(None, topology, NO_USERLANDS, http3=True), http3_server_of(topology)),
        "wiring": _wiring_effects(topology.wiring),
        "endpoint": _endpoint_effects(topology.served_by),
    }


def _wiring_effects(wiring: Wiring) -> Any:
    """The names that hosts know, the router's treatment of IPv6, and the resolver's answers."""
    ports = {"client": "to-client", "server": "to-server"}
    scripts = [ipv6.leaf_script("client"), ipv6.router_script(ports, ROUTER_MACS, wiring.ipv6)] if wiring.has_ipv6 else []
    path = [path_parts.wires_script(wiring), *(path_parts.node_script(wiring, index) for index in range(len(wiring.path)))]
    nats = [path_parts.nat_script(node.nat) for node in wiring.nodes if node.nat]
    links = [(node.name, node.link) for node in wiring.nodes]
    return wiring.same_host, names.files(wiring), scripts, names.resolver_words(wiring), places(wiring), path, nats, links


class _ServersHost:
    """A server's host that notes everything that an endpoint does there."""

    name, address, workdir = "server", "10.77.2.2", Path("/w")

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.under_test = self
        self.image = None

    def run(self, argv: Sequence[str], **how: Any) -> Completed:
        self.told.append((tuple(argv), sorted(how.items(), key=str)))
        return replace(_DONE, returncode=0)

    def start(self, argv: Sequence[str], **how: Any) -> Any:
        self.told.append(("start", tuple(argv), sorted(how.items(), key=str)))
        return None

    def write(self, path: Any, data: bytes, **_: object) -> None:
        self.told.append((str(path), data))

    def place(self, program: str) -> str:
        return program

    program = place


def _endpoint_effects(endpoint: EndpointFile | None) -> Any:
    """All that it does on its host, all that clients get, and how an upload is looked for."""
    if endpoint is None:
        return None
    host: Any = _ServersHost()
    started = launch(host, endpoint, server="server", user="lab", ca_path="/w/ca.pem", random_bytes=lambda count: b"1" * count)
    started.seed("1MB")
    started.read_back("U", "00", "/w/it")
    ends = replace(ENDS, service=started.service)
    moved = [each for each in TRANSFERS if endpoint.serves(each.protocol, each.direction)]
    told = [(ends.url(each), ends.service_url(each), ends.arrival_path(each)) for each in moved]
    return (
        host.told,
        started.checks,
        endpoint.ready.within,
        str(started.log_path),
        told,
        started.service.environment,
        endpoint.notes,
    )


ENDS = Endpoints("server", "/srv", "/w", "/w/ca.pem", "/w/known", "/w/key")
_DONE = Completed(("mine",), 0, b"took 3", b"", 0, 10**9, 0.0, 0.0)
_ONE: tuple[dict[str, Any], ...] = (
    {},
    {"limit": "1 MB/s"},
    {"buffer_size": "32 KiB"},
    {"buffer_size": "32000 B"},
)
_REQUESTS = {"files": 3, "discard": True, "parallel": 2}
TRANSFERS = tuple(
    Transfer.model_validate({"protocol": protocol, "direction": direction, "size": "1 MB", **settings})
    for protocol in ("http1", "h2", "sftp")
    for direction in ("get", "put")
    for settings in (
        *_ONE,
        *([{"files": 3}] if protocol == "sftp" else []),
        *([_REQUESTS] if protocol != "sftp" and direction == "get" else []),
    )
)


class _Asked:
    """A host that is asked for the version of a program."""

    name, workdir = "client", Path("/w")

    def __init__(self) -> None:
        self.told: list[Any] = []

    def identify(self, *words: Any) -> Completed:
        self.told.append(words)
        return Completed(("mine",), 0, b"/bin/mine\n00\nmine 1\n", b"", 0, 0, 0.0, 0.0)


def client_effects(file: Path, *, program: str = "") -> dict[str, Any]:
    """The input of the client in that file and the reading of its output, by the adapter's method; or why it cannot be had.

    The file is in a folder of clients; with a `program`, the client is a build of it.
    """
    spec = parse_client(f"{file.stem}={program}" if program else str(file))
    try:
        adapter = resolve(spec)
        host: Any = _Asked()
        identity = adapter.identify(host)
    except RoughwaterError as problem:
        return {"resolve": str(problem)}
    able = {transfer: adapter.supports(transfer) for transfer in TRANSFERS}
    done = [transfer for transfer, why in able.items() if not why]
    return {
        "resolve": (adapter.name, userland_of(spec), _version_of(file.stem)),
        "identify": (host.told, identity),
        "supports": list(able.values()),
        "command": [adapter.command(transfer, ENDS) for transfer in done],
        "inputs": [adapter.inputs(transfer, ENDS) for transfer in done],
        "environment": dict(adapter.environment(ENDS)),
        "parse": [_parsed(adapter, transfer) for transfer in done],
    }


def _version_of(name: str) -> str:
    """The client of NAME@VERSION."""
    try:
        return repr(resolve(parse_client(f"{name}@0.28.1")))
    except RoughwaterError as problem:
        return str(problem)


def _parsed(adapter: Any, transfer: Transfer) -> str:
    try:
        return repr(adapter.parse(transfer, _DONE))
    except ValueError as problem:
        return str(problem)
