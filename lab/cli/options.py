"""Options that several subcommands share, and the parsing of quantities at the edge."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from lab.hosts.agent.router import RouterChoice
from lab.hosts.choose import Backend, BackendChoice
from lab.model.cell_name import parse_transfer
from lab.model.clock import ClockChoice
from lab.model.errors import UsageProblem
from lab.model.link import Link
from lab.model.transfer import Transfer
from lab.model.units import BitRate, Duration, Ratio, Size
from reports.no_verdict import NoVerdict

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


Router = Annotated[RouterChoice, typer.Option("--router", help="What shapes the link; auto prefers the kernel.")]
RealBackend = Annotated[Backend, typer.Option("--backend", help="Where hosts run: namespaces, compose or vagrant.")]
"""The hosts of a network that goes on after its command has ended. Virtual time has no such network."""
Clock = Annotated[
    ClockChoice,
    typer.Option(
        "--clock",
        help="auto is virtual time, except for CPU, requests, Windows, --backend and --router, which need real time.",
    ),
]
NetworkClock = Annotated[
    ClockChoice,
    typer.Option("--clock", help="auto is real time; in virtual time only the link takes time."),
]
"""The clock of a network that is brought up by hand."""
AnyBackend = Annotated[
    BackendChoice,
    typer.Option("--backend", help="Where hosts run; virtual is --clock virtual, the others are real time."),
]
RunSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="In virtual time: the same seed gives the same samples. Default: 1."),
]
Price = Annotated[
    Duration | None,
    typer.Option(
        "--price",
        parser=quantity(Duration.parse),
        metavar="TIME",
        help="In virtual time: the time a system call or page fault takes, e.g. 10us for a slow processor. Default: 0.2us.",
    ),
]

UserlandOf = Annotated[
    list[str] | None,
    typer.Option(
        "--userland",
        metavar="[HOST=]NAME|FOLDER",
        help="In virtual time: run the programs of this root folder, e.g. debian:13; client=... or server=... for one host.",
    ),
]

EndpointOf = Annotated[
    str,
    typer.Option(
        "--endpoint",
        metavar="NAME|FILE",
        help="In virtual time: this server in the place of the lab's own, as lab endpoints lists it, or a YAML file.",
    ),
]

Rate = Annotated[BitRate | None, typer.Option(parser=quantity(BitRate.parse), metavar="RATE", help='e.g. 20mbit, "50 Mbit/s".')]
Rtt = Annotated[Duration, typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="Round trip, e.g. 40ms.")]
Loss = Annotated[Ratio, typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="Random loss each way, e.g. 1%.")]
Jitter = Annotated[Duration, typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="Jitter each way.")]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Repeats the same losses; in virtual time another seed gives other packets."),
]
Json = Annotated[bool, typer.Option("--json", help="Print machine-readable output, and nothing else, on stdout.")]

JunitNoVerdict = Annotated[
    NoVerdict,
    typer.Option(
        "--junit-no-verdict",
        help="In junit.xml INVALID is an error and INCONCLUSIVE a skip; error or skip: both of them are, with the reason.",
    ),
]

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a page: one file that needs no network.")]
Wait = Annotated[
    Duration,
    typer.Option(
        parser=quantity(Duration.parse), metavar="TIME", help="How long to wait for another measurement on this machine."
    ),
]
Beside = Annotated[
    bool,
    typer.Option("--beside", help="Run at the same time as other labs that use this option; they do not count as host load."),
]

AnyHost = Annotated[
    bool,
    typer.Option("--any-host", help="Do not watch this machine: no transfer is set aside, and other programs may cause a FAIL."),
]


Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="An environment variable for the program, with your own value unless given; no other is passed on.",
    ),
]


def variables(given: Sequence[str] | None) -> dict[str, str]:
    """The variables that `--env` names. Raises UsageProblem for a variable that the caller does not have."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name or (not equals and name not in os.environ):
            what = f"--env {text}: there is no such variable" if name else f"--env {text} names no variable"
            raise UsageProblem(what, remedy="write --env NAME=VALUE, or --env NAME for one of your own")
        found[name] = value if equals else os.environ[name]
    return found


def refuse_settings(topology: str, **settings: object) -> None:
    """Raise UsageProblem for a setting of a link next to a topology, which has them all."""
    default = (None, Duration(0), Ratio(0.0))
    if topology and (name := next((name for name, value in settings.items() if value not in default), "")):
        raise UsageProblem(
            f"--{name} and the topology {topology} contradict each other: it has its own link", remedy="leave one of them out"
        )


def bare(command: list[str] | None) -> list[str]:
    """The command without the `--` that stands before it."""
    words = list(command or [])
    return words[1:] if words[:1] == ["--"] else words


def transfer_of(way: str, size: Size) -> Transfer:
    """The transfer that `--transfer` names: one complete file of that size. Raises UsageProblem."""
    if way.count("-") != 1:
        raise UsageProblem(f"--transfer {way} is not PROTOCOL-DIRECTION", remedy="e.g. http1-get, h2-put or sftp-get")
    return parse_transfer(f"{way}-{size.bytes}B")


def make_link(rate: BitRate | None, rtt: Duration, loss: Ratio, jitter: Duration, seed: int | None) -> Link:
    """A Link from options; UsageProblem in one line when they contradict each other."""
    try:
        return Link(rate=rate, rtt=rtt, loss=loss, jitter=jitter, seed=seed)
    except ValidationError as error:
        raise UsageProblem(f"this link cannot be: {error.errors()[0]['msg']}") from None
