"""Real-time backends by name, and the labs of this user that outlive a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from lab.hosts.agent.router import RouterChoice
from lab.hosts.compose import network as compose
from lab.hosts.compose import project
from lab.hosts.host import LiveNetwork, Network
from lab.hosts.namespaces import network as namespaces
from lab.hosts.namespaces.launch import NamespaceLab, running_labs
from lab.hosts.vagrant import network as vagrant
from lab.model.errors import UsageProblem

Backend = Literal["namespaces", "compose", "vagrant"]
BackendChoice = Literal["auto", "virtual", Backend]
"""auto: namespaces in real time; virtual: the clock decides, and there is no choice of hosts."""
BACKENDS: tuple[str, ...] = get_args(Backend)

_LIVE: Mapping[str, Callable[..., LiveNetwork]] = {"namespaces": namespaces.open_network, "compose": compose.open_network}
_OPEN: Mapping[str, Callable[..., Network]] = {**_LIVE, "vagrant": vagrant.open_network}


def open_network(backend: Backend, *, router: RouterChoice = "auto", name: str = "") -> Network:
    """Start the hosts. Raises UsageProblem for what this machine does not have, LabFault when the machine refuses."""
    if backend not in _OPEN:
        raise UsageProblem(f"unknown backend {backend!r}", remedy="use " + ", ".join(BACKENDS))
    return _OPEN[backend](router=router, name=name)


def open_same_host(backend: Backend, *, name: str = "") -> LiveNetwork:
    """One host as client and server, in real time. Raises UsageProblem for a backend whose hosts are always apart."""
    if backend != "namespaces":
        raise UsageProblem(
            f"backend {backend} has client and server on hosts of their own", remedy="use --backend namespaces, or virtual time"
        )
    return namespaces.open_same_host(name=name)


def open_live(backend: Backend, *, router: RouterChoice = "auto", name: str = "", same_host: bool = False) -> LiveNetwork:
    """As `open_network`, or `open_same_host`, for a network in which a person works.

    Raises UsageProblem for a backend without such networks.
    """
    if same_host:
        return open_same_host(backend, name=name)
    if backend not in _LIVE:
        raise UsageProblem(
            f"a lab of backend {backend} ends with its command, and has no terminal",
            remedy="use lab run, lab calibrate or vagrant ssh",
        )
    return _LIVE[backend](router=router, name=name)


def labs() -> dict[str, Backend]:
    """Backends of this user's labs on this machine by name, including what is left of killed ones."""
    found: dict[str, Backend] = dict.fromkeys(project.labs(), "compose")
    return found | dict.fromkeys(running_labs(), "namespaces")


def attach(name: str) -> tuple[LiveNetwork, dict[str, Any]]:
    """A lab made by `lab up`, and its note. Raises LabFault for an unknown name, UsageProblem for a run's lab."""
    return compose.attach(name) if _is_compose(name) else namespaces.attach(name)


def take_down(name: str) -> None:
    """End a lab and remove everything it left. Idempotent."""
    if _is_compose(name):
        project.Project(name).down()
    else:
        NamespaceLab(name).shutdown()


def _is_compose(name: str) -> bool:
    """The engine is asked only about labs that are not namespaces, because each answer takes a process and a request."""
    return name not in running_labs() and name in project.labs()
