"""When a sample's body began and ended, and whether the client's own figures agree with that.

The wire judges. The receiver's port is tapped where the lab may (`lab.net.body`: exact in virtual time); elsewhere the router's
counters do, to a reading interval. A client's own report is a claim; if the wire contradicts it, the client is at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.clients.adapter import ClientAdapter
from lab.hosts.host import Completed, Host
from lab.link.plan import queue_packets
from lab.link.theory import frame_bytes
from lab.model.clock import Clock
from lab.model.endpoints import Endpoints
from lab.model.link import LinkDirection
from lab.model.results import BodyClock, ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import Duration
from lab.model.wiring import Ip
from lab.net.body import Body, time_body
from lab.net.datagrams import Datagram, DatagramTap, time_datagrams
from lab.net.ports import INTERVAL_MS, PortSampler
from lab.net.series import Reading, body_span, header_bytes
from lab.net.tap import Event, Tap

# A client may define its first and last byte as it likes, within this share of the body and these round trips (a put's last byte
# may be the one written, sent or answered).
_ROUND_TRIPS = 2.0
_SHARE, _LEAST_S = 0.02, 0.1
# In real time a processor also comes between a byte and the client's look at its clock.
_REAL_SHARE, _REAL_LEAST_S = 0.1, 0.3


@dataclass(frozen=True)
class Timed:
    """Seconds. `start_s` counts from the client's start, `error_s` is how far `body_s` may be off, `said_s` is its claim."""

    start_s: float = 0.0
    body_s: float | None = None
    error_s: float | None = None
    clock: BodyClock | None = None
    total_s: float | None = None
    tail_s: float | None = None
    said_s: float | None = None

    def contradiction(self, name: str, link: LinkDirection | None, clock: Clock) -> str:
        """One line on a client that reports another duration than the wire; empty where they agree or one of them is unknown."""
        if self.clock in (None, "client") or self.body_s is None or self.said_s is None:
            return ""
        delay_s = link.delay.ns / 1e9 if link else 0.0
        # An upload is sent for its client while it still waits in the link's queue, which may hold more than a round trip.
        path_s = max(2 * _ROUND_TRIPS * delay_s, 2 * delay_s + (_queue_s(link) if link else 0.0))
        share, least_s = (_SHARE, _LEAST_S) if clock == "virtual" else (_REAL_SHARE, _REAL_LEAST_S)
        allowed_s = (self.error_s or 0.0) + max(least_s, share * self.body_s) + path_s
        late_s = self.said_s - self.body_s
        # A client may keep in its memory what it has taken, and deliver it later: as long as its process lives.
        if -allowed_s <= late_s <= allowed_s + (self.tail_s or 0.0):
            return ""
        return f"{name} says {self.said_s:.3f} s, the wire says {self.body_s:.3f} s (they may differ by {allowed_s:.3f} s)"


def _queue_s(link: LinkDirection) -> float:
    """The longest time that a packet may wait in the link's queue."""
    if link.rate is None:
        return 0.0
    packets = queue_packets(link, link.rate, Duration(2 * link.delay.ns))
    return packets * frame_bytes(link.mtu) * 8 / link.rate.bit_s


def tap_for(sampler: PortSampler, transfer: Transfer, receiver: Host, endpoints: Endpoints) -> Tap | DatagramTap | None:
    """The receiver's tap for this transfer. None where it cannot have one, and for requests, whose rate it would lower."""
    if transfer.requests:
        return None
    return sampler.datagrams(receiver, endpoints.port(transfer)) if transfer.protocol == "h3" else sampler.tap(receiver)


def _body_of(transfer: Transfer, events: Sequence[Event] | Sequence[Datagram], exit_ns: int) -> Body | None:
    if transfer.protocol == "h3":
        seen = [each for each in events if isinstance(each, Datagram)]
        limited = transfer.limit is not None
        return time_datagrams(seen, transfer.direction, transfer.total_bytes, exit_ns, limited=limited)
    segments = [each for each in events if not isinstance(each, Datagram)]
    return time_body(segments, transfer.protocol, transfer.direction, transfer.total_bytes, exit_ns)


def _claim(adapter: ClientAdapter, transfer: Transfer, numbers: ClientNumbers) -> float | None:
    """The body's seconds by the client's report; for files that all moved at once, those of the slowest."""
    if transfer.each_limited and transfer.files <= transfer.parallel and numbers.stream_byte_s:
        return transfer.size.bytes / min(numbers.stream_byte_s)
    return adapter.body_seconds(transfer, numbers)


def time_sample(  # noqa: PLR0917 - one caller
    adapter: ClientAdapter,
    transfer: Transfer,
    numbers: ClientNumbers | None,
    events: Sequence[Event] | Sequence[Datagram] | None,
    readings: list[Reading],
    done: Completed,
    *,
    ip: Ip = 4,
) -> Timed:
    """The body's times by the best clock there is. `events` is None where the receiver was not tapped.

    Where the server has addresses of both families (`ip`), the time to connect may include a failed attempt. A client's figure
    for an upload follows from that time, and is left out then.
    """
    said_s = _claim(adapter, transfer, numbers) if numbers and not (ip == "both" and transfer.direction == "put") else None
    if events is not None:
        body = _body_of(transfer, events, done.ended_ns)
        if body is not None:
            return Timed(
                start_s=max(0.0, (body.start_ns - done.started_ns) / 1e9),
                body_s=body.seconds or None,
                error_s=body.error_s,
                clock="exit" if transfer.protocol == "h3" and transfer.limit and transfer.direction == "get" else "wire",
                total_s=(done.ended_ns - body.opened_ns) / 1e9 or None,
                tail_s=max(0.0, (done.ended_ns - body.end_ns) / 1e9),
                said_s=said_s,
            )
    # The last bytes of a limited download are in the client's receive buffer long before it takes them.
    clock: BodyClock = "exit" if transfer.limit is not None and transfer.direction == "get" else "wire"
    span = body_span(readings, header_bytes(transfer.protocol))
    if span is None:
        start_s = adapter.body_start_s(transfer, numbers) if numbers else 0.0
        own_s = adapter.body_seconds(transfer, numbers) if numbers else None
        return Timed(start_s=start_s, body_s=own_s, clock="client" if own_s is not None else None, said_s=said_s)
    end_ns = done.ended_ns if clock == "exit" else span.end_ns
    return Timed(
        start_s=max(0.0, (span.start_ns - done.started_ns) / 1e9),
        body_s=(end_ns - span.start_ns) / 1e9,
        error_s=INTERVAL_MS / 1e3,
        clock=clock,
        total_s=done.wall_s,
        tail_s=max(0.0, (done.ended_ns - end_ns) / 1e9),
        said_s=said_s,
    )
