"""Watches a transfer at both ends: what each kernel counts for its connections, what passed, what the router dropped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from lab.hosts.host import Host, Network
from lab.model.errors import LabFault
from lab.net.sockets import Look, Sockets
from lab.net.tap import Event, Tap

_FRAME_BYTES = 1 << 11
_POLICER_FRAMES = 3


Qdisc: TypeAlias = dict[str, Any]
"""A queueing discipline in tc's JSON."""


class Dropped(NamedTuple):
    """Packets that the router dropped so far, and those of them that a policer dropped."""

    all: int
    policed: int


@dataclass(frozen=True)
class Watched:
    """The looks at one host's connections, and the events on its port."""

    looks: Sequence[Look]
    events: Sequence[Event]


class Watch:
    """Use as a context manager around a client. `network` has a link, and both hosts a port that may be tapped."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._stack = ExitStack()
        self._of: dict[str, tuple[Sockets, Tap]] = {}
        self._before: Sequence[Qdisc] = ()
        self._after: Sequence[Qdisc] | None = None

    def __enter__(self) -> Self:
        try:
            for host in (self._network.client, self._network.server):
                sockets = self._stack.enter_context(Sockets(self._network, host))
                self._of[host.name] = sockets, self._stack.enter_context(Tap(self._network, host, acks=True))
            self._before = _read(self._network)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def of(self, host: Host, start_ns: int, end_ns: int) -> Watched:
        """The looks and events of a host from `start_ns` to `end_ns`. Raises LabFault when a script has ended or is too slow."""
        sockets, tap = self._of[host.name]
        return Watched(sockets.between(start_ns, end_ns), tap.between(start_ns, end_ns))

    def dropped(self) -> Dropped:
        """By the router since the watch began."""
        self._after = _read(self._network)
        now, before = _sum(self._after), _sum(self._before)
        return Dropped(now.all - before.all, now.policed - before.policed)

    def dropped_at(self) -> dict[str, int]:
        """The same by the router's device, as of the last look at it; devices that dropped nothing are left out."""
        if self._after is None:
            self._after = _read(self._network)
        before = _by_device(self._before)
        found = {device: count - before.get(device, 0) for device, count in _by_device(self._after).items()}
        return {device: count for device, count in found.items() if count > 0}


def can_watch(network: Network) -> bool:
    """In virtual time, where looking often takes nothing from a processor, and with a link between two hosts."""
    tapped = network.client.tap_port and network.server.tap_port
    return network.clock.kind == "virtual" and network.router_facts.kind != "none" and bool(tapped)


def dropped(network: Network) -> Dropped:
    """The counters of all of the router's qdiscs."""
    return _sum(_read(network))


def _read(network: Network) -> list[Qdisc]:
    output = network.router.run(["tc", "-s", "-j", "qdisc", "show"], root=True).text
    try:
        found: list[Qdisc] = json.loads(output or "[]")
    except ValueError:
        raise LabFault(f"the router's tc answered with something else than JSON: {output[:120]!r}") from None
    return found


def _sum(qdiscs: Sequence[Qdisc]) -> Dropped:
    roots = sum(int(each.get("drops", 0)) for each in qdiscs if each.get("root"))
    policed = sum(int(each.get("drops", 0)) for each in qdiscs if is_policer(each))
    return Dropped(max(roots, policed), policed)


def _by_device(qdiscs: Sequence[Qdisc]) -> dict[str, int]:
    devices = dict.fromkeys(str(each.get("dev", "")) for each in qdiscs)
    return {device: _sum([each for each in qdiscs if each.get("dev", "") == device]).all for device in devices}


def is_policer(qdisc: dict[str, Any]) -> bool:
    """A token bucket without a queue to speak of, or a hook for act_police."""
    if qdisc.get("kind") in ("clsact", "ingress"):
        return True
    options = qdisc.get("options", {})
    return qdisc.get("kind") == "tbf" and isinstance(options, dict) and _room(options) <= _POLICER_FRAMES * _FRAME_BYTES


def _room(options: dict[str, Any]) -> float:
    """Bytes that may wait in a tbf: tc prints them as `limit`, or as the time `lat` (us) that they take beyond the bucket."""
    if "limit" in options:
        return float(options["limit"])
    return float(options.get("lat", 0)) / 1e6 * float(options.get("rate", 0))
