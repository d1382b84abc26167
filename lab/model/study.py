"""The comparison of a study: one transfer by one client over one link, with one property of the transfer varied."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from lab.model.base import Model
from lab.model.cell import Cell
from lab.model.cell_name import format_cell_name
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Ratio, Size


class BufferStudy(Model):
    """The same transfer with several sizes of the client's buffer; the slowest must reach `floor` of the fastest."""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    buffers: tuple[Size, ...]
    floor: Ratio = Ratio(0.9)

    @property
    def id(self) -> str:
        """The cells' common name, and `buffers` for what differs."""
        return f"{format_cell_name(self.client.name, self.topology.name, self.transfer)}--buffers"

    def cell(self, buffer: Size) -> Cell:
        """The cell of one buffer size; on its own it promises only that every transfer arrives complete."""
        transfer = self.transfer.model_copy(update={"buffer_size": buffer})
        return Cell(client=self.client, topology=self.topology, transfer=transfer, expectation=Expectation(kind="none"))

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.transfer.buffer_size is not None:
            raise ValueError("the buffer size is what the study varies: leave it out of the transfer")
        if len(self.buffers) < 2:
            raise ValueError(f"a comparison needs at least two buffer sizes, got {len(self.buffers)}")
        if len(set(self.buffers)) < len(self.buffers):
            raise ValueError("a buffer size is given twice")
        if any(buffer.bytes == 0 for buffer in self.buffers):
            raise ValueError("a buffer of 0 bytes moves nothing")
        if not 0 < self.floor.value < 1:
            raise ValueError(f"the floor {self.floor} is not between 0 % and 100 % (exclusive)")
        return self
