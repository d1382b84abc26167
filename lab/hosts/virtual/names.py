"""The names of a machine in virtual time: its /etc, and the resolver of a network that has one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from lab.hosts import loopback
from lab.hosts.agent.places import LAB_UID
from lab.hosts.agent.protocol import HOME_DIR, LAB_USER
from lab.hosts.host import Host
from lab.hosts.scripts import script_command
from lab.hosts.wiring import Addresses
from lab.model.wiring import DnsKind, PathNode, Wiring

_ADDRESSES = Addresses()
_SCRIPT = Path(__file__).with_name("names_script.py")
_SERVER = "server"


def files(wiring: Wiring) -> dict[str, str]:
    """The hosts' /etc without this machine's users, which could change what a program does."""
    lines = "".join(f"{address}\t{name}\n" for address, name in _entries(wiring))
    return {
        "/etc/hosts": f"127.0.0.1\tlocalhost\n{lines}",
        "/etc/resolv.conf": f"nameserver {_ADDRESSES.client_gateway}\n" if wiring.dns else "# no resolver inside the lab\n",
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\n{LAB_USER}:x:{LAB_UID}:{LAB_UID}:Roughwater:{HOME_DIR}:/bin/sh\n",
        # The machine's own can be read by root's lab alone.
        "/etc/shadow": "root:*:1::::::\n",
        "/etc/group": f"root:x:0:\n{LAB_USER}:x:{LAB_UID}:\n",
        "/etc/machine-id": hashlib.sha256(b"roughwater").hexdigest()[:32] + "\n",
    }


def _entries(wiring: Wiring) -> Sequence[tuple[str, str]]:
    """Addresses and names for /etc/hosts, without the server's where a resolver has them."""
    if wiring.same_host:
        return [(address, name) for name, address in loopback.NAMES.items()]
    found = [(_ADDRESSES.client, "client")] if wiring.ip != 6 else []
    found += [(_ADDRESSES.client_6, "client")] if wiring.has_ipv6 else []
    if not wiring.dns:
        # A program that takes the first address takes IPv6, as it would by RFC 6724.
        found += [(address, _SERVER) for address in reversed(_records(wiring).values()) if address]
    nearest = wiring.path[0]
    return [*found, (_ADDRESSES.client_gateway, nearest.name if isinstance(nearest, PathNode) else "router")]


def _records(wiring: Wiring) -> dict[DnsKind, str]:
    """The server's addresses by the kind of question; empty where its name has none of the kind."""
    return {
        "a": _ADDRESSES.server if wiring.ip != 6 else "",
        "aaaa": _ADDRESSES.server_6 if wiring.has_ipv6 else "",
    }


def resolver_words(wiring: Wiring) -> list[str]:
    """The resolver's answers, as `names_script` takes them. Without one there are none."""
    if not wiring.dns:
        return []
    words = []
    for kind, record in _records(wiring).items():
        delay, answer = wiring.dns.lookup(kind)
        words.append(f"{kind}:{delay.ns}:{answer}:{record}")
    return words


def start_resolver(wire: Host, wiring: Wiring) -> None:
    """Start the resolver on the router. It answers by the machine's next tick."""
    wire.start(script_command(wire, _SCRIPT, _ADDRESSES.client_gateway, _SERVER, *resolver_words(wiring)), root=True)
