"""Which figures of a cell mean something on its clock; the others are in its file and are not shown.

In virtual time a processor costs nothing but the price that the guest charges for system calls and page faults: CPU seconds and
requests per second are that model's, not the client's, and a link without a rate carries whatever the guest can copy. Memory is
counted in pages on both clocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.result.models import CellResult, DirectionName
from lab.spec.clock import Clock, clock_words

MIXED_CLOCKS = "these cells were measured on different clocks: virtual and real"


def cpu_is_real(cell: CellResult) -> bool:
    """Whether CPU seconds, and what is made of them, are those of a processor."""
    return cell.clock == "real"


def rate_is_real(cell: CellResult) -> bool:
    """Whether something that does not depend on the machine sets the pace: a limit, or the rate of the link that way."""
    way: DirectionName = "down" if cell.transfer.direction == "get" else "up"
    return cell.clock == "real" or cell.transfer.limit is not None or cell.topology.link.direction(way).rate is not None


def clocks_words(clocks: Iterable[Clock]) -> str:
    """`virtual time`, `virtual time and real time`."""
    return " and ".join(map(clock_words, dict.fromkeys(clocks)))
