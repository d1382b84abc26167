"""A path of several links as one link, for theory. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab.link import theory
from lab.model.cell import Cell
from lab.model.link import Link, LinkDirection, LinkOverride, carrier
from lab.model.topology import Topology
from lab.model.units import BitRate, Duration, Ratio
from lab.model.wiring import PathNode


def as_one_link(topology: Topology) -> Link:
    """The path as one link: in each direction what passes its last port at most, with the queue of the slowest, and all delays.

    A link that loses packets behind the slowest passes fewer than that lets through. A ping takes its own time on each wire; the
    one link has one wire, so the others' time is part of its delay.
    """
    links = [link_of(node, topology) for node in topology.path]
    ways = {
        "up": _one_way([link.direction("up") for link in links if link]),
        "down": _one_way([link.direction("down") for link in reversed(links) if link]),
    }
    rtt = Duration(sum(way.delay.ns for way in ways.values() if way.delay))
    return Link.model_validate({"rtt": rtt, **ways})


def link_of(node: PathNode | str, topology: Topology) -> Link | None:
    """The link of that part of the topology's path; None for a NAT."""
    return node.link if isinstance(node, PathNode) else topology.link


def _one_way(sides: Sequence[LinkDirection]) -> LinkOverride:
    """`sides` in the order in which a packet meets them."""
    slowest: LinkDirection | None = None
    rate_bit_s, share = math.inf, 1.0
    for side in reversed(sides):
        if side.rate and side.rate.bit_s * share < rate_bit_s:
            slowest, rate_bit_s = side, side.rate.bit_s * share
        share *= 1 - side.loss.value
    others = [theory.serialisation(theory.PING_FRAME_BYTES, side.rate).ns for side in sides if side is not slowest]
    return LinkOverride(
        delay=Duration(sum(side.delay.ns for side in sides) + sum(others)),
        rate=BitRate(round(rate_bit_s)) if slowest else None,
        queue=slowest.queue if slowest else None,
        loss=Ratio(1 - share) if share < 1 else None,
        jitter=Duration(sum(side.jitter.ns for side in sides)),
    )


def carrying(cell: Cell) -> LinkDirection:
    """The direction of the path that carries the cell's content, as one link."""
    if not cell.topology.wiring.nodes:
        return cell.link_direction
    return as_one_link(cell.topology).direction(carrier(cell.transfer.direction))
