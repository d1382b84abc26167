"""A path of several nodes in a machine in virtual time: the wires between their namespaces, their routes, and their NATs.

    client ── node ── router, which has the judged link ── node ── server

Each node is a namespace with two ports, `to-client` and `to-server`. The networks at both ends have the addresses that they have
without a path; those between have numbers of their own.
"""

from __future__ import annotations

import re

from lab.hosts.host import Host
from lab.hosts.namespaces.network import PORTS, QUIET_IPV6, leaf_macs
from lab.hosts.wiring import CLIENT_NET, LEAF, ROUTER_MACS, SERVER_NET, ip_batch
from lab.model.errors import LabFault
from lab.model.wiring import Nat, Wiring

NAT_USERLAND = "debian:13+nftables"
"""The userland whose `nft` a NAT runs."""
_INNER_NET = "10.77.{}"
_FIRST_INNER = 10
_MAC = "02:54:4c:1{:x}:00:0{}"
_TTL_EXCEEDED = re.compile(r"From ([\d.]+) .*Time to live exceeded")
# Masquerading keeps a port that is free, so that a client's packets are the same on both sides. A packet that belongs to nothing
# is dropped without a word, and what comes from outside opens nothing.
_RULES = """\
table ip lab {{
  chain out {{ type nat hook postrouting priority 100; oifname "{out}" masquerade; }}
  chain through {{
    type filter hook forward priority 0;
    ct state invalid drop
    iifname "{out}" ct state new drop
  }}
}}
"""
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack_"


def _nets(wiring: Wiring) -> list[str]:
    """The first three numbers of each wire's network, from client to server."""
    inner = [_INNER_NET.format(_FIRST_INNER + index) for index in range(len(wiring.path) - 1)]
    return [CLIENT_NET, *inner, SERVER_NET]


def _macs(index: int, last: int) -> tuple[str, str]:
    """The addresses of both ends of a wire."""
    near, far = _MAC.format(index, 1), _MAC.format(index, 2)
    if index == 0:
        near, far = leaf_macs()["client"], ROUTER_MACS["client"]
    elif index == last:
        near, far = ROUTER_MACS["server"], leaf_macs()["server"]
    return near, far


def wires_script(wiring: Wiring) -> str:
    """In any namespace: all wires, once their namespaces are there."""
    hops = [*wiring.hops]
    lines = []
    for index, (left, right) in enumerate(hops):
        near, far = _macs(index, len(hops) - 1)
        own = LEAF if left == "client" else PORTS.server
        peer = LEAF if right == "server" else PORTS.client
        ends = f"type veth peer name {peer} address {far} netns {right}"
        lines.append(f"link add {own} address {near} netns {left} {ends}")
    return ip_batch(lines)


def _near_address(nets: list[str], index: int) -> str:
    """The address of the node at that place in the network on its client's side.

    It is the second host there, but in the client's own network, where it is the gateway.
    """
    return f"{nets[index]}.{1 if index == 0 else 2}"


def node_script(wiring: Wiring, index: int) -> str:
    """On the node at that place of the path: its addresses, permanent neighbours, and routes."""
    nets, hops = _nets(wiring), [*wiring.hops]
    left, right = _near_address(nets, index), f"{nets[index + 1]}.1"
    left_peer, right_peer = (f"{nets[index]}.{2 if index == 0 else 1}", f"{nets[index + 1]}.2")
    before, after = _macs(index, len(hops) - 1)[0], _macs(index + 1, len(hops) - 1)[1]
    lines = ["link set lo up"]
    for device, address, peer, mac in (
        (PORTS.client, left, left_peer, before),
        (PORTS.server, right, right_peer, after),
    ):
        lines += [
            f"address add {address}/24 dev {device}",
            f"link set {device} up",
            f"neighbour replace {peer} lladdr {mac} nud permanent dev {device}",
        ]
    lines += [f"route add {net}.0/24 via {left_peer}" for net in nets[:index]]
    lines += [f"route add {net}.0/24 via {right_peer}" for net in nets[index + 2 :]]
    return f"{QUIET_IPV6}\n{ip_batch(lines)}\necho 1 >/proc/sys/net/ipv4/ip_forward"


def nat_script(nat: Nat) -> str:
    """On a node whose root has nft: what it does to addresses, and when it forgets."""
    return "\n".join(["nft -f - <<END", _RULES.format(out=PORTS.server) + "END", memory_script(nat)])


def memory_script(nat: Nat) -> str:
    """On the node of a NAT: when it forgets. Connections that are there keep what they had until their next packet."""
    seconds = {
        "tcp_loose": 0,
        "tcp_timeout_established": nat.tcp_idle.ns // 10**9,
        "udp_timeout": nat.udp_idle.ns // 10**9,
        "udp_timeout_stream": nat.udp_idle.ns // 10**9,
    }
    return "\n".join(f"echo {value} >{_CONNTRACK}{name}" for name, value in seconds.items())


def prove_order(client: Host, server: Host, wiring: Wiring) -> None:
    """A probe with k hops to live dies at the k-th node, and a probe with more arrives. Raises LabFault."""
    nets = _nets(wiring)
    wanted = [_near_address(nets, index) for index in range(len(wiring.path))]
    found = [_dies_at(client, server.address, hops) for hops in range(1, len(wanted) + 1)]
    if found != wanted:
        raise LabFault(f"the path has nodes {', '.join(found)} in this order, not {', '.join(wanted)}")
    if " 1 received" not in _ping(client, server.address, len(wanted) + 1):
        raise LabFault("no packet gets through the path")


def _dies_at(host: Host, address: str, hops: int) -> str:
    died = _TTL_EXCEEDED.search(_ping(host, address, hops))
    return died[1] if died else "none"


def _ping(host: Host, address: str, hops: int) -> str:
    return host.run(["ping", "-n", "-c", "1", "-W", "10", "-t", str(hops), address], check=False).text
