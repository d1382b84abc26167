"""A link: the shaped hop of a topology, and its settings in each direction."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lab.model.base import Model, first_problem
from lab.model.impairments import AnyQueue, Distribution, Jitter, Loss, ManagedQueue, PolicedUdp, Udp, Variation
from lab.model.units import ONE_BDP, BitRate, Duration, Queue, Ratio

DirectionName = Literal["up", "down"]
SIDES: tuple[DirectionName, ...] = ("up", "down")


def carrier(transfer: str) -> DirectionName:
    """The direction of the link that carries the content of a `get` or a `put`."""
    return "down" if transfer == "get" else "up"


# Below 2^53, so that every reader of JSON keeps it; netem takes 64 bits.
Seed = Annotated[int, Field(ge=0, le=2**32 - 2, strict=True)]
# 576 is the least a host must accept (RFC 791); the router's ports take 1500.
Mtu = Annotated[int, Field(ge=576, le=1500, strict=True)]
# tc holds rates in bytes per second; below this one frame takes longer than any timeout.
_LEAST_RATE = BitRate(1000)
_LONGEST_DELAY = Duration.parse("60 s")
_NONE = Ratio(0)
# A policer shows only where the line carries clearly more.
_MOST_POLICED = 0.9
_IMPAIRMENTS = ("loss", "reorder", "corrupt", "duplicate")


class LinkDirection(Model):
    """One direction of a link, all defaults resolved: the settings of its qdiscs."""

    rate: BitRate | None = Field(None, description="bits per second on the wire, Ethernet headers included; null: not limited")
    delay: Duration = Field(Duration(0), description="one-way delay")
    queue: AnyQueue = Field(ONE_BDP, description="the bottleneck's queue: its length, or a mapping with its `kind`")
    loss: Loss = Field(_NONE, description="share of packets lost at random, or a `model` of losses in bursts")
    reorder: Ratio = Field(_NONE, description="share of packets that skip the delay (and the rate)")
    corrupt: Ratio = Field(_NONE, description="share of packets with one bit flipped")
    duplicate: Ratio = Field(_NONE, description="share of packets sent twice")
    jitter: Variation = Field(Duration(0), description="uniform variation of the delay, plus or minus; reorders without a rate")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = Field(
        None, description="makes the impairments repeatable; null: not set"
    )
    mtu: Mtu = Field(1500, description="largest IP packet in this direction, bytes")
    hidden_mtu: Mtu | None = Field(None, description="largest IP packet that passes, bytes, unknown to the hosts; null: `mtu`")
    udp: Udp = Field("open", description="what becomes of UDP: `blocked`, or a mapping with the rate to which it is `policed`")

    @property
    def shaped(self) -> bool:
        """True if this direction needs a qdisc."""
        return self.rate is not None or self.delay.ns > 0 or any(getattr(self, name).value > 0 for name in _IMPAIRMENTS)

    @property
    def has_hops(self) -> bool:
        """True if this direction treats UDP, or packets of some size, unlike others."""
        return self.udp != "open" or self.hidden_mtu is not None

    @property
    def policed_udp(self) -> PolicedUdp | None:
        """The policer that UDP meets."""
        return self.udp if isinstance(self.udp, PolicedUdp) else None

    @property
    def managed(self) -> ManagedQueue | None:
        """The queue's discipline, where it is not that of packets behind a netem."""
        if isinstance(self.queue, ManagedQueue):
            return self.queue
        return ManagedQueue(kind="fifo", limit=self.queue) if self.queue.kind == "bytes" else None

    @property
    def queue_limit(self) -> Queue:
        """The most that the queue holds."""
        return self.queue.limit if isinstance(self.queue, ManagedQueue) else self.queue

    @property
    def distribution(self) -> Distribution:
        """The distribution of the jitter."""
        return self.jitter.distribution if isinstance(self.jitter, Jitter) else "uniform"

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.rate is not None and self.rate < _LEAST_RATE:
            raise ValueError(f"rate {self.rate} is too low (at least {_LEAST_RATE})")
        if self.delay > _LONGEST_DELAY:
            raise ValueError(f"delay {self.delay} is longer than {_LONGEST_DELAY}")
        if self.jitter.ns > self.delay.ns:
            raise ValueError(
                f"jitter {Duration(self.jitter.ns)} is more than the one-way delay {self.delay}: "
                "packets cannot arrive before they are sent"
            )
        for name in _IMPAIRMENTS:
            if getattr(self, name).value >= 1:
                raise ValueError(f"{name} must be below 100 %: no packet would arrive intact")
        if self.reorder.value > 0 and self.delay.ns == 0:
            raise ValueError("reorder needs a delay: packets are reordered by skipping it")
        if self.managed and self.rate is None:
            raise ValueError(f"queue {self.managed.kind} needs a rate: without one nothing queues (set rate)")
        if self.hidden_mtu is not None and self.hidden_mtu >= self.mtu:
            raise ValueError(f"hidden_mtu {self.hidden_mtu} must be below the mtu {self.mtu} that the hosts know")
        if self.hidden_mtu is not None and self.udp == "blocked":
            raise ValueError("hidden_mtu cannot be proven where UDP is blocked (leave one out)")
        if self.policed_udp and self.rate is not None and self.policed_udp.policed.bit_s > _MOST_POLICED * self.rate.bit_s:
            raise ValueError(f"udp is policed to {self.policed_udp.policed}, more than nine tenths of the link's rate")
        return self

    def for_udp(self) -> LinkDirection:
        """The direction as UDP has it: its rate is the policer's."""
        return self.model_copy(update={"rate": self.policed_udp.policed}) if self.policed_udp else self


class LinkOverride(Model):
    """Settings of one direction that differ from the link's."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in this direction")
    delay: Duration | None = Field(None, description="one-way delay; the other direction gets the rest of the link's rtt")
    queue: AnyQueue | None = Field(None, description="the bottleneck's queue in this direction: its length, or a mapping")
    loss: Loss | None = Field(None, description="share of packets lost at random in this direction, or a `model`")
    jitter: Variation | None = Field(None, description="variation of the one-way delay, plus or minus, or a mapping")
    reorder: Ratio | None = Field(None, description="share of packets that skip the delay in this direction")
    corrupt: Ratio | None = Field(None, description="share of packets with one bit flipped in this direction")
    duplicate: Ratio | None = Field(None, description="share of packets sent twice in this direction")
    seed: Seed | None = Field(None, description="seed of this direction, used as it is")
    mtu: Mtu | None = Field(None, description="largest IP packet in this direction, bytes")
    hidden_mtu: Mtu | None = Field(
        None, description="largest IP packet that passes in this direction, bytes, unknown to the hosts"
    )
    udp: Udp | None = Field(None, description="what becomes of UDP in this direction: `open`, `blocked`, or a mapping")


class Link(Model):
    """The shaped hop, the same in both directions unless `up` (client to server) or `down` differ."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in each direction; default: not limited")
    rtt: Duration = Field(
        Duration(0), description="round-trip time of the idle link; half of it in each direction unless a direction has a delay"
    )
    queue: AnyQueue = Field(ONE_BDP, description="the bottleneck's queue per direction: its length, or a mapping with its `kind`")
    loss: Loss = Field(_NONE, description="share of packets lost at random in each direction, or a `model` of losses in bursts")
    jitter: Variation = Field(
        Duration(0),
        description="uniform variation of the one-way delay, plus or minus, or a mapping; reorders without a rate",
    )
    reorder: Ratio = Field(_NONE, description="share of packets that skip the delay in each direction")
    corrupt: Ratio = Field(_NONE, description="share of packets with one bit flipped in each direction")
    duplicate: Ratio = Field(_NONE, description="share of packets sent twice in each direction")
    seed: Seed | None = Field(None, description="makes the impairments repeatable; `down` uses it, `up` the next number")
    mtu: Mtu = Field(1500, description="largest IP packet of the link, bytes")
    hidden_mtu: Mtu | None = Field(
        None, description="a black hole: larger IP packets disappear without a message, and the hosts know `mtu` only; bytes"
    )
    udp: Udp = Field("open", description="what becomes of UDP: `blocked`, or a mapping with the rate to which it is `policed`")
    up: LinkOverride | None = Field(None, description="settings from client to server that differ")
    down: LinkOverride | None = Field(None, description="settings from server to client that differ")

    def direction(self, name: DirectionName) -> LinkDirection:
        """One direction, all defaults resolved. `up` uses the next seed: with equal seeds both would lose the same packets."""
        found: dict[str, object] = {field: getattr(self, field) for field in LinkDirection.model_fields if field != "delay"}
        found["delay"] = self._delay(name)
        if self.seed is not None and name == "up":
            found["seed"] = self.seed + 1
        override = self._override(name)
        found |= {field: value for field, value in override if value is not None and field != "delay"}
        return LinkDirection.model_validate(found)

    @property
    def virtual_only(self) -> str:
        """The part that only virtual time can do, in words; empty where every router can do all of it."""
        for side in SIDES:
            direction = self.direction(side)
            if direction.managed:
                return f"a queue of kind {direction.managed.kind}"
            if direction.distribution != "uniform":
                return f"jitter of distribution {direction.distribution}"
            if direction.hidden_mtu is not None:
                return "a hidden MTU"
            if direction.udp != "open":
                return f"UDP that is {'policed' if direction.policed_udp else direction.udp}"
        return ""

    @property
    def shaped(self) -> bool:
        """True if a direction needs a qdisc."""
        return self.direction("up").shaped or self.direction("down").shaped

    def _override(self, name: DirectionName) -> LinkOverride:
        return (self.up if name == "up" else self.down) or LinkOverride()

    def _delay(self, name: DirectionName) -> Duration:
        """The one-way delay. Both directions add up to the rtt, to the nanosecond."""
        own = self._override(name).delay
        other = self._override("down" if name == "up" else "up").delay
        if own is not None:
            return own
        if other is not None:
            return Duration(self.rtt.ns - other.ns)
        half = self.rtt.ns // 2
        return Duration(half if name == "up" else self.rtt.ns - half)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        up, down = self._override("up").delay, self._override("down").delay
        if up is not None and down is not None and up.ns + down.ns != self.rtt.ns:
            raise ValueError(f"rtt {self.rtt} is not the sum of the two delays (write rtt: {Duration(up.ns + down.ns)})")
        for name, delay in (("up", up), ("down", down)):
            if delay is not None and delay > self.rtt:
                raise ValueError(f"{name}.delay {delay} is more than the rtt {self.rtt}")
        for side in SIDES:
            own = self._override(side).mtu
            if own not in (None, self.mtu):
                raise ValueError(f"{side}.mtu {own}: a host has one MTU for both directions (set link.mtu, or {side}.hidden_mtu)")
            try:
                self.direction(side)
            except ValueError as problem:
                raise ValueError(first_problem(problem)) from None
        return self
