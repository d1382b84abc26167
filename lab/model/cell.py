"""A cell: one client, one topology, one transfer, and the expectation."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from lab.model.base import Model
from lab.model.cell_name import format_cell_name
from lab.model.endpoint import LAB_PROTOCOLS, PROTOCOL_WORDS, protocol_words
from lab.model.errors import did_you_mean
from lab.model.link import LinkDirection, carrier
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer


class Cell(Model):
    """One client on one topology with one transfer, and the expectation that a PASS confirms."""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    expectation: Expectation = Expectation()

    @property
    def id(self) -> str:
        """The cell's name: CLIENT--TOPOLOGY--TRANSFER[--KIND]."""
        return format_cell_name(self.client.name, self.topology.name, self.transfer, self.expectation.named)

    @property
    def link_direction(self) -> LinkDirection:
        """The direction of the link that carries the content."""
        return self.topology.link.direction(carrier(self.transfer.direction))

    @property
    def unserved(self) -> str:
        """The reason why the network's server cannot take part in the transfer; empty if it can."""
        protocol, endpoint = self.transfer.protocol, self.topology.served_by
        name = protocol_words(protocol)
        if endpoint is None:
            if protocol in LAB_PROTOCOLS:
                return ""
            hint = "" if protocol in PROTOCOL_WORDS else did_you_mean(protocol, LAB_PROTOCOLS)
            return f"no server of the lab serves {name}{hint}; an endpoint that does is named by {self.topology.name}@ENDPOINT"
        if protocol not in endpoint.urls:
            return f"endpoint {endpoint.name} does not serve {name} (it serves {', '.join(endpoint.urls)})"
        if not endpoint.serves(protocol, self.transfer.direction):
            return f"endpoint {endpoint.name} takes no {self.transfer.direction} over {name}"
        return (
            ""
            if self.transfer.plain
            else f"endpoint {endpoint.name} is asked for one file of announced size (no set, chunked, sink or repeat)"
        )

    @property
    def needed_byte_s(self) -> float | None:
        """Bytes per second that the link must exceed, so that a client can break its limit; None without a limit."""
        limit = self.transfer.limit_byte_s
        if limit is None:
            return None
        room = 1 + self.expectation.tolerance.value
        return limit * (max(room, self.expectation.bound or 0.0) if self.expectation.kind == "burst" else room)

    def in_virtual_time(self) -> Self:
        """The cell as virtual time runs it: see `Topology.in_virtual_time`."""
        return self.model_copy(update={"topology": self.topology.in_virtual_time()})

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if problem := self.expectation.problem(self.transfer):
            raise ValueError(problem)
        if self.expectation.kind == "fill" and self.link_direction.rate is None:
            raise ValueError(f"the link of {self.topology.name} has no rate to fill")
        return self
