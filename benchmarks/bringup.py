"""Time to bring a complete lab up and down: hosts wired, pinned, guarded and shaped, servers answering.

python -m benchmarks.bringup [N] [--backend namespaces|compose] [--by-hand]

With --by-hand Compose alone brings the containers up, until all their health checks pass.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from benchmarks.common import keep
from lab.hosts.agent.router import RouterChoice
from lab.hosts.choose import BACKENDS, Backend, open_network
from lab.hosts.compose import docker
from lab.model.errors import LabFault, UsageProblem
from lab.model.load import load_topology
from lab.model.paths import project_root
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.bundle import start_servers

TOPOLOGY = "dsl-20"
PROJECT = "roughwater-bringup"
_PATIENCE_S = 60.0


def once(backend: Backend, router: RouterChoice) -> tuple[float, float]:
    """Seconds to bring up, seconds to take down."""
    topology = load_topology(TOPOLOGY)
    started = time.monotonic()
    network = open_network(backend, router=router)
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


def by_hand() -> tuple[float, float]:
    """`docker compose up -d` until all three are healthy, and `down --volumes`."""
    words = [*docker.compose_command(), "-p", PROJECT, "-f", str(project_root() / "docker-compose.yml")]
    started = time.monotonic()
    try:
        docker.run([*words, "up", "-d"], timeout_s=_PATIENCE_S, env={"LINK": TOPOLOGY})
        while (states := health()) != ["healthy"] * 3:
            if time.monotonic() - started > _PATIENCE_S:
                raise LabFault(f"not healthy after {_PATIENCE_S:g} s: {states}")
            time.sleep(0.05)
        up = time.monotonic() - started
    finally:
        ended = time.monotonic()
        docker.run([*words, "down", "--volumes"], timeout_s=_PATIENCE_S)
    return up, time.monotonic() - ended


def health() -> list[str]:
    label = f"label=com.docker.compose.project={PROJECT}"
    found = docker.ask("ps", "--filter", label, "--quiet").split()
    return docker.ask("inspect", "--format", "{{.State.Health.Status}}", *found).split() if found else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=20)
    parser.add_argument("--backend", choices=BACKENDS, default="namespaces")
    parser.add_argument("--by-hand", action="store_true", help="Compose alone")
    options = parser.parse_args()
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        f"{options.backend} {router}": lambda router=router: once(options.backend, router)  # type: ignore[misc]
        for router in ("kernel", "uml")
    }
    if options.by_hand:
        ways = {f"by hand, compose {docker.compose_version()}": by_hand}
    samples: dict[str, list[tuple[float, float]]] = {}
    for name, way in ways.items():
        try:
            samples[name] = [way() for _ in range(options.n)]
        except UsageProblem as problem:
            print(f"{name}: not here: {problem}")
            continue
        sums = [up + down for up, down in samples[name]]
        ups, downs = zip(*samples[name], strict=True)
        print(
            f"{name}: n={options.n}  bring-up {statistics.median(ups):.3f} s (max {max(ups):.3f})  "
            f"tear-down {statistics.median(downs):.3f} s  "
            f"both: median {statistics.median(sums):.3f} s, min {min(sums):.3f}, max {max(sums):.3f}"
        )
    print(f"raw samples: {keep('bringup', samples)}")


if __name__ == "__main__":
    main()
