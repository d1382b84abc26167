"""A path of several links as one link, for theory. Pure."""

from __future__ import annotations

from lab.link import theory
from lab.model.cell import Cell
from lab.model.link import DirectionName, Link, LinkDirection, LinkOverride, carrier
from lab.model.topology import Topology
from lab.model.units import Duration


def as_one_link(topology: Topology) -> Link:
    """The path as one link: in each direction the least rate with the queue before it, and all delays.

    A ping takes its own time on each wire. The one link has one wire, so the others' time is part of its delay.
    """
    links = [topology.link, *(node.link for node in topology.wiring.nodes if node.link)]
    ways: dict[str, object] = {}
    total = Duration(0)
    for name in ("up", "down"):
        way: DirectionName = "up" if name == "up" else "down"
        sides = [link.direction(way) for link in links]
        slowest = min((side for side in sides if side.rate), key=lambda side: side.rate.bit_s if side.rate else 0, default=None)
        others = [theory.serialisation(theory.PING_FRAME_BYTES, side.rate) for side in sides if side is not slowest]
        delay = Duration(sum(side.delay.ns for side in sides) + sum(each.ns for each in others))
        total = Duration(total.ns + delay.ns)
        ways[name] = LinkOverride(delay=delay, rate=slowest.rate if slowest else None, queue=slowest.queue if slowest else None)
    return Link.model_validate({"rtt": total, **ways})


def carrying(cell: Cell) -> LinkDirection:
    """The direction of the path that carries the cell's content, as one link."""
    if not cell.topology.wiring.nodes:
        return cell.link_direction
    return as_one_link(cell.topology).direction(carrier(cell.transfer.direction))
