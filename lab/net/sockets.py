"""The lab's end of `sockets_script`: what a host's kernel counts for its TCP connections while something runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lab.hosts.host import Host, Network
from lab.model.errors import LabFault
from lab.net.printed import Recording

_SCRIPT = Path(__file__).with_name("sockets_script.py")
_ENDLESS = 0x7FFFFFFF
"""TCP_INFINITE_SSTHRESH (include/net/tcp.h): the congestion control has not left its first slow start."""


class Look(NamedTuple):
    """One connection at one instant, by its host's kernel (struct tcp_info and the socket's memory). Times in us, sizes in bytes.

    `cwnd`, `unacked` and `ssthresh` are packets of `mss` bytes. The three times at the end grow: how long anything was unsent or
    unacknowledged, how long of that the peer's window had no room, and how long the send buffer was full and all of it sent.
    """

    t_ns: int
    port: int
    peer_port: int
    unread: int
    queued: int
    mss: int
    unacked: int
    rtt_us: int
    ssthresh: int
    cwnd: int
    retransmits: int
    acked: int
    received: int
    unsent: int
    min_rtt_us: int
    busy_us: int
    no_window_us: int
    no_buffer_us: int
    window: int
    send_buffer: int
    buffered: int

    @property
    def waits_for_network(self) -> bool:
        """True if a segment is unsent, or the congestion window used up. Nagle (RFC 896) may hold back less than a segment."""
        return self.unsent >= self.mss > 0 or 0 < self.cwnd <= self.unacked

    @property
    def slow_start(self) -> bool:
        """True while the first slow start lasts."""
        return self.ssthresh >= _ENDLESS and self.retransmits == 0


def parse_line(line: bytes) -> Look | int:
    """A connection, or the time up to which all have been printed. Raises LabFault for anything else."""
    words = line.split()
    try:
        if words[:1] == [b"t"] and len(words) == 2:
            return int(words[1])
        if words[:1] == [b"k"]:
            return Look(*map(int, words[1:]))
    except (ValueError, TypeError):
        pass
    raise LabFault(f"the connections of a host cannot be read: {line[:80]!r}")


class Sockets(Recording[Look]):
    """A host's connections, every 10 ms."""

    def __init__(self, network: Network, host: Host) -> None:
        name = f"the connections of host {host.name}"
        super().__init__(name, network, host, _SCRIPT, begins=_begins, parse=parse_line)


def _begins(line: bytes) -> str:
    """The defect of the first line, in words; empty if the line is right."""
    return "" if line == b"roughwater-sockets 1" else f"the connections of a host begin with {line[:80]!r}"
