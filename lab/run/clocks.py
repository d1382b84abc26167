"""The choice of a cell's clock: virtual, unless the cell asks about a property of the machine itself."""

from __future__ import annotations

from collections.abc import Sequence

from lab.clients.registry import userland_of
from lab.model.cell import Cell
from lab.model.clock import Clock, ClockChoice
from lab.model.errors import NotSupported
from lab.model.obeyed import real_time_lacks
from lab.model.transfer import ClientSpec
from lab.servers.bundle import ServerName


def needs_real_time(cell: Cell) -> str:
    """The reason why virtual time cannot answer this cell, in words; empty where it can."""
    if cell.expectation.bounded and cell.expectation.figure.needs == "processor":
        return "CPU time in virtual time is only what its model of a processor charges"
    if cell.transfer.requests:
        return "requests per second are limited by the processor, which takes no time in virtual time"
    if cell.transfer.limit is None and cell.link_direction.rate is None:
        return "nothing limits this transfer but the machine itself"
    if is_windows_name(cell.client):
        return "a Windows program has not been tried in virtual time"
    return ""


def needs_virtual_time(cell: Cell) -> str:
    """The part of a cell that real time lacks, as a clause: "train has a schedule"; empty where it lacks nothing."""
    if what := real_time_lacks(cell.topology):
        return f"{cell.topology.name} {what}"
    if cell.transfer.protocol == "h3":
        return "HTTP/3 has a server from a userland"
    return f"{cell.client.name} has a userland" if userland_of(cell.client) else ""


def servers_for(cells: Sequence[Cell]) -> set[ServerName]:
    """The servers that these cells talk to, where a machine is theirs alone."""
    own = (cell for cell in cells if cell.topology.endpoint is None)
    return {"sshd" if cell.transfer.protocol == "sftp" else "nginx" for cell in own}


def is_windows_name(client: ClientSpec) -> bool:
    return client.program.lower().endswith(".exe")


def clock_for(cells: Sequence[Cell], asked: ClockChoice) -> Clock:
    """The clock that cells run by together.

    Raises NotSupported where the clock that was asked for has no answer, or the network's server does not serve the transfer.
    """
    if found := next(((cell, why) for cell in cells if (why := cell.unserved)), None):
        raise NotSupported(f"{found[0].id}: {found[1]}")
    if asked == "real":
        if found := next(((cell, what) for cell in cells if (what := needs_virtual_time(cell))), None):
            cell, what = found
            why = f"{cell.id}: {what}, which runs in virtual time only"
            raise NotSupported(why, remedy="--clock virtual")
        return "real"
    reason = next((f"{cell.id}: {reason}" for cell in cells if (reason := needs_real_time(cell))), "")
    if reason and asked == "virtual":
        raise NotSupported(reason, remedy="--clock real")
    if reason and (what := next(filter(None, map(needs_virtual_time, cells)), "")):
        raise NotSupported(
            f"{reason}, and {what}, which runs in virtual time only", remedy="ask without one of them, or give the link a rate"
        )
    return "real" if reason else "virtual"
