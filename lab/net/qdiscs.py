"""The router's qdiscs and their counters, as the kernel gives them."""

from __future__ import annotations

import json
from typing import Any

from lab.hosts.host import Network
from lab.link.hops import HOPS
from lab.model.errors import LabFault


def read_qdiscs(network: Network) -> dict[str, list[dict[str, Any]]]:
    """`tc -s -j qdisc` of the router's two ports, and of its own wires where it has some (`lab.link.hops`), as parsed JSON."""
    output = network.router.run(["tc", "-s", "-j", "qdisc", "show"], root=True).text
    try:
        qdiscs = json.loads(output or "[]")
    except ValueError:
        raise LabFault(f"the router's tc answered with something else than JSON: {output[:120]!r}") from None
    ports = (network.router_ports.client, network.router_ports.server)
    # tc prints a root before what is below it.
    wires = sorted({str(qdisc.get("dev")) for qdisc in qdiscs} & HOPS)
    return {port: [qdisc for qdisc in qdiscs if qdisc.get("dev") == port] for port in (*ports, *wires)}
