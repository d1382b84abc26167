"""IPv6 next to IPv4 in a machine in virtual time: commands that wire and pin it, and the proof of both.

No packet of it but the programs' own: neighbours are permanent, and nothing is discovered, advertised or checked for duplicates.
An exchange at the wrong moment would shift which packet a seed drops.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from lab.hosts.host import Host
from lab.hosts.wiring import CLIENT_NET_6, LEAF, ROUTER_MACS, SERVER_NET_6, ip_batch
from lab.link.hops import IPV6_RULE, ipv6_detour
from lab.model.errors import LabFault
from lab.model.wiring import Ipv6, SlowerIpv6

SETTLED_S = 12.0
"""The kernel reports its multicast groups a few times in the first 10 s (RFC 3810), which no client is to see."""
_NETS = {"client": CLIENT_NET_6, "server": SERVER_NET_6}
# addr_gen_mode 1 makes no link-local address.
_SETTINGS = {"accept_dad": 0, "accept_ra": 0, "router_solicitations": 0, "addr_gen_mode": 1, "disable_ipv6": 0}
# More than two system calls and a program's start may add to a ping over an idle line.
_ALLOWED_MS = 1.0


def leaf_script(name: str) -> str:
    """On client or server, once its interface is up."""
    net = _NETS[name]
    return "\n".join(
        (
            _settings("lo", LEAF),
            ip_batch(
                (
                    f"address add {net}::2/64 dev {LEAF} nodad",
                    f"neighbour replace {net}::1 lladdr {ROUTER_MACS[name]} nud permanent dev {LEAF}",
                    f"route replace default via {net}::1 dev {LEAF}",
                ),
                ipv6=True,
            ),
        )
    )


def router_script(ports: Mapping[str, str], macs: Mapping[str, str], state: Ipv6) -> str:
    """On the router: `ports` are its devices by the host that they lead to, `macs` those of the hosts."""
    lines = []
    for name, net in _NETS.items():
        lines.append(f"address add {net}::1/64 dev {ports[name]} nodad")
        lines.append(f"neighbour replace {net}::2 lladdr {macs[name]} nud permanent dev {ports[name]}")
    script = [_settings("lo", *ports.values()), "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding", ip_batch(lines, ipv6=True)]
    if isinstance(state, SlowerIpv6):
        detour = ipv6_detour(ports["client"], state.slower)
        script += [shlex.join(command) for command in detour.setup(f"{SERVER_NET_6}::2")]
    elif state != "open":
        action = "blackhole" if state == "dead" else "unreachable"
        script.append(f"ip -6 rule add pref {IPV6_RULE} iif {ports['client']} {action}")
    return "\n".join(script)


def _settings(*devices: str) -> str:
    names = " ".join(devices)
    writes = "; ".join(f"echo {value} >$d/{name}" for name, value in _SETTINGS.items())
    return f"for n in all default {names}; do d=/proc/sys/net/ipv6/conf/$n; {writes}; done"


def pin(host: Host, congestion_control: str) -> None:
    """The congestion control of the default route, as over IPv4."""
    script = f"set -- $(ip -6 route show default dev {LEAF}); ip -6 route replace default via $3 dev {LEAF} congctl"
    host.run(["/bin/sh", "-ec", f"{script} {shlex.quote(congestion_control)}"], root=True)


def unpinned(host: Host, congestion_control: str) -> list[str]:
    """Every setting that differs from what `pin` sets, in words."""
    routes = json.loads(host.run(["ip", "-j", "-6", "route", "show", "default"], root=True).text or "[]")
    used = [str(metric["congestion"]) for route in routes for metric in route.get("metrics", []) if "congestion" in metric]
    if used == [congestion_control]:
        return []
    return [f"congestion control of the IPv6 route is {', '.join(used) or 'not set'}, not {congestion_control}"]


def bypass(host: Host, other: str, address: str) -> str:
    """The bypass by which a packet of IPv6 can reach `other` without passing the router, in words; empty if none exists."""
    probe = host.run(["ping", "-6", "-n", "-c", "1", "-W", "1", "-t", "1", address], check=False).text
    return "" if " 0 received" in probe else f"a packet of IPv6 with hop limit 1 got from {host.name} to {other}"


def prove(client: Host, server: Host, state: Ipv6) -> None:
    """Over the line that is not shaped yet, packets of IPv6 fare as `state` says. Raises LabFault."""
    back = _ping(server, f"{CLIENT_NET_6}::2")
    there = _ping(client, f"{SERVER_NET_6}::2")
    if state == "open" or isinstance(state, SlowerIpv6):
        wanted_ms = state.slower.ms if isinstance(state, SlowerIpv6) else 0.0
        took = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", there)]
        right = bool(took) and abs(took[0] - wanted_ms) < _ALLOWED_MS
    else:
        # The server's probes are answered by the client, and the answers go the way that is not there.
        right = " 0 received" in there and " 0 received" in back and ("nreachable" in there) == (state == "unreachable")
    if not right:
        raise LabFault(f"IPv6 does not fare as the network says ({state}): {' '.join(there.split())[-200:]}")


def _ping(host: Host, address: str) -> str:
    """The output of one probe. The first one over a new wire would wait for its qdisc's clock."""
    return host.run(["ping", "-6", "-n", "-c", "1", "-W", "40", address], check=False, timeout_s=60).text
