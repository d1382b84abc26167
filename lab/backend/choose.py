"""Backends by name: what a run, a person's lab and the clean-up ask for without knowing which one it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from lab.backend.agent.router import RouterChoice
from lab.backend.compose import network as compose
from lab.backend.compose import project
from lab.backend.namespaces import network as namespaces
from lab.backend.namespaces.launch import NamespaceLab, running_labs
from lab.backend.vagrant import network as vagrant
from lab.errors import UsageProblem

Backend = Literal["namespaces", "compose", "vagrant"]
BACKENDS: tuple[str, ...] = get_args(Backend)

# Those that live on without the command that made them, and in which a person has a terminal.
Lasting = namespaces.NamespaceNetwork | compose.ComposeNetwork
Live = Lasting | vagrant.VagrantNetwork


def open_network(backend: Backend, *, router: RouterChoice = "auto", name: str = "") -> Live:
    """Bring hosts up. Raises UsageProblem for what cannot be had here, LabFault when the machine refuses."""
    if backend not in BACKENDS:
        raise UsageProblem(f"unknown backend {backend!r}", remedy="use " + ", ".join(BACKENDS))
    if backend == "compose":
        return compose.open_network(router=router, name=name)
    if backend == "vagrant":
        return vagrant.open_network(router=router, name=name)
    return namespaces.open_network(router=router, name=name)


def open_lasting(backend: Backend, *, router: RouterChoice = "auto", name: str = "") -> Lasting:
    """As `open_network`, for a person to work in. Raises UsageProblem, before anything is brought up, where there is none."""
    if backend == "vagrant":
        raise UsageProblem(
            "a lab of virtual machines lasts as long as its command, and the lab has no terminal there",
            remedy="use lab run, lab calibrate or vagrant ssh",
        )
    network = open_network(backend, router=router, name=name)
    assert not isinstance(network, vagrant.VagrantNetwork)
    return network


def labs() -> dict[str, Backend]:
    """This user's labs on this machine, by name; what is left of killed ones included."""
    found: dict[str, Backend] = dict.fromkeys(project.labs(), "compose")
    return found | dict.fromkeys(running_labs(), "namespaces")


def _of(name: str) -> Backend:
    """The engine is asked only about labs that are not namespaces: each of its answers is a process and a request."""
    return "compose" if name not in running_labs() and name in project.labs() else "namespaces"


def attach(name: str) -> tuple[Lasting, dict[str, Any]]:
    """A lab that `lab up` made. Raises LabFault when there is none of that name, UsageProblem when it is a run's own."""
    if _of(name) == "compose":
        return compose.attach(name)
    return namespaces.attach(name)


def remember(network: Lasting, more: Mapping[str, object]) -> None:
    """Leave with the lab what `attach` tells to whoever comes later."""
    if isinstance(network, compose.ComposeNetwork):
        compose.remember(network, dict(more))
    else:
        namespaces.remember(network, dict(more))


def detach(network: Lasting) -> None:
    """`lab up` has finished: the lab lives on without the process that started it."""
    if isinstance(network, compose.ComposeNetwork):
        compose.detach(network)
    else:
        network.agent.detach()


def take_down(name: str) -> None:
    """A lab and everything it left. Idempotent."""
    if _of(name) == "compose":
        project.Project(name).down()
    else:
        NamespaceLab(name).shutdown()
