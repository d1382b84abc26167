"""The command that a sample stores is that of the process in the guest, by its kernel, for every client that is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

import pytest

from lab.clients.adapter import ClientAdapter
from lab.clients.registry import adapter_for, list_clients
from lab.hosts.host import Process
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.errors import UsageProblem
from lab.model.link import Link
from lab.model.transfer import ProtocolName, Transfer
from lab.model.units import BitRate, Duration, Size
from lab.net.pins import pin
from lab.net.shape import shape
from lab.run.sample import take_sample
from lab.servers.bundle import Servers, start_servers

# Half a second and a second on the link: long enough for a look at the processes.
KINDS: dict[str, dict[str, object]] = {
    "get": {"direction": "get", "size": Size(1_000_000)},
    "put": {"direction": "put", "size": Size(1_000_000)},
    "requests": {"direction": "get", "size": Size(10_000), "files": 200, "parallel": 4, "discard": True},
}
EVERYWHERE = {"get": {"ferry", "curl", "openssh"}, "put": {"ferry", "curl", "openssh"}, "requests": {"ferry", "curl"}}
PROTOCOLS: tuple[ProtocolName, ...] = ("http1", "sftp", "https1", "h2")
# One program prints all of them, each below a line with its file's name; a process may end meanwhile.
_ALL = "exec head -v -c 65536 /proc/[0-9]*/cmdline 2>/dev/null"
_HEADING = re.compile(rb"(?:^|\n)==> /proc/[^\n]* <==\n")
_MOST_LOOKS = 25
_PAUSE_S = 0.02


@pytest.fixture(scope="module")
def lab() -> Iterator[tuple[VirtualNetwork, Servers]]:
    network = open_network()
    try:
        pin(network, "cubic")
        shape(network, Link(rate=BitRate.parse("16 Mbit/s"), rtt=Duration.parse("10 ms")))
        yield network, start_servers(network, payload_sizes=(), clock=network.clock, random_bytes=network.random_bytes)
    finally:
        network.close()


def installed(network: VirtualNetwork) -> dict[str, ClientAdapter]:
    """Every client that runs on this machine, by name."""
    found = {}
    for client in list_clients():
        try:
            adapter = adapter_for(client)
            adapter.identify(network.client)
        except UsageProblem as missing:
            print(f"{client}: {missing}")
        else:
            found[client] = adapter
    return found


def has(lines: list[list[str]], command: list[str]) -> bool:
    """Whether a process has these words; of a script its interpreter comes first, and the place of the program is the host's."""
    at = len(command)
    return any(
        words[-at + 1 :] == command[1:] and PurePath(words[-at]).name == PurePath(command[0]).name
        for words in lines
        if len(words) >= at > 1
    )


def transfer_of(kind: str, protocol: ProtocolName) -> Transfer | None:
    """None where the protocol has no such transfer."""
    if kind == "requests" and protocol == "sftp":
        return None
    return Transfer.model_validate({"protocol": protocol, **KINDS[kind]})


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_is_what_ran(lab: tuple[VirtualNetwork, Servers], kind: str) -> None:
    network, servers = lab
    tried, other = [], {}
    for client, adapter in installed(network).items():
        wanted = filter(None, (transfer_of(kind, protocol) for protocol in PROTOCOLS))
        transfer = next((each for each in wanted if not adapter.supports(each)), None)
        if transfer is None:
            continue
        seen: list[list[str]] = []

        def look(process: Process, seen: list[list[str]] = seen) -> None:
            for _ in range(_MOST_LOOKS):
                processes = _HEADING.split(network.client.run(["/bin/sh", "-c", _ALL], check=False).stdout)
                seen.extend(words.decode().removesuffix("\0").split("\0") for words in processes)
                if not process.running():
                    return
                network.clock.sleep(_PAUSE_S)

        sample = take_sample(network, servers, adapter, transfer, 0, timeout_s=60, meanwhile=look)
        tried.append(client)
        if sample.problem or not has(seen, sample.command):
            other[client] = (sample.problem, sample.command)
    assert other == {}
    assert EVERYWHERE[kind] <= {*tried}
