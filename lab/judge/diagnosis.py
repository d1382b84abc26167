"""The cause that held a transfer back: pure rules over slices of time and the waits observed in each (ADR 0034).

The questions are those of T-RAT (Zhang, Breslau, Paxson, Shenker: On the Characteristics and Origins of Internet Flow
Rates, 2002) and of root cause analysis (Siekkinen and others: Root Cause Analysis for Long-Lived TCP Connections, 2005).
They inferred from packets what a kernel counts by itself since Linux 4.10 (tcp_chrono): `tcpi_busy_time`, `tcpi_rwnd_limited`
and `tcpi_sndbuf_limited`. So windows are read, not estimated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lab.model.diagnosis import Cause, Diagnosis

LEAST_SHARE = 0.7
"""A cause is named from this share of the time on; Siekkinen's scores begin at 0.5, which would name one of two halves."""
LIMIT_KEPT = 0.05
"""A goodput this close to the client's own limit is the limit's."""
FULL = 0.95
"""A line is full from this share of its rate on. Zhang and Siekkinen infer the bottleneck; the lab knows the rate."""
CHANGES = "the link changes, and so does what it can carry"
SEVERAL_LINES = "the path has several nodes, and one line is watched"
"""The reason for naming no cause on a link with a schedule."""
ONE_HOST = "one host has no link to watch"
"""The reason for naming no cause where client and server are one host."""
_LEAST_PRINTED = 0.01
_WINDOWS: dict[str, Cause] = {"sftp": "ssh-window", "h2": "h2-window", "http1": "requests", "https1": "requests"}

Direction: TypeAlias = Literal["get", "put"]
Answer: TypeAlias = Literal["opening", "room", "at once", "late", "none"]
"""The event that ended a pause of the sending program: the opening of a connection; room in a send buffer that was full; a
message of the peer that answers content of a round trip before; a message that came later than that; or no event seen."""


@dataclass(frozen=True)
class Slice:
    """A short time of one connection's sender. Times in seconds, sizes in bytes.

    `no_window_s` is how long the peer's window had no room, `no_buffer_s` how long the send buffer was full and all of it sent.
    `waits_for_network`: something was unsent, or the congestion window was used up. `window` and `send_buffer` are their sizes
    at the end, `unread` what the receiving program had not taken by then. `reader_idle`: something lay unread until it read
    again. `answer` says what ended a pause, where the sender had nothing to send.
    """

    seconds: float
    sent: int
    no_window_s: float = 0.0
    no_buffer_s: float = 0.0
    waits_for_network: bool = False
    slow_start: bool = False
    line_full: bool = False
    window: int = 0
    send_buffer: int = 0
    unread: int = 0
    reader_idle: bool = False
    answer: Answer = "none"


@dataclass(frozen=True)
class Flows:
    """The measurements of one transfer.

    `direction` is the content's way. `layer` is the protocol as far as it is known (http1, https1, h2, sftp or empty), and
    `request` the bytes of a file where several are fetched. `seconds` and `content` go from the first connection to the last
    byte; `pace_byte_s` is the rate from the first content to the last, where one connection has all of it.
    `retransmits`, `segments`: of the sender; `dropped`, `policed`: packets that the router dropped, and those of them that its
    policer dropped. Round trips in seconds.
    """

    direction: Direction
    slices: Sequence[Slice]
    content: int
    seconds: float
    idle_rtt_s: float
    loaded_rtt_s: float
    layer: str = ""
    request: int | None = None
    limit_byte_s: float | None = None
    pace_byte_s: float | None = None
    line_byte_s: float | None = None
    connections: int = 1
    retransmits: int = 0
    segments: int = 0
    dropped: int = 0
    policed: int = 0

    @property
    def goodput(self) -> float:
        return self.content / self.seconds if self.seconds > 0 else 0.0


def diagnose(flows: Flows) -> Diagnosis:
    """The cause that held for at least LEAST_SHARE of the time, or not-known with every share."""
    times = _times(flows)
    total = math.fsum(times.values())
    shares = {cause: time / total for cause, time in times.items()} if total else {}
    cause: Cause
    cause, share = max(shares.items(), key=lambda each: each[1], default=("not-known", 0.0))
    goodput = flows.goodput
    paces = (goodput, flows.pace_byte_s or goodput)
    if flows.limit_byte_s and any(abs(pace / flows.limit_byte_s - 1) <= LIMIT_KEPT for pace in paces):
        cause, share = "limit", 1.0
    elif share < LEAST_SHARE:
        cause = "not-known"
    shown = {name: round(each, 4) for name, each in sorted(shares.items(), key=lambda pair: -pair[1]) if each >= _LEAST_PRINTED}
    return Diagnosis(
        cause=cause,
        share=None if cause == "not-known" else share,
        sentence=_sentence(flows, cause, share, shown),
        shares=shown,
        goodput_byte_s=goodput or None,
        retransmits=flows.retransmits,
        idle_rtt_ms=flows.idle_rtt_s * 1e3 if flows.idle_rtt_s else None,
        loaded_rtt_ms=flows.loaded_rtt_s * 1e3 if flows.loaded_rtt_s else None,
    )


def unexplained(found: Diagnosis | None, reason: str) -> Diagnosis:
    """The diagnosis without its cause, where the rules do not hold; without figures too where nothing was watched."""
    sentence = f"not known: {reason}"
    if found is None:
        return Diagnosis(cause="not-known", share=None, sentence=sentence)
    return found.model_copy(update={"cause": "not-known", "share": None, "shares": {}, "sentence": sentence})


def _times(flows: Flows) -> dict[Cause, float]:
    found: dict[Cause, float] = {}
    for each in flows.slices:
        for cause, seconds in _causes(flows, each).items():
            if seconds > 0:
                found[cause] = found.get(cause, 0.0) + seconds
    return found


def _causes(flows: Flows, each: Slice) -> dict[Cause, float]:
    """A slice's seconds by cause. A full line comes first: behind it every other wait costs nothing."""
    if each.line_full:
        return {"line": each.seconds}
    if each.reader_idle:  # Siekkinen's receiver-side application: no content that came sooner would have been taken sooner.
        return {reader(flows.direction): each.seconds}
    no_window = min(each.seconds, each.no_window_s)
    no_buffer = min(each.seconds - no_window, each.no_buffer_s)
    rest = max(0.0, each.seconds - no_window - no_buffer)
    found: dict[Cause, float] = {"receive-window": no_window, "send-buffer": no_buffer}
    cause = _waiting(flows, each)
    found[cause] = found.get(cause, 0.0) + rest
    return found


def _waiting(flows: Flows, each: Slice) -> Cause:
    """The cause while the peer's window and the send buffer have room."""
    if each.waits_for_network:
        lossy: Cause = "policer" if 2 * flows.policed > flows.dropped else "loss"
        return "short-file" if each.slow_start else lossy if flows.retransmits else "congestion-window"
    answers: dict[Answer, Cause] = {
        "opening": "short-file",
        "room": "send-buffer",
        "at once": window_of(flows),
        "late": reader(flows.direction),
        "none": writer(flows.direction),
    }
    return answers[each.answer]


def reader(direction: Direction) -> Cause:
    """The receiving program: the client's of a download, the server's of an upload."""
    return "slow-reader" if direction == "get" else "slow-server"


def writer(direction: Direction) -> Cause:
    """The sending program."""
    return "slow-writer" if direction == "put" else "slow-server"


def window_of(flows: Flows) -> Cause:
    """The cause named for a sender that waits for its peer's messages, by protocol.

    At most one file in each round trip means that the client requests the files one after the other.
    """
    outstanding = flows.goodput * flows.idle_rtt_s
    if flows.request is not None and outstanding <= flows.request:
        return "requests"
    return _WINDOWS.get(flows.layer, "peer-messages")


_NAMES: Mapping[Cause, str] = {
    "line": "full line",
    "limit": "the client's limit",
    "receive-window": "receive window",
    "send-buffer": "send buffer",
    "slow-reader": "client not reading",
    "slow-writer": "client not writing",
    "slow-server": "server",
    "congestion-window": "congestion window",
    "loss": "loss",
    "policer": "policer",
    "ssh-window": "SSH window",
    "h2-window": "h2 stream window",
    "requests": "waiting for requests",
    "peer-messages": "waiting for the receiver's messages",
    "short-file": "opening and slow start",
    "not-known": "not known",
}


_SENTENCES: Mapping[Cause, str] = {
    "line": "limited by the line: {goodput}, with it full {time}",
    "limit": "limited by the client's limit: {goodput} of {limit}",
    "receive-window": "limited by the receiver: window {window} each RTT of {loaded} = {windowed} {time}",
    "send-buffer": "limited by the sender: send buffer of {buffer} at an RTT of {rtt}, {goodput} {time}",
    "slow-reader": "limited by the client: it does not read {time}, up to {unread} unread",
    "slow-writer": "limited by the client: it does not write {time}",
    "slow-server": "limited by the server: it {acts} {time}",
    "congestion-window": "limited by the congestion window: {each_rtt} {time}, nothing lost",
    "loss": "limited by loss: {lost} at an RTT of {rtt}, {time}",
    "policer": "limited by a policer: it dropped {policed} packets, {goodput} {time}",
    "ssh-window": "limited by SSH: its window or SFTP's requests allow {each_rtt} {time}",
    "h2-window": "limited by HTTP/2: the window of the stream or of the connection allows {each_rtt} {time}",
    "requests": "limited by the client's requests, one after the other: {each_rtt} {time}",
    "peer-messages": "limited by the protocol: the sender waits for the receiver's messages, {each_rtt} {time}",
    "short-file": "limited by the file's size: {size} in {trips} RTTs of {rtt}, {time} opening and slow start",
}


def _sentence(flows: Flows, cause: Cause, share: float, shares: Mapping[Cause, float]) -> str:
    """One sentence with the figures behind it."""
    if cause == "not-known":
        seen = ", ".join(f"{_NAMES[name]} {each * 100:.0f} %" for name, each in shares.items()) or "no content"
        return f"not known: {seen}"
    window = _median(flows, "receive-window", "window")
    rtt_s, loaded_s = flows.idle_rtt_s, flows.loaded_rtt_s
    return _SENTENCES[cause].format(
        goodput=_rate(flows.goodput),
        limit=_rate(flows.limit_byte_s or 0),
        rtt=_rtt(rtt_s),
        loaded=_rtt(loaded_s),
        time=f"for {share * 100:.0f} % of the time",
        window=_size(window),
        windowed=_rate(window * flows.connections / loaded_s) if loaded_s else "-",
        buffer=_size(_median(flows, "send-buffer", "send_buffer")),
        unread=_size(max((each.unread for each in flows.slices), default=0)),
        acts="does not send" if flows.direction == "get" else "does not read",
        each_rtt=f"{_size(flows.goodput * rtt_s)} each RTT of {_rtt(rtt_s)}",
        lost=f"{flows.retransmits} of {flows.segments} segments sent again",
        policed=flows.policed,
        size=_size(flows.content),
        trips=f"{flows.seconds / rtt_s:.1f}" if rtt_s else "-",
    )


def _median(flows: Flows, cause: Cause, field: str) -> int:
    """The size of a window or buffer where it was the cause: the median."""
    found = sorted(int(getattr(each, field)) for each in flows.slices if _causes(flows, each).get(cause))
    return found[len(found) // 2] if found else 0


def _size(size: float) -> str:
    for unit, words in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {words}"
    return f"{size:.0f} B"


def _rate(byte_s: float) -> str:
    return f"{byte_s / 1e6:.3g} MB/s"


def _rtt(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
