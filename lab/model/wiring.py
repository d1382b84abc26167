"""The wiring of a topology's hosts: one host or two, families of addresses, and the server's name (ADR 0046). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from lab.model.base import Model
from lab.model.units import Duration

Ip = Literal[4, 6, "both"]
"""The families under which the server's name is known."""
DnsAnswer = Literal["address", "failure", "silence"]
DnsKind = Literal["a", "aaaa"]
# A resolver asks again after 5 s, and gives up after two rounds (resolv.conf(5)).
_LONGEST_LOOKUP = Duration.parse("30 s")


class SlowerIpv6(Model):
    """IPv6 that takes another way, which is longer."""

    slower: Annotated[Duration, Field(gt=Duration(0), le=_LONGEST_LOOKUP)] = Field(
        description="the time that each packet of IPv6 to the server takes on top of the link's delay; answers take the link's"
    )


Ipv6 = Literal["open", "dead", "unreachable"] | SlowerIpv6


class DnsLookup(Model):
    """The answers to one kind of question."""

    delay: Annotated[Duration, Field(le=_LONGEST_LOOKUP)] | None = Field(
        None, description="time from the question to the answer; null: as for the other kind"
    )
    answer: DnsAnswer = Field(
        "address",
        description="`address`; the code SERVFAIL with `failure`; nothing with `silence`, so that the asking side waits",
    )


class Dns(Model):
    """A resolver on the client's side of the link. Without one, the hosts have each other's names in a file."""

    delay: Annotated[Duration, Field(le=_LONGEST_LOOKUP)] = Field(Duration(0), description="time from a question to its answer")
    a: DnsLookup = Field(DnsLookup(), description="questions for an IPv4 address that differ")
    aaaa: DnsLookup = Field(DnsLookup(), description="questions for an IPv6 address that differ")

    def lookup(self, kind: DnsKind) -> DnsLookup:
        """The answers to that kind of question, with their delay."""
        own = self.a if kind == "a" else self.aaaa
        return own if own.delay is not None else own.model_copy(update={"delay": self.delay})


@dataclass(frozen=True)
class Wiring:
    """The part of a topology that is made when its hosts are, and stays as it is."""

    same_host: bool = False
    ip: Ip = 4
    ipv6: Ipv6 = "open"
    dns: Dns | None = None

    @property
    def has_ipv6(self) -> bool:
        """True if packets of IPv6 pass between the hosts."""
        return self.ip != 4


PLAIN = Wiring()
"""Client and server apart, over IPv4."""
