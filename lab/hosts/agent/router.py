"""Makes the router of a network whose hosts have agents: this kernel where it has netem, else a User-Mode Linux guest.

Wired and routed, not shaped. Standard library only: a container started by hand does this itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.host import AgentHost, ConsoleHost
from lab.hosts.host import Host, Ports, RouterFacts
from lab.hosts.wiring import ROUTER_MACS, Addresses, ip_batch, router_commands
from lab.link.netem import supports_seed
from lab.model.errors import LabFault, UsageProblem

RouterChoice = Literal["auto", "kernel", "uml"]
ROUTER_CHOICES: tuple[str, ...] = get_args(RouterChoice)

BOOT_TIMEOUT_S = 30.0
_MEMORY_MIB = 256
# Bursts at link-local speed must fit while the guest is not scheduled: 64 MiB is 50 ms at 10 Gbit/s.
_BUFFER_BYTES = 64 << 20
# On the command line of every boot of this router; consoles, memory, devices and uml_dir are `uml_launch`'s.
# A name=value the kernel does not know becomes init's environment. The tunable keeps glibc off AVX: where UML saves
# registers by the old call (always under the lab's seccomp filter), it loses the upper halves of vector registers at a
# context switch. Seen as busybox 1.35 crashing in 6.1 at once; 6.12 was merely lucky.
BOOT_ARGUMENTS = (
    "initrd=/initrd.gz",
    "root=/dev/ram0",
    "rdinit=/init",
    "quiet",
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-XSAVE,-XSAVEC,-AVX,-AVX2,-AVX512F,-AVX512VL",
)
_GUEST_PORTS = Ports(client="vec0", server="vec1")
_VERSIONS = "uname -r; tc -V"


@dataclass(frozen=True)
class RouterSite:
    """The place for a router: `wire` sees `ports`; a UML guest's files are below `uml_root`, and `python` starts the guest."""

    agent: AgentHandle
    wire: AgentHost
    ports: Ports
    addresses: Addresses
    python: str
    uml_root: str
    leaf_macs: Mapping[str, str] = field(default_factory=dict)


Router = tuple[Host, Ports, RouterFacts]


def begin(site: RouterSite, choice: RouterChoice) -> Callable[[], Router]:
    """Start the router; the returned function waits until it is up.

    Raises UsageProblem for a kernel router where there is no netem; LabFault when the guest does not boot.
    """
    if choice not in ROUTER_CHOICES:
        raise UsageProblem(f"unknown router {choice!r}", remedy="use " + ", ".join(ROUTER_CHOICES))
    in_kernel = choice != "uml" and kernel_has_netem(site.wire)
    if choice == "kernel" and not in_kernel:
        raise UsageProblem(
            "this kernel has no sch_netem, so it cannot be the router",
            remedy="use --router uml, or load the module: sudo modprobe sch_netem",
        )
    return (lambda: kernel_router(site.wire, site.ports, site.addresses, site.leaf_macs)) if in_kernel else _uml_router(site)


def find(site: RouterSite, kind: str) -> Host:
    """A router that `begin` has made."""
    return ConsoleHost(site.agent, site.addresses.client_gateway) if kind == "uml" else _on_wire(site)


def ports_of(wire: Host, addresses: Addresses) -> Ports:
    """The router's interfaces by their addresses, because a container engine names them in any order."""
    found: dict[str, str] = {}
    for link in json.loads(wire.run(["ip", "-j", "-4", "address"]).text):
        for entry in link.get("addr_info", []):
            found[str(entry.get("local", "")).rpartition(".")[0]] = str(link["ifname"])
    try:
        return Ports(client=found[addresses.client_net], server=found[addresses.server_net])
    except KeyError as missing:
        raise LabFault(f"the router's container is not on network {missing.args[0]}.0/24") from None


def leave_to_guest(wire: Host, ports: Ports) -> None:
    """Take away the addresses that the engine gave this container: its own kernel must not forward packets."""
    wire.run(["/bin/sh", "-ec", f"ip address flush dev {ports.client}\nip address flush dev {ports.server}"], root=True)


def kernel_has_netem(wire: Host) -> bool:
    """Tried on the lab's own loopback: a list of modules does not include built-in code."""
    script = "tc qdisc add dev lo root netem delay 1us && tc qdisc del dev lo root"
    return wire.run(["/bin/sh", "-ec", script], root=True, check=False).returncode == 0


def _on_wire(site: RouterSite) -> AgentHost:
    return site.wire.renamed("router", site.addresses.client_gateway)


def _commands(site: RouterSite, ports: Ports) -> list[list[str]]:
    return router_commands(site.addresses, {"client": ports.client, "server": ports.server}, site.leaf_macs)


class WireHost(Host, Protocol):
    """A host that can have another name."""

    def renamed(self, name: str, address: str) -> Host: ...


def kernel_router(wire: WireHost, found: Ports, addresses: Addresses, leaf_macs: Mapping[str, str]) -> Router:
    """The router where the kernel of `wire` has netem."""
    ports = {"client": found.client, "server": found.server}
    # The hosts expect these addresses, and a container engine gives others.
    lines = [f"link set dev {port} address {ROUTER_MACS[name]}" for name, port in ports.items()]
    lines += [shlex.join(command) for command in router_commands(addresses, ports, leaf_macs)]
    script = [ip_batch(lines)]
    # A container cannot write /proc/sys, and its engine has set this.
    script += ["[ $(cat /proc/sys/net/ipv4/ip_forward) = 1 ] || echo 1 >/proc/sys/net/ipv4/ip_forward", _VERSIONS]
    facts = _facts(wire.run(["/bin/sh", "-ec", "\n".join(script)], root=True).text)
    return wire.renamed("router", addresses.client_gateway), found, facts


def kernel_facts(wire: Host) -> RouterFacts:
    """The facts of a router that is this kernel."""
    return _facts(wire.run(["/bin/sh", "-c", _VERSIONS]).text)


def _facts(versions: str) -> RouterFacts:
    kernel, iproute2 = _versions(versions)
    return RouterFacts("kernel", kernel, iproute2, supports_seed(kernel, iproute2))


def _uml_router(site: RouterSite) -> Callable[[], Router]:
    if not site.uml_root:
        raise UsageProblem("the User-Mode Linux router has not been built yet", remedy="run `lab setup` (or `make setup`)")
    router = ConsoleHost(site.agent, site.addresses.client_gateway)
    argv = [site.python, "-I", "-m", "lab.hosts.agent.uml_launch", site.uml_root, str(_MEMORY_MIB), str(_BUFFER_BYTES)]
    argv += [f"{site.ports.client}={ROUTER_MACS['client']}", f"{site.ports.server}={ROUTER_MACS['server']}"]
    booted = router.start_boot([*argv, "--", *BOOT_ARGUMENTS], timeout_s=BOOT_TIMEOUT_S)

    def finish() -> Router:
        greeting = booted()
        for command in _commands(site, _GUEST_PORTS):
            router.run(command)
        forward = "echo 1 >/proc/sys/net/ipv4/ip_forward; "
        kernel, iproute2 = _versions(router.run(["sh", "-c", forward + _VERSIONS.replace("tc", "/sbin/tc")]).text)
        buffers = [int(size) for size in re.findall(r"receive-buffer (\d+)", greeting)]
        if not buffers:
            raise LabFault(f"the User-Mode Linux router started without its ports: {greeting[-200:]}")
        facts = RouterFacts("uml", kernel, iproute2, supports_seed(kernel, iproute2), receive_buffer_bytes=min(buffers))
        return router, _GUEST_PORTS, facts

    return finish


def _versions(text: str) -> tuple[str, str]:
    """The kernel's release and iproute2's version from `_VERSIONS`."""
    kernel, _, version = text.strip().partition("\n")
    return kernel.strip(), iproute2_version(version)


def iproute2_version(text: str) -> str:
    found = re.search(r"iproute2-([\d.]+)", text)
    return found[1] if found else text.strip()
