"""A topology: the network between a client and a server, with the shaped link."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lab.model.base import Model, Slug, first_problem
from lab.model.units import ONE_BDP, BitRate, Duration, Queue, Ratio

DirectionName = Literal["up", "down"]
_SIDES: tuple[DirectionName, ...] = ("up", "down")
# Below 2^53, so that every reader of JSON keeps it; netem takes 64 bits.
Seed = Annotated[int, Field(ge=0, le=2**32 - 2, strict=True)]
# 576 is the least a host must accept (RFC 791); the router's ports take 1500.
Mtu = Annotated[int, Field(ge=576, le=1500, strict=True)]
# tc holds rates in bytes per second; below this one frame takes longer than any timeout.
_LEAST_RATE = BitRate(1000)
_LONGEST_DELAY = Duration.parse("60 s")
_NONE = Ratio(0)
UNSHAPED_RATE = BitRate.parse("1 Gbit/s")
"""The rate that virtual time gives to a link without one."""
# The default of a Linux interface (txqueuelen).
_UNSHAPED_QUEUE = Queue.parse("1000 packets")
_IMPAIRMENTS = ("loss", "reorder", "corrupt", "duplicate")


class LinkDirection(Model):
    """One direction of a link, all defaults resolved: the settings of one netem."""

    rate: BitRate | None = Field(None, description="bits per second on the wire, Ethernet headers included; null: not limited")
    delay: Duration = Field(Duration(0), description="one-way delay")
    queue: Queue = Field(ONE_BDP, description="length of the bottleneck's queue")
    loss: Ratio = Field(_NONE, description="share of packets lost at random")
    reorder: Ratio = Field(_NONE, description="share of packets that skip the delay (and the rate)")
    corrupt: Ratio = Field(_NONE, description="share of packets with one bit flipped")
    duplicate: Ratio = Field(_NONE, description="share of packets sent twice")
    jitter: Duration = Field(Duration(0), description="uniform variation of the delay, plus or minus; reorders without a rate")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = Field(
        None, description="makes the impairments repeatable; null: not set"
    )
    mtu: Mtu = Field(1500, description="largest IP packet in this direction, bytes")

    @property
    def shaped(self) -> bool:
        """Whether it needs a qdisc."""
        return self.rate is not None or self.delay.ns > 0 or any(getattr(self, name).value > 0 for name in _IMPAIRMENTS)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.rate is not None and self.rate < _LEAST_RATE:
            raise ValueError(f"rate {self.rate} is too low (at least {_LEAST_RATE})")
        if self.delay > _LONGEST_DELAY:
            raise ValueError(f"delay {self.delay} is longer than {_LONGEST_DELAY}")
        if self.jitter > self.delay:
            raise ValueError(
                f"jitter {self.jitter} is more than the one-way delay {self.delay}: packets cannot arrive before they are sent"
            )
        for name in _IMPAIRMENTS:
            if getattr(self, name).value >= 1:
                raise ValueError(f"{name} must be below 100 %: no packet would arrive intact")
        if self.reorder.value > 0 and self.delay.ns == 0:
            raise ValueError("reorder needs a delay: packets are reordered by skipping it")
        return self


class LinkOverride(Model):
    """Settings of one direction that differ from the link's."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in this direction")
    delay: Duration | None = Field(None, description="one-way delay; the other direction gets the rest of the link's rtt")
    queue: Queue | None = Field(None, description="length of the bottleneck's queue in this direction")
    loss: Ratio | None = Field(None, description="share of packets lost at random in this direction")
    jitter: Duration | None = Field(None, description="uniform variation of the one-way delay, plus or minus")
    reorder: Ratio | None = Field(None, description="share of packets that skip the delay in this direction")
    corrupt: Ratio | None = Field(None, description="share of packets with one bit flipped in this direction")
    duplicate: Ratio | None = Field(None, description="share of packets sent twice in this direction")
    seed: Seed | None = Field(None, description="seed of this direction, used as it is")
    mtu: Mtu | None = Field(None, description="largest IP packet in this direction, bytes")


class Link(Model):
    """The shaped hop, the same in both directions unless `up` (client to server) or `down` differ."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in each direction; default: not limited")
    rtt: Duration = Field(
        Duration(0), description="round-trip time of the idle link; half of it in each direction unless a direction has a delay"
    )
    queue: Queue = Field(ONE_BDP, description="length of the bottleneck's queue, per direction")
    loss: Ratio = Field(_NONE, description="share of packets lost at random in each direction")
    jitter: Duration = Field(
        Duration(0), description="uniform variation of the one-way delay, plus or minus; reorders without a rate"
    )
    reorder: Ratio = Field(_NONE, description="share of packets that skip the delay in each direction")
    corrupt: Ratio = Field(_NONE, description="share of packets with one bit flipped in each direction")
    duplicate: Ratio = Field(_NONE, description="share of packets sent twice in each direction")
    seed: Seed | None = Field(None, description="makes the impairments repeatable; `down` uses it, `up` the next number")
    mtu: Mtu = Field(1500, description="largest IP packet of the link, bytes")
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
    def shaped(self) -> bool:
        """Whether a direction needs a qdisc."""
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
        for side in _SIDES:
            try:
                self.direction(side)
            except ValueError as problem:
                raise ValueError(first_problem(problem)) from None
        return self


class Topology(Model):
    """A network of client, router and server, of which only the link differs; or a client and a server on one host."""

    name: Slug = Field(description="name of the topology, as in the names of cells")
    description: str = Field(min_length=1, description="the network it represents, and the source of its figures")
    link: Link = Field(Link(), description="the shaped hop; default: not shaped")
    congestion_control: str = Field(
        "cubic", pattern=r"^[a-z][a-z0-9_]{0,14}$", description="congestion control of both hosts, by the kernel's name"
    )
    same_host: bool = Field(
        False,
        description="client and server are one host, reached over its loopback as `localhost`; without a router, so never shaped",
    )

    @model_validator(mode="after")
    def _unshaped_on_one_host(self) -> Self:
        if self.same_host and self.link != Link():
            raise ValueError("same_host has no router to shape a link (leave `link` out)")
        return self

    def in_virtual_time(self) -> Self:
        """The topology as virtual time runs it. A link that is not shaped becomes one of 1 Gbit/s.

        A link that takes no time would pass bursts of any size, and clients would divide by zero. A loopback takes what its
        system calls are charged, and stays as it is.
        """
        if self.link.shaped or self.same_host:
            return self
        link = self.link.model_copy(update={"rate": UNSHAPED_RATE, "queue": _UNSHAPED_QUEUE})
        description = f"{self.name} in virtual time: a wire of {UNSHAPED_RATE}."
        return self.model_copy(update={"link": link, "description": description})
