"""The lab's end of `tap_script`: starts it on a receiving host, reads its lines, stops it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lab.hosts.host import Host, Network
from lab.model.errors import LabFault
from lab.net.printed import Recording

_SCRIPT = Path(__file__).with_name("tap_script.py")
SETTLED_NS = 30_000_000
"""Packets are printed at most this long after they passed. The kernel closes a block of the ring after 5 ms, by its ticks."""


class Content(NamedTuple):
    """Content of one connection that passed from `t0_ns` to `t_ns`; then `position` bytes had arrived in order."""

    connection: int
    from_opener: bool
    t0_ns: int
    t_ns: int
    position: int


class Acked(NamedTuple):
    """The first `position` bytes of content from the opener, or to it, are acknowledged."""

    connection: int
    from_opener: bool
    t_ns: int
    position: int


class Mark(NamedTuple):
    """A connection was opened (SYN), or one way of it ended (FIN, RST)."""

    connection: int
    t_ns: int
    opened: bool
    port: int = 0
    peer_port: int = 0
    """The opener's and its peer's; 0 for an end."""
    ipv6: bool = False


class Unread(NamedTuple):
    """Bytes in the host's receive queues from this instant on."""

    t_ns: int
    bytes: int


class Woken(NamedTuple):
    """The tap itself ran this much later than it asked for: so may any program on this machine."""

    t_ns: int
    late_ns: int


Event = Content | Acked | Mark | Unread | Woken


def parse_line(line: bytes) -> Event | int:
    """An event, or the time up to which the tap has looked. Raises LabFault for anything else."""
    words = line.split()
    try:
        match words:
            case [b"d", number, way, first, last, position]:
                return Content(int(number), way == b">", int(first), int(last), int(position))
            case [b"a", number, way, t_ns, position]:
                return Acked(int(number), way == b">", int(t_ns), int(position))
            case [b"s" | b"e", number, *rest]:
                return _mark(int(number), rest)
            case [b"q", t_ns, size]:
                return Unread(int(t_ns), int(size))
            case [b"w", t_ns, late_ns]:
                return Woken(int(t_ns), int(late_ns))
            case [b"t", t_ns]:
                return int(t_ns)
    except ValueError:
        pass
    raise LabFault(f"the tap printed {line[:80]!r}")


def _mark(number: int, rest: list[bytes]) -> Mark:
    """`T PORT PEER FAMILY` of an opening, `WAY T` of an end."""
    if len(rest) == 4:
        return Mark(number, int(rest[0]), opened=True, port=int(rest[1]), peer_port=int(rest[2]), ipv6=rest[3] == b"6")
    _, t_ns = rest
    return Mark(number, int(t_ns), opened=False)


def over_ipv6(events: Sequence[object] | None, *, otherwise: bool) -> bool:
    """True if most content passed on connections of IPv6; `otherwise` where there is no content of TCP to tell."""
    seen = events or ()
    families = {each.connection: each.ipv6 for each in seen if isinstance(each, Mark) and each.opened}
    passed = {(each.connection, each.from_opener): each.position for each in seen if isinstance(each, Content)}
    by_family = {False: 0, True: 0}
    for (connection, _), size in passed.items():
        by_family[families.get(connection, otherwise)] += size
    return by_family[True] > by_family[False] if any(by_family.values()) else otherwise


class Tap(Recording[Event]):
    """With `acks` there is an event for every acknowledgement, too."""

    def __init__(self, network: Network, host: Host, *, acks: bool = False) -> None:
        super().__init__(
            f"the events of the tap on host {host.name}",
            network,
            host,
            _SCRIPT,
            host.tap_port,
            *(["acks"] if acks else []),
            begins=_begins,
            parse=parse_line,
            settled_ns=SETTLED_NS,
        )


def _begins(line: bytes) -> str:
    """The defect of the first line, in words; empty if the line is right."""
    return "" if line.startswith(b"roughwater-tap 1 ") else f"the tap begins with {line[:80]!r}"
