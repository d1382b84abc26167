"""What every host must agree on before a number means anything: sysctls, congestion control, segmentation offload.

Set, then read back; a host that does not hold a pin is the lab's fault (LabFault), never the client's.
"""

from __future__ import annotations

import json
import shlex

from lab.backend.chores import chores_of, prober_of
from lab.backend.host import Host, Network, Ports
from lab.errors import LabFault

# tcp(7). The maxima let one connection fill 1 Gbit/s x 250 ms; the defaults are the kernel's own. no_metrics_save: a
# connection must not start with what an earlier one on another link had learned.
SYSCTLS: dict[str, str] = {
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_wmem": "4096 16384 67108864",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_window_scaling": "1",
}

# Switched off where frames *enter* the router (on the leaf, not on the shaped port): else netem's limit and loss act on
# units of up to 64 KiB. `tx` too: a packet socket sees a frame whose checksum the sender left to hardware that is not there.
OFFLOADS: dict[str, str] = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "tx-checksumming": "tx",
}
LEAF_INTERFACE = "eth0"
_FILES = {name: "/proc/sys/" + name.replace(".", "/") for name in SYSCTLS}


def pin(network: Network, congestion_control: str, mtu: int = 1500) -> None:
    """Set everything on client and server, and on who measures for the client, and assert it. Idempotent."""
    for host in _pinned(network):
        pin_host(host, congestion_control, mtu)
    pin_ports(network.wire, network.wire_ports)


def pin_host(host: Host, congestion_control: str, mtu: int = 1500) -> None:
    """Set everything on a client or a server, and assert it. Idempotent."""
    if chores := chores_of(host):
        chores.pin(congestion_control, mtu)
    else:
        _set(host, congestion_control, mtu)
    assert_host_pinned(host, congestion_control)


def pin_ports(wire: Host, ports: Ports) -> None:
    """The router's own ports must not merge what arrives."""
    names = " ".join(shlex.quote(port) for port in (ports.client, ports.server))
    wire.run(["/bin/sh", "-ec", f"for p in {names}; do ethtool -K $p gro off; done"], root=True)


def assert_pinned(network: Network, congestion_control: str) -> None:
    """Raises LabFault that names every setting a host does not hold."""
    for host in _pinned(network):
        assert_host_pinned(host, congestion_control)


def _pinned(network: Network) -> list[Host]:
    prober = prober_of(network)
    return [network.client, network.server, *([] if prober is network.client else [prober])]


def assert_host_pinned(host: Host, congestion_control: str) -> None:
    problems = unpinned(host, congestion_control)
    if problems:
        raise LabFault(f"{host.name} does not hold its settings: {'; '.join(problems)}", remedy="see `lab doctor`")


def _set(host: Host, congestion_control: str, mtu: int) -> None:
    settings = " ".join(f"{short} off" for short in OFFLOADS.values())
    # Written only where it differs: in a container /proc/sys cannot be, and whoever made the container has set it.
    # One `cat` for all: sysctls do not give themselves to a shell's `read`, which takes a byte at a time.
    found = f"$(cat {' '.join(_FILES.values())})"
    checks = [
        f"read -r a b c; [ \"$a${{b:+ $b}}${{c:+ $c}}\" = '{SYSCTLS[name]}' ] || echo '{SYSCTLS[name]}' >{path}"
        for name, path in _FILES.items()
    ]
    lines = ["{", *checks, "} <<END", found, "END"]
    lines.append(f"ip link set {LEAF_INTERFACE} mtu {mtu}")
    lines.append(f"ethtool -K {LEAF_INTERFACE} {settings} >/dev/null 2>&1")
    # Not by sysctl: outside the first network namespace the kernel refuses an algorithm the administrator has restricted.
    lines.append(
        f"set -- $(ip route show default dev {LEAF_INTERFACE}); "
        f"ip route replace default via $3 dev {LEAF_INTERFACE} congctl {shlex.quote(congestion_control)}"
    )
    host.run(["/bin/sh", "-ec", "\n".join(lines)], root=True)


def unpinned(host: Host, congestion_control: str) -> list[str]:
    """Every setting of `host` that is not what `pin` sets, in words; empty when all hold."""
    if chores := chores_of(host):
        return chores.unpinned(congestion_control)
    script = f"cat {' '.join(_FILES.values())}; echo --; ip -j route show default; echo --; ethtool -k {LEAF_INTERFACE}"
    parts = host.run(["/bin/sh", "-c", script], root=True).text.split("--\n")
    problems = []
    for (name, wanted), found in zip(SYSCTLS.items(), parts[0].splitlines(), strict=False):
        if found.split() != wanted.split():
            problems.append(f"{name} is {' '.join(found.split())!r}, not {wanted!r}")
    routes = json.loads(parts[1] or "[]")
    # iproute2 says `congctl` in text and `congestion` in JSON.
    used = [str(metric["congestion"]) for route in routes for metric in route.get("metrics", []) if "congestion" in metric]
    if used != [congestion_control]:
        problems.append(f"congestion control of the default route is {', '.join(used) or 'not set'}, not {congestion_control}")
    features = dict(line.strip().split(": ", 1) for line in parts[2].splitlines() if ": " in line)
    problems += [
        f"offload {name} of {LEAF_INTERFACE} is on" for name in OFFLOADS if not features.get(name, "missing").startswith("off")
    ]
    return problems
