"""The wiring of a topology's hosts: one host or two, families of addresses, and the server's name (ADR 0046). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from lab.model.base import SLUG_PATTERN, Model
from lab.model.impairments import form_of
from lab.model.link import Link
from lab.model.units import Duration

Ip = Literal[4, 6, "both"]
"""The families under which the server's name is known."""
DnsAnswer = Literal["address", "failure", "silence"]
DnsKind = Literal["a", "aaaa"]
# A resolver asks again after 5 s, and gives up after two rounds (resolv.conf(5)).
_LONGEST = Duration.parse("30 s")


def _some_time(value: Duration) -> Duration:
    if not 0 < value.ns <= _LONGEST.ns:
        raise ValueError(f"{value} is out of range (more than 0, at most {_LONGEST})")
    return value


def _at_most(value: Duration) -> Duration:
    if value > _LONGEST:
        raise ValueError(f"{value} is out of range (at most {_LONGEST})")
    return value


_Wait = Annotated[Duration, AfterValidator(_at_most)]


class SlowerIpv6(Model):
    """IPv6 that takes another way, which is longer."""

    slower: Annotated[Duration, AfterValidator(_some_time)] = Field(
        description="the time that each packet of IPv6 to the server takes on top of the link's delay; answers take the link's"
    )


Ipv6State = Literal["open", "dead", "unreachable"]
Ipv6 = Annotated[Annotated[Ipv6State, Tag("<text>")] | Annotated[SlowerIpv6, Tag("<mapping>")], Discriminator(form_of)]


class DnsLookup(Model):
    """The answers to one kind of question."""

    delay: _Wait | None = Field(None, description="time from the question to the answer; null: that of `dns`")
    answer: DnsAnswer = Field(
        "address",
        description="`address`; the code SERVFAIL with `failure`; nothing with `silence`, so that the asking side waits",
    )


class Dns(Model):
    """A resolver on the client's side of the link. Without one, the hosts have each other's names in a file."""

    delay: _Wait = Field(Duration(0), description="time from a question to its answer")
    a: DnsLookup = Field(DnsLookup(), description="questions for an IPv4 address that differ")
    aaaa: DnsLookup = Field(DnsLookup(), description="questions for an IPv6 address that differ")

    def lookup(self, kind: DnsKind) -> tuple[Duration, DnsAnswer]:
        """The delay and the answer of that kind of question."""
        own = self.a if kind == "a" else self.aaaa
        return self.delay if own.delay is None else own.delay, own.answer


JUDGED: Literal["link"] = "link"
"""The place on a path of the topology's own link, which is the judged one."""
_TAKEN = frozenset({JUDGED, "client", "path", "router", "server", "wire"})
_MOST_NODES = 7
# A host's name has at most 64 characters, some of them the lab's (gethostname(2)).
_LONGEST_NODE = 32
_LONGEST_IDLE = Duration.parse("60 min")
_SECOND_NS = 1_000_000_000


def _whole_seconds(value: Duration) -> Duration:
    if value.ns % _SECOND_NS or not 0 < value.ns <= _LONGEST_IDLE.ns:
        raise ValueError(f"{value} is out of range: a NAT counts full seconds (1 s to {_LONGEST_IDLE})")
    return value


_IdleTime = Annotated[Duration, AfterValidator(_whole_seconds)]


class Nat(Model):
    """A router that hides the client behind its own address, and forgets a connection that is idle for too long."""

    tcp_idle: _IdleTime = Field(
        Duration.parse("60 s"),
        description="idle time after which a TCP connection is forgotten: its packets are dropped; default: 60 s",
    )
    udp_idle: _IdleTime = Field(
        Duration.parse("30 s"),
        description="idle time after which answers to a UDP port are dropped; default: 30 s",
    )


def _node_name(value: str) -> str:
    if len(value) > _LONGEST_NODE or not re.fullmatch(SLUG_PATTERN, value):
        raise ValueError(f"{value[:80]!r} is not a name for a node ({_LONGEST_NODE} small letters, digits, single - . _ at most)")
    return value


class PathNode(Model):
    """A node on the path from client to server: another link, or a NAT."""

    name: Annotated[str, AfterValidator(_node_name)] = Field(description="name of the node, in results and problems")
    link: Link | None = Field(None, description="another shaped hop, as `link`, without `mtu`, `hidden_mtu`, `udp`, `duplicate`")
    nat: Nat | None = Field(None, description="a NAT that hides what is on the client's side of it; `{}` for its defaults")

    @property
    def host(self) -> str:
        """The name of its namespace."""
        return f"node-{self.name}"

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if (self.link is None) == (self.nat is None):
            raise ValueError(f"node {self.name} is either a link or a nat (write one of them)")
        if self.link and not self.link.shaped:
            raise ValueError(f"the link of node {self.name} asks for nothing (set rate or rtt)")
        if self.link and not passes_all_alike(self.link):
            raise ValueError(f"the link of node {self.name} cannot have an mtu, hidden_mtu, udp or duplicate (leave them out)")
        return self


def passes_all_alike(link: Link) -> bool:
    """True if it takes frames of 1500 bytes, of all kinds, and makes none of them two: theory knows what such a path carries."""
    sides = [link.direction(side) for side in ("up", "down")]
    return link.mtu == Link().mtu and not any(side.has_hops or side.duplicate.value for side in sides)


Path = tuple[
    Annotated[Annotated[Literal["link"], Tag("<text>")] | Annotated[PathNode, Tag("<mapping>")], Discriminator(form_of)], ...
]
"""From client to server, with the judged link at its place."""


ONLY_LINK: Path = (JUDGED,)


def path_problem(path: Path) -> str:
    """The reason why there is no such path; empty if there is."""
    names = [each.name for each in path if isinstance(each, PathNode)]
    if path.count(JUDGED) != 1:
        return "`link`, the judged one, is on a path exactly once"
    if len(names) > _MOST_NODES:
        return f"a path has at most {_MOST_NODES} nodes besides the link"
    if taken := sorted({name for name in names if name in _TAKEN or names.count(name) > 1}):
        return f"{', '.join(taken)} is the name of another node or host"
    return ""


@dataclass(frozen=True)
class Wiring:
    """The part of a topology that is made when its hosts are, and stays as it is."""

    same_host: bool = False
    ip: Ip = 4
    ipv6: Ipv6 = "open"
    dns: Dns | None = None
    path: Path = ONLY_LINK

    @property
    def nodes(self) -> tuple[PathNode, ...]:
        """The nodes of the path besides the judged link."""
        return tuple(each for each in self.path if isinstance(each, PathNode))

    @property
    def nats(self) -> dict[PathNode, Nat]:
        """The NATs among the nodes."""
        return {node: node.nat for node in self.nodes if node.nat}

    @property
    def hops(self) -> Iterator[tuple[str, str]]:
        """Pairs of namespaces that a wire joins, from client to server."""
        between = ["router" if isinstance(each, str) else each.host for each in self.path]
        return pairwise(["client", *between, "server"])

    @property
    def has_ipv6(self) -> bool:
        """True if packets of IPv6 pass between the hosts."""
        return self.ip != 4


PLAIN = Wiring()
"""Client and server apart, over IPv4."""
