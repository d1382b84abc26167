"""What a user can ask for: link, topology, client, transfer, expectation, and the cell that joins them. Closed and frozen."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lab.spec.queue import ONE_BDP, Queue
from lab.spec.units import BitRate, ByteRate, Duration, Ratio, Size

__all__ = [
    "Cell",
    "ClientSpec",
    "Expectation",
    "Link",
    "LinkDirection",
    "LinkOverride",
    "Queue",
    "Slug",
    "Topology",
    "Transfer",
]

DirectionName = Literal["up", "down"]
BoundKind = Literal["burst", "memory", "cpu", "fill"]
BOUNDS: dict[BoundKind, float] = {"burst": 1.5, "memory": float(64 << 20), "cpu": 0.5, "fill": 0.8}
"""What each expectation that is named in its cell asks, unless told otherwise."""
_SIDES: tuple[DirectionName, ...] = ("up", "down")

SLUG_PATTERN = r"[a-z0-9]+(?:[-._][a-z0-9]+)*"
# Never two dashes in a row, because a cell's name is CLIENT--TOPOLOGY--TRANSFER and also a file name.
Slug = Annotated[str, Field(pattern=rf"^{SLUG_PATTERN}$", max_length=64)]
# A client may be a version that the lab brings along: curl@8.4.0.
CLIENT_PATTERN = rf"{SLUG_PATTERN}(?:@{SLUG_PATTERN})?"
YAML_SUFFIXES = (".yaml", ".yml")
# Below 2^53, so that every reader of JSON keeps it; netem takes 64 bits.
Seed = Annotated[int, Field(ge=0, le=2**32 - 2, strict=True)]
# 576 is the least a host must accept (RFC 791); the router's ports take 1500.
Mtu = Annotated[int, Field(ge=576, le=1500, strict=True)]
# tc holds rates in bytes per second; below this one frame takes longer than any timeout.
_LEAST_RATE = BitRate(1000)
_LONGEST_DELAY = Duration.parse("60 s")
_NONE = Ratio(0)
LEAST_FILES_TO_COMPARE = 200
"""A set with fewer has no first and last hundred that share no file."""
MOST_FILES_KEPT = 10_000
"""Every one of them is made, stored and checked; requests for one file that is thrown away are cheaper."""
_IMPAIRMENTS = ("loss", "reorder", "corrupt", "duplicate")


class Model(BaseModel):
    """A misspelt key is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkDirection(Model):
    """One direction of a link with everything resolved: what one netem has to do."""

    rate: BitRate | None = Field(None, description="bits per second on the wire, Ethernet headers included; null is unshaped")
    delay: Duration = Field(Duration(0), description="one-way")
    queue: Queue = Field(ONE_BDP, description="what the bottleneck holds before it drops")
    loss: Ratio = Field(_NONE, description="of packets, at random")
    reorder: Ratio = Field(_NONE, description="of packets that skip the delay (and the rate)")
    corrupt: Ratio = Field(_NONE, description="of packets with one bit flipped")
    duplicate: Ratio = Field(_NONE, description="of packets sent twice")
    jitter: Duration = Field(
        Duration(0), description="the delay varies uniformly by plus or minus this; without a rate it reorders"
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = Field(
        None, description="makes the impairments repeatable; null where none is set"
    )
    mtu: Mtu = Field(1500, description="largest IP packet of the link in this direction, bytes")

    @property
    def shaped(self) -> bool:
        """Whether it takes a qdisc at all."""
        return self.rate is not None or self.delay.ns > 0 or any(getattr(self, name).value > 0 for name in _IMPAIRMENTS)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.rate is not None and self.rate < _LEAST_RATE:
            raise ValueError(f"rate {self.rate} is too low to carry anything (at least {_LEAST_RATE})")
        if self.delay > _LONGEST_DELAY:
            raise ValueError(f"delay {self.delay} is longer than {_LONGEST_DELAY}")
        if self.jitter > self.delay:
            raise ValueError(
                f"jitter {self.jitter} is more than the one-way delay {self.delay}: no packet can arrive before it was sent"
            )
        for name in _IMPAIRMENTS:
            if getattr(self, name).value >= 1:
                raise ValueError(f"{name} must be below 100 %: nothing would get through as sent")
        if self.reorder.value > 0 and self.delay.ns == 0:
            raise ValueError("reorder needs a delay: packets are reordered by skipping it")
        return self


class LinkOverride(Model):
    """What differs in one direction; what is left out is the link's."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in this direction")
    delay: Duration | None = Field(None, description="one-way; the other direction gets the rest of the link's rtt")
    queue: Queue | None = Field(None, description="what the bottleneck holds before it drops, in this direction")
    loss: Ratio | None = Field(None, description="of packets, at random, in this direction")
    jitter: Duration | None = Field(None, description="one-way; uniform, plus or minus")
    reorder: Ratio | None = Field(None, description="of packets that skip the delay, in this direction")
    corrupt: Ratio | None = Field(None, description="of packets with one bit flipped, in this direction")
    duplicate: Ratio | None = Field(None, description="of packets sent twice, in this direction")
    seed: Seed | None = Field(None, description="taken as it is, not derived")
    mtu: Mtu | None = Field(None, description="largest IP packet in this direction, bytes")


class Link(Model):
    """The shaped hop, the same both ways unless `up` (client to server) or `down` say otherwise."""

    rate: BitRate | None = Field(None, description="bits per second on the wire in each direction; left out, nothing limits it")
    rtt: Duration = Field(
        Duration(0), description="round trip of the idle link; half of it each way unless a direction says otherwise"
    )
    queue: Queue = Field(ONE_BDP, description="what the bottleneck holds before it drops, per direction")
    loss: Ratio = Field(_NONE, description="of packets, at random, in each direction")
    jitter: Duration = Field(Duration(0), description="one-way; uniform, plus or minus; without a rate it reorders")
    reorder: Ratio = Field(_NONE, description="of packets that skip the delay, in each direction")
    corrupt: Ratio = Field(_NONE, description="of packets with one bit flipped, in each direction")
    duplicate: Ratio = Field(_NONE, description="of packets sent twice, in each direction")
    seed: Seed | None = Field(None, description="makes the impairments repeatable; `down` uses it, `up` the next number")
    mtu: Mtu = Field(1500, description="largest IP packet of the link, bytes")
    up: LinkOverride | None = Field(None, description="client to server")
    down: LinkOverride | None = Field(None, description="server to client")

    def direction(self, name: DirectionName) -> LinkDirection:
        """One direction, resolved. The seed is for `down` and the next one for `up`: equal seeds would make both lose alike."""
        found: dict[str, object] = {field: getattr(self, field) for field in LinkDirection.model_fields if field != "delay"}
        found["delay"] = self._delay(name)
        if self.seed is not None and name == "up":
            found["seed"] = self.seed + 1
        override = self._override(name)
        found |= {field: value for field, value in override if value is not None and field != "delay"}
        return LinkDirection.model_validate(found)

    @property
    def shaped(self) -> bool:
        """Whether either direction takes a qdisc."""
        return self.direction("up").shaped or self.direction("down").shaped

    def _override(self, name: DirectionName) -> LinkOverride:
        return (self.up if name == "up" else self.down) or LinkOverride()

    def _delay(self, name: DirectionName) -> Duration:
        """Both directions always sum to the rtt, to the nanosecond."""
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
    """A network: the hosts are always client, router and server; the link is what differs."""

    name: Slug = Field(description="as cells are named by it")
    description: str = Field(min_length=1, description="what it stands for, and why these figures")
    link: Link = Field(Link(), description="the shaped hop; left out, it is not shaped")
    congestion_control: str = Field(
        "cubic", pattern=r"^[a-z][a-z0-9_]{0,14}$", description="of both hosts, as the kernel calls it"
    )


class Transfer(Model):
    """What the client is asked to do."""

    protocol: Literal["http1", "https1", "h2", "sftp"] = Field(
        description="http1: HTTP/1.1; https1: the same over TLS; h2: HTTP/2 over TLS; sftp: over SSH"
    )
    direction: Literal["get", "put"] = Field(description="get: from server to client; put: to the server")
    size: Size = Field(description="of each file, body bytes")
    limit: ByteRate | None = Field(
        None,
        description="the client's own limit, of body bytes; of several files over HTTP that of each, over SFTP of all together",
    )
    chunked: bool = Field(False, description="a download whose size is not announced")
    sink: bool = Field(False, description="an upload the server reads and throws away")
    buffer_size: Size | None = Field(None, description="the client's I/O buffer, where it has such a setting")
    files: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        1, description="number of files; more than one: a set, each of this size; with discard, so many requests for one file"
    )
    parallel: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        1, description="number of files at once; over h2 on one connection"
    )
    discard: bool = Field(False, description="a download that the client throws away")

    @property
    def total_bytes(self) -> int:
        """Of all files together."""
        return self.size.bytes * self.files

    @property
    def kept_set(self) -> bool:
        """Whether it moves several files, each with a content of its own."""
        return self.files > 1 and not self.discard

    @property
    def requests(self) -> bool:
        """Whether it asks for one file again and again."""
        return self.files > 1 and self.discard

    @property
    def each_limited(self) -> bool:
        """Whether several files have a limit each."""
        return self.limit is not None and self.files > 1 and self.protocol != "sftp"

    @property
    def limit_byte_s(self) -> int | None:
        """Of all that is moved at once."""
        if self.limit is None:
            return None
        return self.limit.byte_s * (min(self.parallel, self.files) if self.each_limited else 1)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.files > 1 and self.protocol != "sftp" and self.direction == "put":
            raise ValueError("over HTTP only a get moves more than one file")
        if self.parallel > 1 and self.files == 1:
            raise ValueError("one file is moved alone: parallel needs several")
        if self.discard and self.direction != "get":
            raise ValueError("only what is downloaded can be thrown away (for an upload: sink)")
        if self.requests and self.protocol == "sftp":
            raise ValueError("requests for one file that is thrown away are made over HTTP")
        if self.kept_set and self.files > MOST_FILES_KEPT:
            raise ValueError(f"a set that is kept has at most {MOST_FILES_KEPT} files")
        if self.chunked and (self.protocol == "sftp" or self.direction != "get"):
            raise ValueError("only an HTTP get can be chunked")
        if self.sink and (self.protocol == "sftp" or self.direction != "put"):
            raise ValueError("only an HTTP put can go to a sink")
        if self.buffer_size is not None and self.buffer_size.bytes == 0:
            raise ValueError("a buffer of 0 bytes moves nothing")
        return self


class Expectation(Model):
    """What a PASS asserts."""

    kind: Literal["limit", "steady", "none", BoundKind] = Field(
        "limit",
        description="limit: the mean body rate lies within tolerance of transfer.limit (of several files over HTTP that of the "
        "one furthest off); steady: the last hundred files of a set take at most tolerance longer, each, than the first hundred; "
        "burst: the fastest 100 ms on the wire, after the first half second, over what the limit allows in 100 ms is at "
        "most bound; memory: the client's peak resident set is at most bound bytes; cpu: its CPU seconds per second are at "
        "most bound; fill: its body rate over the ideal goodput of the link is at least bound",
    )
    tolerance: Ratio = Field(Ratio(0.05), description="of limit and steady")
    bound: float | None = Field(None, gt=0, allow_inf_nan=False, description="of burst, memory, cpu and fill, in its own unit")

    @property
    def named(self) -> BoundKind | None:
        """What the cell's name has to say of it; None where the transfer promises it by being what it is."""
        return next((kind for kind in BOUNDS if kind == self.kind), None)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if not 0 < self.tolerance.value < 1:
            raise ValueError(f"a tolerance of {self.tolerance} is no tolerance (between 0 % and 100 %, exclusive)")
        if self.bound is not None and self.named is None:
            raise ValueError(f"{self.kind} has no bound ({', '.join(BOUNDS)} have)")
        if self.bound is None and self.named is not None:
            object.__setattr__(self, "bound", BOUNDS[self.named])
        return self

    @classmethod
    def of(cls, transfer: Transfer, tolerance: Ratio = Ratio(0.05), kind: BoundKind | None = None) -> Self:
        """What a transfer promises by being what it is, unless `kind` is asked of it."""
        if kind is not None:
            return cls(kind=kind, tolerance=tolerance)
        if transfer.limit is not None:
            return cls(kind="limit", tolerance=tolerance)
        compared = transfer.kept_set and transfer.files >= LEAST_FILES_TO_COMPARE
        return cls(kind="steady" if compared else "none", tolerance=tolerance)

    def problem(self, transfer: Transfer) -> str:
        """Empty, or why that transfer cannot be expected to do this."""
        if self.kind == "limit" and transfer.limit is None:
            return "a transfer without a limit cannot be expected to keep to it (expectation kind: none)"
        if self.kind == "burst" and transfer.limit is None:
            return "without a limit there is no burst: give the transfer one (-at-1MBps)"
        if self.kind == "steady" and transfer.discard:
            return "files that are thrown away have no times to compare"
        if self.kind == "steady" and transfer.files < LEAST_FILES_TO_COMPARE:
            return f"a first and a last hundred need {LEAST_FILES_TO_COMPARE} files, this set has {transfer.files}"
        return ""


class ClientSpec(Model):
    """The program under test."""

    name: Annotated[str, Field(pattern=rf"^{CLIENT_PATTERN}$", max_length=64)]
    program: str = Field("", min_length=1, description="path or name; the name where left out", validate_default=False)

    @model_validator(mode="after")
    def _default_program(self) -> Self:
        if not self.program:
            object.__setattr__(self, "program", self.name)
        return self

    @classmethod
    def parse(cls, text: str) -> ClientSpec:
        """A client by name ("curl"), by path ("/opt/curl-8/bin/curl", called "curl") or both ("curl-8=/opt/curl-8/bin/curl").

        The path may be of a file that describes one ("./axel.yaml", called "axel"); a name may have a version ("curl@8.4.0").
        Raises ValueError when no name is left.
        """
        label, equals, path = text.strip().partition("=")
        if equals and (not label or not path):
            raise ValueError(f"{text!r}: NAME=PATH needs both")
        base = label if equals else PurePath(label).name.lower()
        if not equals and base.endswith(YAML_SUFFIXES):
            base = base.rpartition(".")[0]
        name = (
            base if equals or re.fullmatch(CLIENT_PATTERN, base) else "-".join(re.findall(r"[a-z0-9]+(?:[._][a-z0-9]+)*", base))
        )
        if not re.fullmatch(CLIENT_PATTERN, name):
            raise ValueError(f"{text!r} gives no name for a client (small letters, digits, and single - . _ between them)")
        return cls(name=name[:64].rstrip("-._"), program=path or label)


class Cell(Model):
    """One client on one link with one transfer, and what is expected of it."""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    expectation: Expectation = Expectation()

    @property
    def id(self) -> str:
        """CLIENT--TOPOLOGY--TRANSFER[--KIND], as `lab run` takes it."""
        # The names are made from the models, so the module that makes them stands on this one.
        from lab.spec.cell import format_cell_name

        return format_cell_name(self.client.name, self.topology.name, self.transfer, self.expectation.named)

    @property
    def link_direction(self) -> LinkDirection:
        """The way the content goes."""
        return self.topology.link.direction("down" if self.transfer.direction == "get" else "up")

    @property
    def needed_byte_s(self) -> float | None:
        """What the link must carry so that the client can be seen to break its promise; None where nothing is limited."""
        limit = self.transfer.limit_byte_s
        if limit is None:
            return None
        room = 1 + self.expectation.tolerance.value
        return limit * (max(room, self.expectation.bound or 0.0) if self.expectation.kind == "burst" else room)

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if problem := self.expectation.problem(self.transfer):
            raise ValueError(problem)
        if self.expectation.kind == "fill" and self.link_direction.rate is None:
            raise ValueError(f"the link of {self.topology.name} has no rate that could be filled")
        return self


def first_problem(problem: ValueError) -> str:
    """The bare sentence of a ValueError, pydantic's wrapping taken off."""
    from pydantic import ValidationError

    if not isinstance(problem, ValidationError):
        return str(problem)
    return problem.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
