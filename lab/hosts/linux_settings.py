"""The settings of a Linux client or server without which no number means anything, and a check for a bypass of the router."""

from __future__ import annotations

import json
import shlex

from lab.hosts.host import Host
from lab.hosts.wiring import LEAF

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
_FILES = {name: "/proc/sys/" + name.replace(".", "/") for name in SYSCTLS}
READ_SYSCTLS = f"cat {' '.join(_FILES.values())}"
"""A shell command that prints what `sysctl_problems` reads."""


def pin(host: Host, congestion_control: str, mtu: int) -> None:
    settings = " ".join(f"{short} off" for short in OFFLOADS.values())
    lines = sysctl_lines()
    lines.append(f"ip link set {LEAF} mtu {mtu}")
    lines.append(f"ethtool -K {LEAF} {settings} >/dev/null 2>&1")
    # Not by sysctl: outside the first network namespace the kernel refuses an algorithm the administrator has restricted.
    lines.append(
        f"set -- $(ip route show default dev {LEAF}); "
        f"ip route replace default via $3 dev {LEAF} congctl {shlex.quote(congestion_control)}"
    )
    host.run(["/bin/sh", "-ec", "\n".join(lines)], root=True)


def sysctl_lines() -> list[str]:
    """Shell lines that set `SYSCTLS`.

    Written only where it differs: a container cannot write /proc/sys, and its engine has set these.
    One `cat` for all: a shell's `read` takes a byte at a time, which a sysctl does not allow.
    """
    checks = [
        f"read -r a b c; [ \"$a${{b:+ $b}}${{c:+ $c}}\" = '{SYSCTLS[name]}' ] || echo '{SYSCTLS[name]}' >{path}"
        for name, path in _FILES.items()
    ]
    return ["{", *checks, "} <<END", f"$(cat {' '.join(_FILES.values())})", "END"]


def sysctl_problems(text: str) -> list[str]:
    """Every sysctl that is not as `SYSCTLS` says, in words."""
    return [
        f"{name} is {' '.join(found.split())!r}, not {wanted!r}"
        for (name, wanted), found in zip(SYSCTLS.items(), text.splitlines(), strict=False)
        if found.split() != wanted.split()
    ]


def unpinned(host: Host, congestion_control: str) -> list[str]:
    """Every setting that differs from what `pin` sets, in words."""
    script = f"{READ_SYSCTLS}; echo --; ip -j route show default; echo --; ethtool -k {LEAF}"
    parts = host.run(["/bin/sh", "-c", script], root=True).text.split("--\n")
    problems = sysctl_problems(parts[0])
    routes = json.loads(parts[1] or "[]")
    # iproute2 says `congctl` in text and `congestion` in JSON.
    used = [str(metric["congestion"]) for route in routes for metric in route.get("metrics", []) if "congestion" in metric]
    if used != [congestion_control]:
        problems.append(f"congestion control of the default route is {', '.join(used) or 'not set'}, not {congestion_control}")
    features = dict(line.strip().split(": ", 1) for line in parts[2].splitlines() if ": " in line)
    problems += [f"offload {name} of {LEAF} is on" for name in OFFLOADS if not features.get(name, "missing").startswith("off")]
    return problems


def bypass(host: Host, other: Host) -> str:
    """The bypass by which a packet can reach `other` without passing the router, in words; empty if none exists.

    Interfaces and routes are read, and a probe is sent: with TTL 1 it dies on any router, so an answered probe has bypassed it.
    """
    script = f"ip -j link; echo --; ip -j route get {other.address}; echo --; ping -n -c 1 -W 1 -t 1 {other.address}"
    links, route, probe = host.run(["/bin/sh", "-c", script], root=True, check=False).text.split("--\n", 2)
    return bypass_problem(host.name, other.name, json.loads(links or "[]"), json.loads(route or "[]"), probe)


def bypass_problem(name: str, other: str, links: list[dict[str, object]], route: list[dict[str, object]], probe: str) -> str:
    extra = sorted(str(link["ifname"]) for link in links if link["ifname"] not in ("lo", LEAF))
    if extra:
        return f"{name} has another interface, {', '.join(extra)}"
    if not route:
        return f"{name} has no route to {other}"
    if route[0].get("dev") != LEAF or "gateway" not in route[0]:
        return f"{name} reaches {other} directly over {route[0].get('dev')}"
    if "Time to live exceeded" in probe:
        return ""
    if " 0 received" in probe:
        return f"no router answered between {name} and {other}"
    return f"a packet with TTL 1 got from {name} to {other}"
