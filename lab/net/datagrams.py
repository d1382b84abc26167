"""The body of a transfer over QUIC, from the datagrams at the receiver's port.

A packet's number and what it holds are encrypted; its size and its first bit are not, and that bit says whether it belongs to the
handshake. So nothing here knows what was sent again, or how far the content has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lab.hosts.host import Host, Network
from lab.model.errors import LabFault
from lab.net.body import LEAST_BODY_BYTES, Body, Way
from lab.net.printed import Recording

_SCRIPT = Path(__file__).with_name("datagram_script.py")
_SETTLED_NS = 1_000_000
_HANDSHAKE = 0x80
"""The first bit of a long header (RFC 9000, 17.2): handshake, version negotiation, 0-RTT, retry."""
# QUIC's datagrams have 1200 bytes or more where there is content for them. What follows a handshake (tickets, settings) is less.
_FULL_BYTES = 1000
# Acknowledgements and goodbyes are less.
_CONTENT_BYTES = 100
# A client that has taken its last byte closes its connection (RFC 9000, 10.2), and may wait three timeouts for stray packets.
_CLOSING_S = 0.5


class Datagram(NamedTuple):
    """One datagram, `up` from the client to the server; `first` is its first byte."""

    up: bool
    t_ns: int
    bytes: int
    first: int

    @property
    def handshake(self) -> bool:
        return bool(self.first & _HANDSHAKE)


def parse_line(line: bytes) -> Datagram | int:
    """A datagram, or the time up to which all have been printed. Raises LabFault for anything else."""
    words = line.split()
    try:
        match words:
            case [b"d", way, t_ns, size, first]:
                return Datagram(way == b">", int(t_ns), int(size), int(first))
            case [b"t", t_ns]:
                return int(t_ns)
    except ValueError:
        pass
    raise LabFault(f"the tap of datagrams printed {line[:80]!r}")


class DatagramTap(Recording[Datagram]):
    """Datagrams to and from a server's UDP port, at a host's port."""

    def __init__(self, network: Network, host: Host, port: int) -> None:
        super().__init__(
            f"the datagrams on host {host.name}",
            network,
            host,
            _SCRIPT,
            host.tap_port,
            str(port),
            begins=_begins,
            parse=parse_line,
            settled_ns=_SETTLED_NS,
        )


def _begins(line: bytes) -> str:
    return "" if line.startswith(b"roughwater-datagrams 1 ") else f"the tap of datagrams begins with {line[:80]!r}"


def time_datagrams(seen: Sequence[Datagram], way: Way, size: int, exit_ns: int, *, limited: bool) -> Body | None:
    """The body of a transfer of `size` bytes whose client ended at `exit_ns`; None where less than `size` bytes passed.

    It begins with the first full datagram after the handshake and ends with the last content. A `limited` download ends when its
    client has taken the last byte, which lies in its own memory until then: its last datagram closes the connection.
    """
    if size < LEAST_BODY_BYTES:
        return None
    content = [each for each in seen if each.up == (way == "put") and not each.handshake and each.bytes >= _CONTENT_BYTES]
    first = next((each for each in content if each.bytes >= _FULL_BYTES), None)
    if first is None or sum(each.bytes for each in content) < size:
        return None
    end_ns, error_s = content[-1].t_ns, 0.0
    if limited and way == "get":
        closed_ns = max((each.t_ns for each in seen if each.up and each.t_ns <= exit_ns), default=exit_ns)
        left_s = (exit_ns - closed_ns) / 1e9
        end_ns, error_s = (closed_ns, left_s) if left_s <= _CLOSING_S else (exit_ns, 0.0)
    return Body(seen[0].t_ns, first.t_ns, max(end_ns, content[-1].t_ns), error_s)
