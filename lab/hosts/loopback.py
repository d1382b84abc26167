"""Client and server on one host: its loopback takes the place of wires and router, and `localhost` is the server's name.

The host is a network namespace without another interface. Nothing is shaped there: a real loopback has no delay, an MTU of
65,536 bytes and segmentation offload, and keeps them. Standard library only, because containers import it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from lab.hosts.host import Host, Ports, RouterFacts
from lab.hosts.linux_settings import READ_SYSCTLS, sysctl_lines, sysctl_problems
from lab.hosts.wiring import ip_batch

LOOPBACK = "lo"
NAME = "localhost"
ADDRESS, ADDRESS_6 = "127.0.0.1", "::1"
PORTS = Ports(client=LOOPBACK, server=LOOPBACK)
# For /etc/hosts, which has 127.0.0.1 as localhost already. A resolver returns ::1 before it (RFC 6724).
NAMES: Mapping[str, str] = {"client": ADDRESS, "server": ADDRESS, NAME: ADDRESS_6}
_HAS_IPV6 = f"ip -6 address show dev {LOOPBACK} 2>/dev/null | grep -q {ADDRESS_6}/128"


def setup_script(*, group: int = 0) -> str:
    """Bring the loopback up, with IPv6 where the kernel has it. Programs of `group` may ping."""
    return "\n".join(
        (
            "for f in all default lo; do echo 0 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done 2>/dev/null || :",
            ip_batch([f"link set {LOOPBACK} up"]),
            "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
            f"echo {group} {group} >/proc/sys/net/ipv4/ping_group_range",
        )
    )


def has_ipv6(host: Host) -> bool:
    """True if the loopback has ::1."""
    return host.run(["/bin/sh", "-c", _HAS_IPV6], root=True, check=False).returncode == 0


def facts_of(host: Host) -> RouterFacts:
    """Recorded instead of a router's facts: this network has no router."""
    kernel, _, _ = host.run(["uname", "-r"]).text.partition("\n")
    return RouterFacts("none", kernel, "", supports_seed=False, notes=("client and server are one host",))


def pin(host: Host, congestion_control: str) -> None:
    """Set TCP as on any other host; congestion control by the loopback's own routes, which the kernel makes without it.

    IPv6 has no command that changes a route of the kernel's in place.
    """
    control = shlex.quote(congestion_control)
    lines = [
        *sysctl_lines(),
        f"ip route replace local {ADDRESS} dev {LOOPBACK} table local proto kernel scope host src {ADDRESS} congctl {control}",
        f"if {_HAS_IPV6}; then",
        f"ip -6 route del local {ADDRESS_6} dev {LOOPBACK} table local",
        f"ip -6 route add local {ADDRESS_6} dev {LOOPBACK} table local proto kernel metric 1 congctl {control}",
        "fi",
    ]
    host.run(["/bin/sh", "-ec", "\n".join(lines)], root=True)


def unpinned(host: Host, congestion_control: str) -> list[str]:
    """Every setting that differs from what `pin` sets, in words."""
    shown = f"ip -j route show table local {ADDRESS}/32; echo --; ip -j -6 route show table local {ADDRESS_6} 2>/dev/null"
    parts = host.run(["/bin/sh", "-c", f"{READ_SYSCTLS}; echo --; {shown}"], root=True).text.split("--\n")
    problems = sysctl_problems(parts[0])
    for address, text in zip((ADDRESS, ADDRESS_6), parts[1:], strict=False):
        for route in json.loads(text.strip() or "[]"):
            used = [str(metric.get("congestion")) for metric in route.get("metrics", [{}])]
            if used != [congestion_control]:
                problems.append(f"congestion control of the route to {address} is {', '.join(used)}, not {congestion_control}")
    return problems


def bypass(host: Host) -> str:
    """The bypass by which a packet to `localhost` can leave the loopback, over another interface; empty if none exists."""
    # A kernel may have made more of them; as long as they are down, they carry nothing.
    links = json.loads(host.run(["ip", "-j", "link"], root=True).text or "[]")
    extra = sorted(str(link["ifname"]) for link in links if link["ifname"] != LOOPBACK and "UP" in link["flags"])
    return f"{host.name} has an interface besides its loopback, {', '.join(extra)}" if extra else ""
