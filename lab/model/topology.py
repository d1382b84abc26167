"""A topology: the network between a client and a server, with the shaped link."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from lab.model.base import LONGEST_NAME, SLUG_PATTERN, FieldFault, Model, first_problem
from lab.model.endpoint import EndpointFile
from lab.model.impairments import Loss
from lab.model.link import SIDES, Link, LinkOverride
from lab.model.trace import AnyTrace, Trace
from lab.model.units import ONE_BDP, BitRate, Duration, Queue
from lab.model.userland import TopologyUserlands
from lab.model.wiring import ONLY_LINK, Dns, Ip, Ipv6, Path, Wiring, passes_all_alike, path_problem

UNSHAPED_RATE = BitRate.parse("1 Gbit/s")
"""The rate that virtual time gives to a link without one."""
# The default of a Linux interface (txqueuelen).
_UNSHAPED_QUEUE = Queue.parse("1000 packets")
_STEP_SETTINGS = ("rate", "queue", "loss", "jitter")
# A ramp's pieces: a tenth of the shortest time over which the lab judges a rate.
_RAMP_PIECE_NS = 10_000_000
_EITHER = "a schedule has either `steps` or a `trace`"
# RFC 8200, section 5.
_LEAST_IPV6_MTU = 1280


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
        for side in SIDES:
            if (change := getattr(self, side)) is not None:
                kept = getattr(link, side) or LinkOverride()
                given = {name: getattr(change, name) for name in _STEP_SETTINGS if getattr(change, name) is not None}
                settings[side] = LinkOverride.model_validate({**dict(kept), **given})
        return Link.model_validate({**dict(link), **settings})

    @model_validator(mode="after")
    def _sane(self) -> Self:
        given = {name for name in (*_STEP_SETTINGS, "rtt", *SIDES) if getattr(self, name) is not None}
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
    path: Path = Field(
        ONLY_LINK,
        description="nodes from client to server, with `link` at its place: other links and NATs; default: the link alone; in "
        "virtual time",
    )

    @model_validator(mode="after")
    def _unshaped_on_one_host(self) -> Self:
        if self.same_host and self.link != Link():
            raise ValueError("same_host has no router to shape a link (leave `link` out)")
        return self

    @model_validator(mode="after")
    def _passable(self) -> Self:
        if problem := path_problem(self.path):
            raise FieldFault(("path",), problem)
        if self.path == ONLY_LINK:
            return self
        if self.same_host:
            raise FieldFault(("path",), "same_host has no path (leave `path` out)")
        if self.ip != 4:
            raise FieldFault(("path",), "the nodes of a path know IPv4 alone (leave `path` or `ip` out)")
        if not passes_all_alike(self.link):
            raise FieldFault(
                ("path",),
                "a path takes all frames of 1500 bytes alike (leave mtu, hidden_mtu, udp and duplicate out, or `path`)",
            )
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.ip != "both" and self.ipv6 != "open":
            raise FieldFault(("ipv6",), f"{self.ipv6_words} needs another way to the server (set ip: both)")
        if self.same_host and (self.ip != 4 or self.dns):
            at = "dns" if self.dns else "ip"
            raise FieldFault((at,), "same_host is reached as localhost, without a resolver (leave `ip` and `dns` out)")
        if self.ip == 4:
            return self
        if self.link.mtu < _LEAST_IPV6_MTU:
            raise FieldFault(("ip",), f"IPv6 needs an MTU of {_LEAST_IPV6_MTU} bytes on every link (link.mtu)")
        if any(self.link.direction(side).has_hops for side in SIDES):
            raise FieldFault(("ip",), "hidden_mtu and udp choose packets of IPv4 (leave them out, or `ip`)")
        if self.endpoint is not None:
            raise FieldFault(("ip",), "an endpoint is reached over IPv4 (leave `ip` or `endpoint` out)")
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> Self:
        if self.schedule is None:
            return self
        trace = self.schedule.trace
        if not trace and any(self.link.direction(side).rate is None for side in SIDES):
            raise ValueError("a schedule needs a link with a rate in both directions (link.rate)")
        try:
            states = self.schedule.states(self.link)
        except ValueError as problem:
            raise ValueError(f"schedule: {first_problem(problem)}") from None
        for side in SIDES:
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
        return Wiring(self.same_host, self.ip, self.ipv6, self.dns, self.path)

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
