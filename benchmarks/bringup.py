"""Bring-up and tear-down of a whole lab: hosts wired, pinned, guarded and shaped, servers answering.

python -m benchmarks.bringup [N]
"""

from __future__ import annotations

import statistics
import sys
import time

from benchmarks.common import keep
from lab.backend.agent.router import RouterChoice
from lab.backend.namespaces.network import open_network
from lab.errors import UsageProblem
from lab.network.guard import assert_no_bypass
from lab.network.pins import pin
from lab.network.shape import shape
from lab.server.bundle import start_servers
from lab.spec.load import load_topology


def once(router: RouterChoice) -> tuple[float, float]:
    """Seconds to bring up, seconds to take down."""
    topology = load_topology("dsl-20")
    started = time.monotonic()
    network = open_network(router=router)
    try:
        pin(network, topology.congestion_control)
        assert_no_bypass(network)
        shape(network, topology.link)
        start_servers(network)
        up = time.monotonic() - started
    finally:
        ended = time.monotonic()
        network.close()
    return up, time.monotonic() - ended


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    samples: dict[str, list[tuple[float, float]]] = {}
    for router in ("kernel", "uml"):
        try:
            samples[router] = [once(router) for _ in range(n)]
        except UsageProblem as problem:
            print(f"{router:7} not here: {problem}")
            continue
        sums = [up + down for up, down in samples[router]]
        ups, downs = zip(*samples[router], strict=True)
        print(
            f"{router:7} n={n}  bring-up {statistics.median(ups):.3f} s  tear-down {statistics.median(downs):.3f} s  "
            f"both: median {statistics.median(sums):.3f} s, min {min(sums):.3f}, max {max(sums):.3f}"
        )
    print(f"raw samples: {keep('bringup', samples)}")


if __name__ == "__main__":
    main()
