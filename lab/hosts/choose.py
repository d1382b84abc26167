"""Real-time backends by name, and the labs of this user that outlive a command.

A backend is imported when it is used: most programs use none of them, or one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, get_args

from lab.hosts.agent.router import RouterChoice
from lab.hosts.host import LiveNetwork, Network
from lab.model.errors import UsageProblem

Backend = Literal["namespaces", "compose", "vagrant"]
BackendChoice = Literal["auto", "virtual", Backend]
"""auto: namespaces in real time; virtual: the clock decides, and there is no choice of hosts."""
BACKENDS: tuple[str, ...] = get_args(Backend)

_LIVE = ("namespaces", "compose")


def open_network(backend: Backend, *, router: RouterChoice = "auto", name: str = "") -> Network:
    """Start the hosts. Raises UsageProblem for what this machine does not have, LabFault when the machine refuses."""
    if backend not in BACKENDS:
        raise UsageProblem(f"unknown backend {backend!r}", remedy="use " + ", ".join(BACKENDS))
    found: Network = _module(backend).open_network(router=router, name=name)
    return found


def open_same_host(backend: Backend, *, name: str = "") -> LiveNetwork:
    """One host as client and server, in real time. Raises UsageProblem for a backend whose hosts are always apart."""
    if backend != "namespaces":
        raise UsageProblem(
            f"backend {backend} has client and server on hosts of their own", remedy="use --backend namespaces, or virtual time"
        )
    from lab.hosts.namespaces import network

    return network.open_same_host(name=name)


def open_live(backend: Backend, *, router: RouterChoice = "auto", name: str = "", same_host: bool = False) -> LiveNetwork:
    """Start the hosts of a network in which a person works, or with `same_host` the one host.

    Raises UsageProblem for a backend without such networks.
    """
    if same_host:
        return open_same_host(backend, name=name)
    if backend not in _LIVE:
        raise UsageProblem(
            f"a lab of backend {backend} ends with its command, and has no terminal",
            remedy="use lab run, lab calibrate or vagrant ssh",
        )
    found: LiveNetwork = _module(backend).open_network(router=router, name=name)
    return found


def labs() -> dict[str, Backend]:
    """Backends of this user's labs on this machine by name, including what is left of killed ones."""
    from lab.hosts.compose import project
    from lab.hosts.namespaces.launch import running_labs

    found: dict[str, Backend] = dict.fromkeys(project.labs(), "compose")
    return found | dict.fromkeys(running_labs(), "namespaces")


def attach(name: str) -> tuple[LiveNetwork, dict[str, Any]]:
    """A lab made by `lab up`, and its note. Raises LabFault for an unknown name, UsageProblem for a run's lab."""
    found: tuple[LiveNetwork, dict[str, Any]] = _module("compose" if _is_compose(name) else "namespaces").attach(name)
    return found


def take_down(name: str) -> None:
    """End a lab and remove everything it left. Idempotent."""
    from lab.hosts.compose.project import Project
    from lab.hosts.namespaces.launch import NamespaceLab

    if _is_compose(name):
        Project(name).down()
    else:
        NamespaceLab(name).shutdown()


def _is_compose(name: str) -> bool:
    """The engine is asked only about labs that are not namespaces, because each answer takes a process and a request."""
    from lab.hosts.compose import project
    from lab.hosts.namespaces.launch import running_labs

    return name not in running_labs() and name in project.labs()


def _module(backend: Backend) -> Any:
    return import_module(f"lab.hosts.{backend}.network")
