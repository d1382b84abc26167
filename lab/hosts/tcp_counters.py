"""TCP counters of a network namespace: /proc/net/snmp and /proc/net/netstat."""

from __future__ import annotations

from lab.hosts.host import Host
from lab.model.errors import LabFault

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
            raise LabFault(f"the kernel's TCP counters cannot be read: {names[:60]!r} does not match {numbers[:60]!r}")
        counters |= {f"{group}{key}": int(value) for key, value in zip(keys.split(), values.split(), strict=True)}
    if "TcpRetransSegs" not in counters:
        raise LabFault("the kernel's TCP counters have no TcpRetransSegs")
    return counters


def read_counters(host: Host) -> Counters:
    """The counters of the namespace in which the command runs, hence `self`."""
    return parse_counters(host.run(["cat", *_FILES]).text)
