"""Options that several subcommands share, and the parsing of quantities at the edge."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from lab.backend.agent.router import ROUTER_CHOICES, RouterChoice
from lab.backend.choose import BACKENDS
from lab.backend.choose import Backend as BackendName
from lab.errors import UsageProblem
from lab.judge.host import HostLimits
from lab.spec.models import Link
from lab.spec.units import BitRate, Duration, Ratio

T = TypeVar("T")


def quantity(parse: Callable[[str], T]) -> Callable[[str | T], T]:
    """A Typer parser: the type's own message becomes the usage error."""

    def convert(text: str | T) -> T:
        if not isinstance(text, str):
            return text  # the option's default
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    convert.__name__ = getattr(parse, "__qualname__", "value").split(".", maxsplit=1)[0].lower()
    return convert


def router_choice(text: str) -> RouterChoice:
    if text not in ROUTER_CHOICES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(ROUTER_CHOICES)}")
    return text  # type: ignore[return-value]


Router = Annotated[
    str,
    typer.Option(
        "--router", parser=router_choice, metavar="auto|kernel|uml", help="What shapes the link; auto prefers the kernel."
    ),
]


def backend_choice(text: str) -> BackendName:
    if text not in BACKENDS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(BACKENDS)}")
    return text  # type: ignore[return-value]


RealBackend = Annotated[
    str,
    typer.Option("--backend", parser=backend_choice, metavar="|".join(BACKENDS), help="What the hosts are made of."),
]
"""The hosts of a network that goes on after its command has ended. Virtual time has no such network."""


class AskedClock(StrEnum):
    """What `--clock` takes."""

    AUTO = "auto"
    VIRTUAL = "virtual"
    REAL = "real"


class AskedBackend(StrEnum):
    """What `--backend` takes where both clocks will do."""

    AUTO = "auto"
    VIRTUAL = "virtual"
    NAMESPACES = "namespaces"
    COMPOSE = "compose"
    VAGRANT = "vagrant"


Clock = Annotated[
    AskedClock,
    typer.Option(
        "--clock",
        help="auto is virtual time, but for CPU, requests and Windows, and with --backend or --router, which are real time.",
    ),
]
NetworkClock = Annotated[
    AskedClock,
    typer.Option("--clock", help="auto is real time; in virtual time nothing but the link takes any."),
]
"""Of a network that somebody asks for by hand."""
AnyBackend = Annotated[
    AskedBackend, typer.Option("--backend", help="What the hosts are made of; virtual is --clock virtual, the rest is real time.")
]
RunSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="In virtual time: the same seed, the same samples; 1 unless given."),
]
Price = Annotated[
    Duration | None,
    typer.Option(
        "--price",
        parser=quantity(Duration.parse),
        metavar="TIME",
        help="In virtual time: what a system call or page fault takes, e.g. 10us on a slow processor; 0.2us unless given.",
    ),
]


Rate = Annotated[BitRate | None, typer.Option(parser=quantity(BitRate.parse), metavar="RATE", help='e.g. 20mbit, "50 Mbit/s".')]
Rtt = Annotated[Duration, typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="Round trip, e.g. 40ms.")]
Loss = Annotated[Ratio, typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="Random loss each way, e.g. 1%.")]
Jitter = Annotated[Duration, typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="Jitter each way.")]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Makes the losses the same every time; in virtual time another one gives other packets."),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout, nothing else there.")]


Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Make a page of it too: one file, no network.")]
Wait = Annotated[
    Duration,
    typer.Option(
        parser=quantity(Duration.parse), metavar="TIME", help="How long another measurement on this machine is waited for."
    ),
]
WAIT = Duration.parse("10 min")
"""A person is told at once who measures and may leave; a CI job that comes second waits its turn."""
Beside = Annotated[
    bool,
    typer.Option("--beside", help="Measure beside others that say --beside too, and count none of them as a busy host."),
]

AnyHost = Annotated[
    bool,
    typer.Option("--any-host", help="Do not watch this machine: nothing is set aside, and a FAIL may be that of what else runs."),
]


def host_limits(any_host: bool) -> HostLimits | None:
    """What a Session is to hold this machine to; None where it is not to be watched."""
    return None if any_host else HostLimits()


def bare(command: list[str] | None) -> list[str]:
    """The command without the `--` that stands before it."""
    words = list(command or [])
    return words[1:] if words[:1] == ["--"] else words


def make_link(rate: BitRate | None, rtt: Duration, loss: Ratio, jitter: Duration, seed: int | None) -> Link:
    """A Link from options; UsageProblem in one line when they contradict each other."""
    try:
        return Link(rate=rate, rtt=rtt, loss=loss, jitter=jitter, seed=seed)
    except ValidationError as error:
        raise UsageProblem(f"this link cannot be: {error.errors()[0]['msg']}") from None
