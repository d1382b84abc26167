"""Makes the middle hop of any network whose hosts are behind agents: the kernel where it has netem, else a User-Mode Linux guest.

Wired and routed, not shaped. Standard library only: a container that nobody drives does this by itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from lab.backend.agent.handle import AgentHandle
from lab.backend.agent.host import AgentHost, ConsoleHost
from lab.backend.agent.wiring import ROUTER_MACS, Addresses, ip_batch, router_commands
from lab.backend.host import Host, Ports, RouterFacts
from lab.errors import LabFault, UsageProblem

RouterChoice = Literal["auto", "kernel", "uml"]
ROUTER_CHOICES: tuple[str, ...] = get_args(RouterChoice)

BOOT_TIMEOUT_S = 30.0
_MEMORY_MIB = 256
# Bursts at link-local speed must fit while the guest is not scheduled: 64 MiB is 50 ms at 10 Gbit/s.
_BUFFER_BYTES = 64 << 20
# What every boot of this router needs on its command line; consoles, memory, devices and uml_dir are the backend's.
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
_SEED_SINCE = (6, 6)  # both the kernel's and iproute2's netem learnt `seed` in 6.6
_TELL = "uname -r; tc -V"


@dataclass(frozen=True)
class Site:
    """Where a router is made: `wire` sees `ports`; a UML guest's files are below `uml_root`, and `python` starts it."""

    agent: AgentHandle
    wire: AgentHost
    ports: Ports
    addresses: Addresses
    python: str
    uml_root: str
    leaf_macs: Mapping[str, str] = field(default_factory=dict)


Router = tuple[Host, Ports, RouterFacts]


def begin(site: Site, choice: RouterChoice) -> Callable[[], Router]:
    """Starts what takes time now; the returned function waits for it.

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


def find(site: Site, kind: str) -> Host:
    """The router that is there already."""
    return ConsoleHost(site.agent, site.addresses.client_gateway) if kind == "uml" else _on_wire(site)


def ports_of(wire: Host, addresses: Addresses) -> Ports:
    """Where a container engine has named the interfaces, in an order of its own: its addresses tell them apart."""
    found: dict[str, str] = {}
    for link in json.loads(wire.run(["ip", "-j", "-4", "address"]).text):
        for entry in link.get("addr_info", []):
            found[str(entry.get("local", "")).rpartition(".")[0]] = str(link["ifname"])
    try:
        return Ports(client=found[addresses.client_net], server=found[addresses.server_net])
    except KeyError as missing:
        raise LabFault(f"the router's container is not on network {missing.args[0]}.0/24") from None


def leave_to_guest(wire: Host, ports: Ports) -> None:
    """The engine gave this container an address on each network; its own kernel must have no part in what passes."""
    wire.run(["/bin/sh", "-ec", f"ip address flush dev {ports.client}\nip address flush dev {ports.server}"], root=True)


def kernel_has_netem(wire: Host) -> bool:
    """Tried on the lab's own loopback: a module list would not know of built-in code."""
    script = "tc qdisc add dev lo root netem delay 1us && tc qdisc del dev lo root"
    return wire.run(["/bin/sh", "-ec", script], root=True, check=False).returncode == 0


def supports_seed(kernel_release: str, iproute2: str) -> bool:
    return _version(kernel_release) >= _SEED_SINCE and _version(iproute2) >= _SEED_SINCE


def _on_wire(site: Site) -> AgentHost:
    return site.wire.called("router", site.addresses.client_gateway)


def _commands(site: Site, ports: Ports) -> list[list[str]]:
    return router_commands(site.addresses, {"client": ports.client, "server": ports.server}, site.leaf_macs)


class WireHost(Host, Protocol):
    """A place that can be called something else."""

    def called(self, name: str, address: str) -> Host: ...


def kernel_router(wire: WireHost, found: Ports, addresses: Addresses, leaf_macs: Mapping[str, str]) -> Router:
    """The middle hop where the kernel of `wire` has netem."""
    ports = {"client": found.client, "server": found.server}
    # The hosts have been told these addresses, and an engine gives others.
    lines = [f"link set dev {port} address {ROUTER_MACS[name]}" for name, port in ports.items()]
    lines += [shlex.join(command) for command in router_commands(addresses, ports, leaf_macs)]
    script = [ip_batch(lines)]
    # In a container /proc/sys cannot be written, and whoever made the container has set it.
    script += ["[ $(cat /proc/sys/net/ipv4/ip_forward) = 1 ] || echo 1 >/proc/sys/net/ipv4/ip_forward", _TELL]
    kernel, iproute2 = _told(wire.run(["/bin/sh", "-ec", "\n".join(script)], root=True).text)
    return (
        wire.called("router", addresses.client_gateway),
        found,
        RouterFacts("kernel", kernel, iproute2, supports_seed(kernel, iproute2)),
    )


def _uml_router(site: Site) -> Callable[[], Router]:
    if not site.uml_root:
        raise UsageProblem("the User-Mode Linux router has not been built yet", remedy="run `lab setup` (or `make setup`)")
    router = ConsoleHost(site.agent, site.addresses.client_gateway)
    argv = [site.python, "-I", "-m", "lab.backend.agent.uml_launch", site.uml_root, str(_MEMORY_MIB), str(_BUFFER_BYTES)]
    argv += [f"{site.ports.client}={ROUTER_MACS['client']}", f"{site.ports.server}={ROUTER_MACS['server']}"]
    booted = router.start_boot([*argv, "--", *BOOT_ARGUMENTS], timeout_s=BOOT_TIMEOUT_S)

    def finish() -> Router:
        greeting = booted()
        for command in _commands(site, _GUEST_PORTS):
            router.run(command)
        forward = "echo 1 >/proc/sys/net/ipv4/ip_forward; "
        kernel, iproute2 = _told(router.run(["sh", "-c", forward + _TELL.replace("tc", "/sbin/tc")]).text)
        buffers = [int(size) for size in re.findall(r"receive-buffer (\d+)", greeting)]
        if not buffers:
            raise LabFault(f"the User-Mode Linux router started without its ports: {greeting[-200:]}")
        facts = RouterFacts("uml", kernel, iproute2, supports_seed(kernel, iproute2), receive_buffer_bytes=min(buffers))
        return router, _GUEST_PORTS, facts

    return finish


def _told(text: str) -> tuple[str, str]:
    """What `_TELL` printed: the kernel's release and iproute2's version."""
    kernel, _, version = text.strip().partition("\n")
    return kernel.strip(), iproute2_version(version)


def iproute2_version(text: str) -> str:
    found = re.search(r"iproute2-([\d.]+)", text)
    return found[1] if found else text.strip()


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else (0, 0)
