"""The userlands of the hosts of cells: the command line's, the client's own, those of the topology, and h3's server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from lab.assets.userlands import Userland
from lab.assets.userlands import get as get_userland
from lab.clients.registry import userland_of
from lab.hosts.virtual.path import NAT_USERLAND
from lab.model.cell import Cell
from lab.model.endpoint import EndpointFile
from lab.model.errors import NotSupported, UsageProblem
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec
from lab.model.userland import H3_SERVER, Http3Server, TopologyUserlands, Userlands
from lab.model.wiring import Wiring
from lab.servers.aioquic import PACKAGE as AIOQUIC_PACKAGE

_LEAST_NGINX = (1, 25)


def userlands_for(cells: Sequence[Cell], asked: Userlands) -> Userlands:
    """The userlands of cells that share one machine. Raises NotSupported where they need different ones, and as `one_cell`."""
    found = {one_cell(cell.client, cell.topology, asked, http3=cell.transfer.protocol == "h3") for cell in cells}
    if len(found) > 1:
        names = " and ".join(sorted({each.client or "the machine" for each in found}))
        raise NotSupported(f"{cells[0].id} and {cells[-1].id} need userlands of {names}, and share one machine")
    return found.pop()


def one_cell(client: ClientSpec | None, topology: Topology, asked: Userlands, *, http3: bool) -> Userlands:
    """The userlands for one client. Raises UsageProblem where the client is of another userland than `asked`."""
    own = userland_of(client) if client else ""
    if client and own and asked.client not in ("", own):
        raise UsageProblem(
            f"{client.name} is of the userland {own}, and --userland says {asked.client}",
            remedy="name a client without a userland",
        )
    named = topology.userlands or TopologyUserlands()
    server = asked.server or named.server
    if endpoint := topology.served_by:
        if server not in ("", endpoint.userland_name):
            raise UsageProblem(
                f"endpoint {endpoint.name} runs {endpoint.userland_name or 'a program of this machine'}, and the server's "
                f"userland is to be {server}",
                remedy="leave the server's userland out",
            )
        server = endpoint.userland_name
    elif http3:
        server = server or H3_SERVER
    return Userlands(client=own or asked.client or named.client, server=server)


def refuse_in_real_time(what: str, asked: Userlands, client: ClientSpec | None = None, *, http3: bool = False) -> None:
    """Raise NotSupported for `what` where the command line or the client asks for a userland, or HTTP/3 needs one."""
    if any(asked):
        raise NotSupported(f"{what} runs in real time, where there are no userlands", remedy="leave --userland out")
    if client and userland_of(client):
        raise NotSupported(f"{what}: {client.name} has a userland, which runs in virtual time only", remedy="--clock virtual")
    if http3:
        raise NotSupported(
            f"{what}: HTTP/3 has a server from a userland, which runs in virtual time only", remedy="--clock virtual"
        )


def endpoint_of(cells: Sequence[Cell]) -> EndpointFile | None:
    """The endpoint of cells that share one machine. Raises NotSupported where they have different ones."""
    first, *more = (cell.topology.served_by for cell in cells)
    if any(each != first for each in more):
        raise NotSupported(f"{cells[0].id} and {cells[-1].id} have different endpoints, and share one machine")
    return first


def http3_server(cells: Iterable[Cell]) -> Http3Server | None:
    """The program that serves HTTP/3 to these cells; None where none of them speaks it."""
    own = (cell for cell in cells if cell.transfer.protocol == "h3" and cell.topology.endpoint is None)
    return next((http3_server_of(cell.topology) for cell in own), None)


def found_userlands(named: Userlands, say: Callable[[str], None], http3: Http3Server | None = None) -> Mapping[str, Userland]:
    """The userlands by host, built where that must be. Raises as `check_http3` where HTTP/3 is to be served."""
    found = {host: get_userland(name, say) for host, name in named._asdict().items() if name}
    if http3:
        check_http3(found.get("server"), http3)
    return found


def nodes_userlands(wiring: Wiring, say: Callable[[str], None]) -> Mapping[str, Userland]:
    """The userlands of the path's NATs by their nodes' hosts. A missing userland is built."""
    return {node.host: get_userland(NAT_USERLAND, say) for node in wiring.nats}


def http3_server_of(topology: Topology) -> Http3Server:
    return topology.userlands.http3 if topology.userlands else "nginx"


def check_http3(server: Userland | None, program: Http3Server) -> None:
    """Raise UsageProblem for a server's userland whose package of nginx is too old for HTTP/3, or that has no aioquic."""
    if program == "aioquic":
        if server and server.facts.packages and AIOQUIC_PACKAGE not in server.facts.packages:
            raise UsageProblem(
                f"the server's userland {server.name} has no {AIOQUIC_PACKAGE}", remedy=f"--userland server={H3_SERVER}"
            )
        return
    version = server.facts.packages.get("nginx", "") if server else ""
    numbers = [int(word) for word in re.findall(r"\d+", version)[:2]]
    if server and numbers and numbers < [*_LEAST_NGINX]:
        raise UsageProblem(
            f"the server's userland {server.name} has nginx {version}, and HTTP/3 needs 1.25",
            remedy=f"--userland server={H3_SERVER}",
        )
