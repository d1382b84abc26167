"""A host's TCP counters: /proc/net/snmp and /proc/net/netstat of its network namespace."""

from __future__ import annotations

from lab.backend.chores import chores_of
from lab.backend.host import Host
from lab.errors import LabFault

Counters = dict[str, int]
_FILES = ("/proc/self/net/snmp", "/proc/self/net/netstat")


def parse_counters(text: str) -> Counters:
    """Pairs of lines, names then numbers: `{"TcpRetransSegs": 3, "TcpExtTCPTimeouts": 0, ...}`. Raises LabFault."""
    lines = text.splitlines()
    counters: Counters = {}
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        group, _, keys = names.partition(":")
        same, _, values = numbers.partition(":")
        if group != same or len(keys.split()) != len(values.split()):
            raise LabFault(f"the kernel's TCP counters cannot be read: {names[:60]!r} does not go with {numbers[:60]!r}")
        counters |= {f"{group}{key}": int(value) for key, value in zip(keys.split(), values.split(), strict=True)}
    if "TcpRetransSegs" not in counters:
        raise LabFault("the kernel's TCP counters have no TcpRetransSegs")
    return counters


def read_counters(host: Host) -> Counters:
    """The counters of the namespace the command runs in, hence `self`."""
    return parse_counters(host.run(["cat", *_FILES]).text)


def retransmits(host: Host) -> int:
    """Segments this host has ever sent again."""
    chores = chores_of(host)
    return chores.retransmits() if chores else read_counters(host)["TcpRetransSegs"]


def delta(before: Counters, after: Counters) -> Counters:
    """What moved between two readings."""
    return {name: after[name] - before[name] for name in after if name in before and after[name] != before[name]}
