"""A topology: the network between a client and a server, with the shaped link."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from lab.model.base import LONGEST_NAME, SLUG_PATTERN, Model, first_problem
from lab.model.endpoint import EndpointFile
from lab.model.impairments import AnyQueue, Distribution, Jitter, Loss, ManagedQueue, PolicedUdp, Udp, Variation
from lab.model.trace import AnyTrace, Trace
from lab.model.units import ONE_BDP, BitRate, Duration, Queue, Ratio
from lab.model.userland import TopologyUserlands
from lab.model.wiring import Dns, Ip, Ipv6, Wiring

DirectionName = Literal["up", "down"]
_SIDES: tuple[DirectionName, ...] = ("up", "down")


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
# RFC 8200, section 5.
_LEAST_IPV6_MTU = 1280
UNSHAPED_RATE = BitRate.parse("1 Gbit/s")
"""The rate that virtual time gives to a link without one."""
# The default of a Linux interface (txqueuelen).
_UNSHAPED_QUEUE = Queue.parse("1000 packets")
# A policer shows only where the line carries clearly more.
_MOST_POLICED = 0.9
_IMPAIRMENTS = ("loss", "reorder", "corrupt", "duplicate")
_STEP_SETTINGS = ("rate", "queue", "loss", "jitter")
# A ramp's pieces: a tenth of the shortest time over which the lab judges a rate.
_RAMP_PIECE_NS = 10_000_000
_EITHER = "a schedule has either `steps` or a `trace`"


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
        for side in _SIDES:
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
        for side in _SIDES:
            own = self._override(side).mtu
            if own not in (None, self.mtu):
                raise ValueError(f"{side}.mtu {own}: a host has one MTU for both directions (set link.mtu, or {side}.hidden_mtu)")
            try:
                self.direction(side)
            except ValueError as problem:
                raise ValueError(first_problem(problem)) from None
        return self


class StepOverride(Model):
    """Settings of one direction that a step changes."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in this direction")
    queue: Queue | None = Field(None, description="length of the bottleneck's queue in this direction")
    loss: Loss | None = Field(None, description="share of packets lost at random in this direction, or a `model`")
    jitter: Duration | None = Field(None, description="uniform variation of the one-way delay in this direction")


class Step(Model):
    """A change of the link at one instant, or over a time."""

    at: Duration = Field(description="time since the start of the sample, or of the repetition")
    over: Duration = Field(
        Duration(0), description="a ramp: `rate` and `rtt` reach their new values after this time, in pieces of 10 ms"
    )
    outage: Duration = Field(
        Duration(0), description="nothing enters the link for this long; what is on it still arrives. With settings: a handover"
    )
    rate: BitRate | None = Field(None, description="bits per second on the wire from then on")
    rtt: Duration | None = Field(None, description="round-trip time of the idle link from then on")
    queue: Queue | None = Field(None, description="length of the bottleneck's queue from then on")
    loss: Loss | None = Field(None, description="share of packets lost at random from then on, or a `model`")
    jitter: Duration | None = Field(None, description="uniform variation of the one-way delay from then on")
    up: StepOverride | None = Field(None, description="what differs from client to server from then on")
    down: StepOverride | None = Field(None, description="what differs from server to client from then on")

    @property
    def end(self) -> Duration:
        """The time at which the step is complete."""
        return Duration(self.at.ns + max(self.over.ns, self.outage.ns))

    def applied_to(self, link: Link) -> Link:
        """The link once this step is complete. Raises ValueError where there is no such link."""
        settings = {name: getattr(self, name) for name in (*_STEP_SETTINGS, "rtt") if getattr(self, name) is not None}
        for side in _SIDES:
            if (change := getattr(self, side)) is not None:
                kept = getattr(link, side) or LinkOverride()
                given = {name: getattr(change, name) for name in _STEP_SETTINGS if getattr(change, name) is not None}
                settings[side] = LinkOverride.model_validate({**dict(kept), **given})
        return Link.model_validate({**dict(link), **settings})

    @model_validator(mode="after")
    def _sane(self) -> Self:
        given = {name for name in (*_STEP_SETTINGS, "rtt", *_SIDES) if getattr(self, name) is not None}
        if not given and not self.outage.ns:
            raise ValueError("a step needs a setting to change, or an outage")
        if self.over.ns and self.outage.ns:
            raise ValueError("a step has either `over` or `outage` (write two steps)")
        if self.over.ns and given - {"rate", "rtt"}:
            raise ValueError("a ramp (`over`) changes `rate` and `rtt` only (write the other settings as a step of their own)")
        return self


class LinkState(NamedTuple):
    """The link from one instant of a schedule on; in an outage nothing enters it."""

    at_ns: int
    link: Link
    passing: bool = True


class Schedule(Model):
    """The changes of the link while a sample runs. Every sample sees the schedule from its beginning."""

    steps: tuple[Step, ...] = Field((), description="changes in the order of time")
    trace: AnyTrace | None = Field(
        None,
        description="a recorded series in place of steps: a file (CSV, mahimahi's, Pensieve's), or one for `down` and for `up`",
    )
    repeat: Duration | None = Field(None, description="begin again after this time, with the link as at first; default: once")

    def states(self, link: Link) -> list[LinkState]:
        """The states of one repetition, the first of them at 0. Raises ValueError where a step asks for an impossible link.

        A trace has one for each of its round trips, whose rate is the link's: what passes when is in the trace.
        """
        found = [LinkState(0, link)]
        if isinstance(self.trace, Trace):
            for entry in self.trace.rtts:
                found.append(LinkState(entry.at.ns, Link.model_validate({**dict(link), "rtt": entry.rtt})))
            return found[1:] if len(found) > 1 and found[1].at_ns == 0 else found
        for step in self.steps:
            before, after = found[-1].link, step.applied_to(found[-1].link)
            if step.outage.ns:
                found += [LinkState(step.at.ns, after, passing=False), LinkState(step.end.ns, after)]
            else:
                found += [
                    LinkState(step.at.ns + passed, _between(before, after, passed + _RAMP_PIECE_NS // 2, step.over.ns))
                    for passed in range(0, step.over.ns, _RAMP_PIECE_NS)
                ]
                found.append(LinkState(step.end.ns, after))
        return found

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if bool(self.steps) == bool(self.trace):
            raise ValueError("a schedule needs `steps`, at least 1 item, or a `trace`" if not self.steps else _EITHER)
        if self.trace:
            if self.repeat is not None:
                raise ValueError("a trace begins again at its end (leave `repeat` out)")
            return self
        for earlier, later in pairwise(self.steps):
            if later.at < earlier.end or later.at <= earlier.at:
                raise ValueError(f"the step at {later.at} begins before the one at {earlier.at} is complete ({earlier.end})")
        if self.repeat is not None and self.repeat <= self.steps[-1].end:
            raise ValueError(f"repeat {self.repeat} must be later than the end of the last step ({self.steps[-1].end})")
        return self


def _between(before: Link, after: Link, passed_ns: int, over_ns: int) -> Link:
    """A link on a ramp, at that time of it."""
    share = min(1.0, passed_ns / over_ns)
    settings: dict[str, object] = {"rtt": Duration(round(before.rtt.ns + (after.rtt.ns - before.rtt.ns) * share))}
    if before.rate is not None and after.rate is not None:
        settings["rate"] = BitRate(round(before.rate.bit_s + (after.rate.bit_s - before.rate.bit_s) * share))
    return Link.model_validate({**dict(after), **settings})


NETWORK_PATTERN = rf"{SLUG_PATTERN}(?:@{SLUG_PATTERN})?"
"""A network's name, or NETWORK@ENDPOINT."""


def _short_parts(name: str) -> str:
    if any(len(part) > LONGEST_NAME for part in name.split("@")):
        raise ValueError(f"a name has at most {LONGEST_NAME} characters")
    return name


class Topology(Model):
    """A network of client, router and server, of which only the link differs; or a client and a server on one host."""

    name: Annotated[str, Field(pattern=rf"^{NETWORK_PATTERN}$", max_length=129), AfterValidator(_short_parts)] = Field(
        description="name of the topology, as in the names of cells"
    )
    description: str = Field(min_length=1, description="the network it represents, and the source of its figures")
    link: Link = Field(Link(), description="the shaped hop; default: not shaped")
    schedule: Schedule | None = Field(None, description="how the link changes while a sample runs; default: it stays as it is")
    congestion_control: str = Field(
        "cubic", pattern=r"^[a-z][a-z0-9_]{0,14}$", description="congestion control of both hosts, by the kernel's name"
    )
    userlands: TopologyUserlands | None = Field(None, description="root folders whose programs the hosts run, in virtual time")
    endpoint: EndpointFile | str | None = Field(
        None,
        description="the server, in place of the lab's own: the name of an endpoint, or the path of its file; in virtual time",
    )
    same_host: bool = Field(
        False,
        description="client and server are one host, reached over its loopback as `localhost`; without a router, so never shaped",
    )
    ip: Ip = Field(
        4,
        description="families under which the server's name is known: 4, 6, or `both`, and a client chooses; in virtual time",
    )
    ipv6: Ipv6 = Field(
        "open",
        description="with `ip: both`, what becomes of packets of IPv6: `dead` swallows them, `unreachable` says so, or a mapping",
    )
    dns: Dns | None = Field(
        None, description="a resolver on the client's side of the link; default: the server's name is in a file; in virtual time"
    )

    @model_validator(mode="after")
    def _unshaped_on_one_host(self) -> Self:
        if self.same_host and self.link != Link():
            raise ValueError("same_host has no router to shape a link (leave `link` out)")
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.ip != "both" and self.ipv6 != "open":
            raise ValueError(f"ipv6: {self.ipv6_words} needs another way to the server (set ip: both)")
        if self.same_host and (self.ip != 4 or self.dns):
            raise ValueError("same_host is reached as localhost, without a resolver (leave `ip` and `dns` out)")
        if self.ip == 4:
            return self
        if self.link.mtu < _LEAST_IPV6_MTU:
            raise ValueError(f"ip: {self.ip} needs an MTU of {_LEAST_IPV6_MTU} bytes, which IPv6 asks of every link (link.mtu)")
        if any(self.link.direction(side).has_hops for side in _SIDES):
            raise ValueError("hidden_mtu and udp choose packets of IPv4 (leave them out, or `ip`)")
        if self.endpoint is not None:
            raise ValueError("an endpoint is reached over IPv4 (leave `ip` or `endpoint` out)")
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> Self:
        if self.schedule is None:
            return self
        trace = self.schedule.trace
        if not trace and any(self.link.direction(side).rate is None for side in _SIDES):
            raise ValueError("a schedule needs a link with a rate in both directions (link.rate)")
        try:
            states = self.schedule.states(self.link)
        except ValueError as problem:
            raise ValueError(f"schedule: {first_problem(problem)}") from None
        for side in _SIDES:
            if trace and (self.link.direction(side).managed or self.link.direction(side).duplicate.value):
                raise ValueError("schedule: a trace needs a plain queue, and cannot duplicate packets (queue, duplicate)")
            found = [state.link.direction(side) for state in states]
            if len({each.managed.kind if each.managed else "" for each in found}) > 1:
                raise ValueError("schedule: a step cannot change the kind of the queue (leave its `queue` out)")
            if len({each.distribution for each in found}) > 1:
                raise ValueError("schedule: a step cannot change the distribution of the jitter (leave its `jitter` out)")
        return self

    @property
    def wiring(self) -> Wiring:
        """The part that is made with its hosts."""
        return Wiring(self.same_host, self.ip, self.ipv6, self.dns)

    @property
    def ipv6_words(self) -> str:
        """`dead`, or `slower by 300 ms`."""
        return self.ipv6 if isinstance(self.ipv6, str) else f"slower by {self.ipv6.slower}"

    @property
    def served_by(self) -> EndpointFile | None:
        """The endpoint, once the topology is loaded; None for the lab's own servers."""
        assert not isinstance(self.endpoint, str), "a topology is read by load_topology"
        return self.endpoint

    def in_virtual_time(self) -> Self:
        """The topology as virtual time runs it. A link that is not shaped becomes one of 1 Gbit/s.

        A link that takes no time would pass bursts of any size, and clients would divide by zero. A loopback takes what its
        system calls are charged, and stays as it is.
        """
        if self.link.shaped or self.same_host:
            return self
        queue = _UNSHAPED_QUEUE if self.link.queue == ONE_BDP else self.link.queue
        link = self.link.model_copy(update={"rate": UNSHAPED_RATE, "queue": queue})
        description = f"{self.name} in virtual time: a wire of {UNSHAPED_RATE}."
        return self.model_copy(update={"link": link, "description": description})
