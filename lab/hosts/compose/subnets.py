"""Addresses for a lab of containers: the first pair of networks in 10.77.0.0/16 that the machine does not use."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterable, Iterator

from lab.hosts.compose.docker import ask
from lab.hosts.wiring import Addresses

_SPACE = "10.77"
# Pairs to try, more than any machine runs labs at once.
PAIRS = 100


def pairs() -> Iterator[Addresses]:
    """10.77.1 and 10.77.2 first, as in docker-compose.yml."""
    for number in range(PAIRS):
        yield Addresses(f"{_SPACE}.{2 * number + 1}", f"{_SPACE}.{2 * number + 2}")


def free(taken: Iterable[str]) -> Iterator[Addresses]:
    """The pairs that overlap none of these networks."""
    known = [ipaddress.ip_network(network, strict=False) for network in taken]
    for pair in pairs():
        wanted = [ipaddress.ip_network(f"{net}.0/24") for net in (pair.client_net, pair.server_net)]
        if not any(one.version == 4 and one.overlaps(each) for one in known for each in wanted):
            yield pair


def taken() -> list[str]:
    """The engine's networks, and those to which this machine has a route."""
    names = ask("network", "ls", "-q").split()
    found: list[str] = []
    if names:
        for network in json.loads(ask("network", "inspect", *names)):
            found += [config["Subnet"] for config in network["IPAM"]["Config"] or [] if "Subnet" in config]
    done = subprocess.run(["ip", "-j", "-4", "route"], capture_output=True, check=False)
    routes = json.loads(done.stdout or b"[]") if done.returncode == 0 else []
    return found + [route["dst"] for route in routes if route["dst"] != "default"]
