"""From what was watched of a transfer to its diagnosis: cuts every connection into slices and says what each waited for."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from lab.hosts.host import Completed, Network, Ports
from lab.judge.diagnosis import FULL, Direction, Flows, Slice, diagnose
from lab.link.hops import HOPS
from lab.model.diagnosis import Diagnosis
from lab.model.link import Link, LinkDirection, carrier
from lab.model.transfer import Transfer
from lab.net.ports import PortReading
from lab.net.sockets import Look
from lab.net.tap import Acked, Content, Event, Mark
from lab.net.watch import Dropped, Watch, Watched
from lab.run.pauses import Connection, Pauses

_LEAST_PART = 0.05
"""A connection with less of the content is left out: a control connection, or an unused one."""
_CLOSING_BYTES = 1 << 10
"""The last bytes of a connection close it (TLS's alert, SSH's goodbye)."""
_FEW_SEGMENTS = 2
_BETWEEN_LOOKS_NS = 30_000_000
_LINE_NS = 50_000_000
_UNKNOWN_RTT_US = 0xFFFFFFFF


def explain(  # noqa: PLR0917 - two callers
    network: Network,
    watch: Watch,
    rows: Sequence[PortReading],
    done: Completed,
    link: Link | None,
    transfer: Transfer | None = None,
) -> Diagnosis | None:
    """The reason for the speed of a client that has ended; None where the client moved nothing.

    The content's way is the transfer's or, without a transfer, the way in which more content went.
    """
    if transfer and (kept := limited(transfer, transfer.total_bytes / done.wall_s)):
        return kept
    client, server = (watch.of(host, done.started_ns, done.ended_ns) for host in (network.client, network.server))
    direction: Direction = transfer.direction if transfer else _way(client)
    sender, receiver = (server, client) if direction == "get" else (client, server)
    port = network.wire_ports.client if direction == "get" else network.wire_ports.server
    side: LinkDirection | None = link.direction(carrier(direction)) if link else None
    line = side.rate.bit_s / 8 if side and side.rate else None
    flows = flows_of(
        sender, receiver, direction, [(row.t_ns, row[port].tx_bytes) for row in rows], line, watch.dropped(), transfer
    )
    return diagnose(flows) if flows else None


def of_failed(found: Diagnosis | None, dropped: Mapping[str, int], ports: Ports, link: Link) -> Diagnosis:
    """A transfer that failed: what the router `dropped`, by its devices. `found` is what was seen of its speed."""
    seen = found or Diagnosis(cause="not-known", share=None, sentence="")
    words = [f"{count} {_place(device, ports, link)}" for device, count in dropped.items()]
    total = sum(dropped.values())
    some = f"{total} packet{'' if total == 1 else 's'}: {', '.join(words)}" if words else "no packet"
    sentence = f"the transfer failed; the router dropped {some}"
    return seen.model_copy(
        update={"cause": "not-known", "share": None, "shares": {}, "goodput_byte_s": None, "sentence": sentence}
    )


def _place(device: str, ports: Ports, link: Link) -> str:
    """The way of packets dropped at `device`, and the cause of the drops. The router's own wires are those of `lab.link.hops`."""
    kind, _, way = device.partition("-")
    if device in HOPS and kind == "mtu":
        hidden = link.direction("up" if way == "up" else "down").hidden_mtu
        return f"{way}, larger than the {hidden} bytes that pass"
    if device in HOPS:
        return f"{way} of UDP"
    ways = {ports.client: "down", ports.server: "up"}
    return f"{ways[device]} (queue, loss or outage)" if device in ways else f"at {device}"


def flows_of(  # noqa: PLR0917 - one caller besides tests
    sender: Watched,
    receiver: Watched,
    direction: Direction,
    port: Sequence[tuple[int, int]],
    line_byte_s: float | None,
    dropped: Dropped,
    transfer: Transfer | None,
) -> Flows | None:
    """Slices of every connection that carried content. `port` is time and bytes of the router's port towards the receiver."""
    connections = _connections(sender)
    total = sum(each.content for each in connections)
    kept = [each for each in connections if each.content >= _LEAST_PART * total]
    if not kept:
        return _brief(sender, direction)
    looks = [look for each in kept for look in each.looks]
    idle_us = min((look.min_rtt_us for look in looks if 0 < look.min_rtt_us < _UNKNOWN_RTT_US), default=0)
    loaded = [look.rtt_us for look in looks if look.rtt_us]
    readers = _readers(receiver)
    filled = _Line(port, line_byte_s, idle_us * 500)
    last = {(look.port, look.peer_port): look for look in looks}.values()
    return Flows(
        direction=direction,
        slices=[piece for each in kept for piece in _slices(each, idle_us, readers, filled)],
        content=total,
        seconds=(max(each.end_ns for each in kept) - min(each.start_ns for each in kept)) / 1e9,
        idle_rtt_s=idle_us / 1e6,
        loaded_rtt_s=math.fsum(loaded) / len(loaded) / 1e6 if loaded else 0.0,
        layer=transfer.protocol if transfer else _layer(kept),
        request=transfer.size.bytes * transfer.parallel if transfer and transfer.files > 1 else None,
        limit_byte_s=transfer.limit_byte_s if transfer else None,
        pace_byte_s=_pace(receiver, kept[0]) if len(kept) == 1 else None,
        line_byte_s=line_byte_s,
        connections=len(kept),
        retransmits=sum(look.retransmits for look in last),
        segments=sum(round(look.acked / look.mss) + look.retransmits for look in last if look.mss),
        dropped=dropped.all,
        policed=dropped.policed,
    )


def _brief(sender: Watched, direction: Direction) -> Flows | None:
    """Connections so short that no look saw one: all of their time is their opening. None where they were not that short."""
    opened = [event.t_ns for event in sender.events if isinstance(event, Mark) and event.opened]
    contents = _contents(sender.events)
    sent = [event for event in contents if event.from_opener == (direction == "put")]
    if not opened or not sent or sent[-1].t_ns - opened[0] > _BETWEEN_LOOKS_NS:
        return None
    seconds, rtt_s = (sent[-1].t_ns - opened[0]) / 1e9, (contents[0].t0_ns - opened[0]) / 1e9
    size = sum({event.connection: event.position for event in sent}.values())
    return Flows(direction, [Slice(seconds, size, answer="opening")], size, seconds, rtt_s, rtt_s)


def _pace(receiver: Watched, each: Connection) -> float | None:
    """Bytes per second from the first content to the last that the receiving program took: a limiter may count from there."""
    ends = {(look.peer_port, look.port) for look in each.looks}
    taken = [(look.t_ns, look.received - look.unread) for look in receiver.looks if (look.port, look.peer_port) in ends]
    last_ns = next((t_ns for t_ns, size in taken if size >= taken[-1][1]), 0)
    took_ns = last_ns - each.out[0].t0_ns
    return each.content * 1e9 / took_ns if took_ns > 0 else None


def _way(client: Watched) -> Direction:
    """The way in which more content went, as the client's port saw it."""
    sizes = {True: 0, False: 0}
    for event in _contents(client.events):
        sizes[event.from_opener] = max(sizes[event.from_opener], event.position)
    return "put" if sizes[True] > sizes[False] else "get"


def _layer(connections: Sequence[Connection]) -> str:
    """By the server's port, where no transfer says it: only SSH is certain."""
    ports = {port for each in connections for look in each.looks for port in (look.port, look.peer_port)}
    return "sftp" if 22 in ports else ""


def _contents(events: Sequence[Event]) -> list[Content]:
    return [event for event in events if isinstance(event, Content)]


def _connections(sender: Watched) -> list[Connection]:
    found = []
    contents = _contents(sender.events)
    for mark in sender.events:
        if not isinstance(mark, Mark) or not mark.opened:
            continue
        ends = (mark.port, mark.peer_port)
        looks = [look for look in sender.looks if (look.port, look.peer_port) in (ends, ends[::-1])]
        if not looks:
            continue
        opener = (looks[0].port, looks[0].peer_port) == ends
        mine = sorted((each for each in contents if each.connection == mark.connection), key=lambda each: each.t0_ns)
        out = [each for each in mine if each.from_opener == opener]
        back = [each for each in mine if each.from_opener != opener]
        if not out:
            continue
        reached = out[-1].position - min(_CLOSING_BYTES, out[-1].position // 10)
        end_ns = next(each.t_ns for each in out if each.position >= reached)
        acks = sorted(
            (each.t_ns, each.position)
            for each in sender.events
            if isinstance(each, Acked) and each.connection == mark.connection and each.from_opener == opener
        )
        found.append(Connection(mark.t_ns, end_ns, looks, out, back, acks))
    return found


class _Reader:
    """The unread bytes of a receiving program, and the times at which it did not wait for content.

    If bytes lay unread until the program read again, it has not waited for content since the read before. A program that
    reads content as it comes leaves nothing unread at a look: in virtual time reading takes next to no time.
    """

    def __init__(self, looks: Sequence[Look]) -> None:
        self._times = [look.t_ns for look in looks]
        self._unread = [look.unread for look in looks]
        self._idle = [False] * len(looks)
        since = 0
        for place, (before, look) in enumerate(itertools.pairwise(looks), 1):
            if look.received - look.unread > before.received - before.unread:
                self._idle[since + 1 : place + 1] = [before.unread > _FEW_SEGMENTS * before.mss] * (place - since)
                since = place

    def at(self, t_ns: int) -> tuple[int, bool]:
        """Bytes unread, and whether the program took its own time."""
        if not self._times:
            return 0, False
        place = min(bisect_left(self._times, t_ns), len(self._times) - 1)
        return self._unread[place], self._idle[place]


def _readers(receiver: Watched) -> dict[tuple[int, int], _Reader]:
    """By the sender's port and its peer's."""
    found: dict[tuple[int, int], list[Look]] = {}
    for look in receiver.looks:
        found.setdefault((look.peer_port, look.port), []).append(look)
    return {ends: _Reader(looks) for ends, looks in found.items()}


class _Line:
    """The load of the router's port at a time: its bytes in the 100 ms around that time against the line's rate."""

    def __init__(self, port: Sequence[tuple[int, int]], byte_s: float | None, delay_ns: int) -> None:
        self._times = [t_ns for t_ns, _ in port]
        self._bytes = [size for _, size in port]
        self._byte_s, self._delay_ns = byte_s, delay_ns

    def full(self, t_ns: int) -> bool:
        if not self._byte_s or len(self._times) < 2:
            return False
        at = t_ns + self._delay_ns
        first = max(0, bisect_left(self._times, at - _LINE_NS) - 1)
        last = min(len(self._times) - 1, bisect_left(self._times, at + _LINE_NS))
        took_s = (self._times[last] - self._times[first]) / 1e9
        return took_s > 0 and (self._bytes[last] - self._bytes[first]) / took_s >= FULL * self._byte_s


def _slices(each: Connection, idle_us: int, readers: dict[tuple[int, int], _Reader], line: _Line) -> list[Slice]:
    pauses = Pauses(each, idle_us)
    found: list[Slice] = []
    before: Look | None = None
    start_ns = each.start_ns
    for look in [look for look in each.looks if look.t_ns > start_ns]:
        end_ns = min(look.t_ns, each.end_ns)
        found += _pieces(before, look, start_ns, end_ns, pauses, readers, line)
        before, start_ns = look, end_ns
        if look.t_ns >= each.end_ns:
            return found
    if before is not None:
        found += _pieces(before, before, start_ns, each.end_ns, pauses, readers, line)
    return found


def _pieces(  # noqa: PLR0917 - one caller
    before: Look | None,
    look: Look,
    start_ns: int,
    end_ns: int,
    pauses: Pauses,
    readers: dict[tuple[int, int], _Reader],
    line: _Line,
) -> Iterator[Slice]:
    """The time of one look, cut where another pause begins. The kernel's own times are not those of a program that pauses."""
    reader = readers.get((look.port, look.peer_port), _Reader(()))
    parts = pauses.cut(start_ns, end_ns, waits_for_network=look.waits_for_network)
    held = math.fsum(part.seconds for part in parts if not part.idle)
    for part in parts:
        share = 0.0 if part.idle or not held else part.seconds / held
        unread, reader_idle = reader.at(part.end_ns)
        yield Slice(
            seconds=part.seconds,
            sent=round((look.acked - (before.acked if before else 0)) * part.seconds * 1e9 / (end_ns - start_ns)),
            no_window_s=share * (look.no_window_us - (before.no_window_us if before else 0)) / 1e6,
            no_buffer_s=share * (look.no_buffer_us - (before.no_buffer_us if before else 0)) / 1e6,
            waits_for_network=look.waits_for_network and not part.idle,
            slow_start=look.slow_start,
            line_full=line.full(part.middle_ns),
            window=look.window,
            send_buffer=look.send_buffer,
            unread=unread,
            reader_idle=reader_idle,
            answer=part.answer,
        )


def limited(transfer: Transfer, body_byte_s: float | None) -> Diagnosis | None:
    """The diagnosis of a transfer that keeps its limit; None where it does not, or has none."""
    limit = transfer.limit_byte_s
    if not limit or not body_byte_s:
        return None
    flows = Flows(transfer.direction, (), transfer.total_bytes, transfer.total_bytes / body_byte_s, 0.0, 0.0, limit_byte_s=limit)
    found = diagnose(flows)
    return found if found.cause == "limit" else None
