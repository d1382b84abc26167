"""What a link that nothing shapes is in virtual time: a wire."""

from __future__ import annotations

from lab.spec.models import Cell, Topology
from lab.spec.queue import Queue
from lab.spec.units import BitRate

WIRE = BitRate.parse("1 Gbit/s")
WIRE_QUEUE = Queue.parse("1000 packets")
"""What a Linux interface holds by default (txqueuelen)."""


def on_a_wire(cell: Cell) -> Cell:
    """The cell as virtual time runs it: where nothing shapes the link, it is a wire of 1 Gbit/s.

    A link that takes no time lets a burst of any size pass in none, and shows how a client divides by zero.
    """
    return cell.model_copy(update={"topology": with_wire(cell.topology)})


def with_wire(topology: Topology) -> Topology:
    """That topology in virtual time: `on_a_wire`."""
    if topology.link.shaped:
        return topology
    link = topology.link.model_copy(update={"rate": WIRE, "queue": WIRE_QUEUE})
    return topology.model_copy(update={"link": link, "description": f"{topology.name} in virtual time: a wire of {WIRE}."})
