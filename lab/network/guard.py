"""The leak guard: when a packet can go round the shaper, the lab refuses to start."""

from __future__ import annotations

import json

from lab.backend.chores import chores_of, prober_of
from lab.backend.host import Host, Network
from lab.errors import LabFault
from lab.network.pins import LEAF_INTERFACE

_REMEDY = "the link would not be what it claims; take the extra interface or route away"


def assert_no_bypass(network: Network) -> None:
    """Client and server must have no interface but their own, route to each other over it, and be two hops apart.

    The last is tried with a packet: a probe with TTL 1 dies on any router, so an answer to it came round the router.
    """
    pairs = [(network.client, network.server), (network.server, network.client)]
    if (prober := prober_of(network)) is not network.client:
        pairs.append((prober, network.server))
    for host, other in pairs:
        if chores := chores_of(host):
            if problem := chores.bypass(other):
                raise LabFault(f"traffic can go round the router: {problem}", remedy=_REMEDY)
            continue
        script = f"ip -j link; echo --; ip -j route get {other.address}; echo --; ping -n -c 1 -W 1 -t 1 {other.address}"
        links, route, probe = host.run(["/bin/sh", "-c", script], root=True, check=False).text.split("--\n", 2)
        problem = _bypass(host, other, json.loads(links or "[]"), json.loads(route or "[]"), probe)
        if problem:
            raise LabFault(f"traffic can go round the router: {problem}", remedy=_REMEDY)


def _bypass(host: Host, other: Host, links: list[dict[str, object]], route: list[dict[str, object]], probe: str) -> str:
    extra = sorted(str(link["ifname"]) for link in links if link["ifname"] not in ("lo", LEAF_INTERFACE))
    if extra:
        return f"{host.name} has another interface, {', '.join(extra)}"
    if not route:
        return f"{host.name} has no route to {other.name}"
    if route[0].get("dev") != LEAF_INTERFACE or "gateway" not in route[0]:
        return f"{host.name} reaches {other.name} directly over {route[0].get('dev')}"
    if "Time to live exceeded" not in probe:
        return (
            f"a packet with one hop to live got from {host.name} to {other.name}"
            if " 0 received" not in probe
            else (f"no router answered between {host.name} and {other.name}")
        )
    return ""
