"""`lab search limit|rtt|loss`: up to which limit, round trip or loss a client keeps its promise, in few cells of virtual time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from lab.cli.options import Json, Rate, Rtt, RunSeed, make_link, quantity, refuse_settings, transfer_of
from lab.clients.registry import parse_client, resolve_for
from lab.judge.threshold import LEAST_WIDTH, Goal, rounded
from lab.model.answer import Answer
from lab.model.errors import UsageProblem
from lab.model.load import load_topology
from lab.model.obeyed import refuse
from lab.model.results import exit_code
from lab.model.threshold import VARIABLES, Variable
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Ratio, Size
from lab.run.measured import measured_run
from lab.run.progress import Silent
from lab.run.settings import choose
from lab.run.threshold import LOOKS, Search, limit_cell, link_cell, most_limit_byte_s, run_search
from reports.files import PAGE, make_reports

group = typer.Typer(name="search", help="Up to which limit, round trip or loss a client keeps its promise.", no_args_is_help=True)

WIDTH = Ratio(0.02)
BUDGET = 15
_LINE_S = 10
"""A file without --size takes a full line this long, in seconds: the start of a connection is then a small part of it."""
_LIMIT_RANGE = 100
"""By this factor the default range of limits begins below its end."""

_RTT, _LOSSY_SIZE = Duration.parse("20 ms"), Size.parse("1 MB")

Client = Annotated[str, typer.Argument(metavar="CLIENT", help="A name, a path, NAME=PATH or curl@VERSION.")]
Network = Annotated[str, typer.Option("--topology", metavar="NETWORK", help="A network's name or YAML file.")]
How = Annotated[
    str, typer.Option("--transfer", metavar="PROTOCOL-DIRECTION", help="http1, https1, h2, h3 or sftp; get or put: h2-put.")
]
Width = Annotated[
    Ratio,
    typer.Option("--width", parser=quantity(Ratio.parse), metavar="SHARE", help="How wide the interval may be at its end."),
]
Budget = Annotated[int, typer.Option("--budget", min=2, max=100, help="The most cells to run.")]
SizeOption = Annotated[
    Size | None,
    typer.Option("--size", parser=quantity(Size.parse), metavar="SIZE", help="The file. Default: 10 s of the line."),
]


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command("limit")
def limit(
    client: Client,
    topology: Network,
    transfer: How = "http1-get",
    lasts: Annotated[
        Duration, typer.Option("--for", parser=quantity(Duration.parse), metavar="TIME", help="How long a transfer takes.")
    ] = Duration.parse("4 s"),
    tolerance: Annotated[
        Ratio, typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="How far from the limit the rate may be.")
    ] = Ratio(0.05),
    start: Annotated[
        ByteRate | None,
        typer.Option("--from", parser=quantity(ByteRate.parse), metavar="LIMIT", help="Default: a hundredth of --to."),
    ] = None,
    to: Annotated[
        ByteRate | None,
        typer.Option("--to", parser=quantity(ByteRate.parse), metavar="LIMIT", help="Default: the most that the line can judge."),
    ] = None,
    width: Width = WIDTH,
    budget: Budget = BUDGET,
    seed: RunSeed = None,
    json_output: Json = False,
) -> None:
    """Find the highest limit that a client keeps within the tolerance on a network.

    Exit code 0: an answer. 2: usage. 3: not narrowed within the budget, or not one threshold. 4: the lab was at fault.
    """
    spec, network, base = parse_client(client), load_topology(topology), transfer_of(transfer, Size(1))
    refuse("search limit", network, "virtual")
    most = most_limit_byte_s(network, base.direction, tolerance)
    if most is None and to is None:
        raise UsageProblem(f"{network.name} has no rate, so nothing says how far to search", remedy="give --to")
    if most is not None and to is not None and to.byte_s > most:
        why = f"--to {to} is more than {network.name} can judge"
        raise UsageProblem(why, remedy=f"at most {ByteRate(int(most))}, or a faster network")
    high = float(to.byte_s) if to else rounded(most or 0.0)
    low = float(start.byte_s) if start else rounded(high / _LIMIT_RANGE)
    limited = base.model_copy(update={"limit": ByteRate(max(1, round(low)))})
    expectation = _expectation(limited, "limit", tolerance=tolerance)
    variable = VARIABLES["limit"]
    search = Search(
        variable=variable,
        client=spec,
        topology=network,
        transfer=None,
        expectation=expectation,
        asks=f"{spec.name} keeps its limit within {tolerance} over {network.name}",
        goal=_goal(low, high, width, budget, variable),
        cell=limit_cell(spec, network, base, lasts, expectation),
        way=transfer,
    )
    _run(search, limited, seed, json_output)


@group.command("rtt")
def rtt(
    client: Client,
    topology: Network = "",
    rate: Rate = None,
    transfer: How = "http1-get",
    size: SizeOption = None,
    share: Annotated[
        Ratio, typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="The part of the line that it must fill.")
    ] = Ratio(0.95),
    start: Annotated[
        Duration, typer.Option("--from", parser=quantity(Duration.parse), metavar="TIME", help="The shortest round trip.")
    ] = Duration.parse("1 ms"),
    to: Annotated[
        Duration, typer.Option("--to", parser=quantity(Duration.parse), metavar="TIME", help="The longest.")
    ] = Duration.parse("600 ms"),
    width: Width = WIDTH,
    budget: Budget = BUDGET,
    seed: RunSeed = None,
    json_output: Json = False,
) -> None:
    """Find the round trip up to which a client without a limit fills a share of the line.

    The share is that of the complete body, so the start of the connection counts; a larger --size makes it count for less.
    Exit code 0: an answer. 2: usage. 3: not narrowed within the budget, or not one threshold. 4: the lab was at fault.
    """
    network = _network(topology, rate, Duration(0))
    refuse("search rtt", network, "virtual")
    moved = transfer_of(transfer, size or _line_size(network))
    expectation = _expectation(moved, "fill", bound=share.value)
    asks = f"fills {share} of {network.name}"
    _search_link(
        "rtt", parse_client(client), network, moved, expectation, asks, (start.s, to.s), width, budget, seed, json_output
    )


@group.command("loss")
def loss(
    client: Client,
    topology: Network = "",
    rate: Rate = None,
    rtt: Rtt = _RTT,
    transfer: How = "http1-get",
    size: Annotated[Size, typer.Option(parser=quantity(Size.parse), metavar="SIZE", help="The file.")] = _LOSSY_SIZE,
    within: Annotated[
        Duration,
        typer.Option(parser=quantity(Duration.parse), metavar="TIME", help="The mean time in which it must be there, intact."),
    ] = Duration.parse("1 min"),
    start: Annotated[
        Ratio, typer.Option("--from", parser=quantity(Ratio.parse), metavar="SHARE", help="The least loss each way.")
    ] = Ratio(0.001),
    to: Annotated[
        Ratio,
        typer.Option(
            "--to",
            parser=quantity(Ratio.parse),
            metavar="SHARE",
            help="The most. Above 12 % a link may fail its calibration, above 20 % every link does.",
        ),
    ] = Ratio(0.2),
    width: Width = WIDTH,
    budget: Budget = BUDGET,
    seed: RunSeed = None,
    json_output: Json = False,
) -> None:
    """Find the random loss up to which a client delivers a file intact, by retries and resumption of its own, within a time.

    Exit code 0: an answer. 2: usage. 3: not narrowed within the budget, or not one threshold. 4: the lab was at fault.
    """
    if topology and rtt != _RTT:
        refuse_settings(topology, rtt=rtt)
    network = _network(topology, rate, rtt)
    refuse("search loss", network, "virtual")
    moved = transfer_of(transfer, size)
    expectation = _expectation(moved, "wall", bound=within.s)
    asks = f"delivers {size} intact within {within} over {network.name}"
    ends = (start.value, to.value)
    _search_link("loss", parse_client(client), network, moved, expectation, asks, ends, width, budget, seed, json_output)


def _search_link(
    name: str,
    client: ClientSpec,
    network: Topology,
    moved: Transfer,
    expectation: Expectation,
    asks: str,
    ends: tuple[float, float],
    width: Ratio,
    budget: int,
    seed: int | None,
    json_output: bool,
) -> None:
    variable = VARIABLES[name]
    search = Search(
        variable=variable,
        client=client,
        topology=network,
        transfer=moved,
        expectation=expectation,
        asks=f"{client.name} {asks}",
        goal=_goal(*ends, width, budget, variable),
        cell=link_cell(client, network, moved, variable, expectation),
        way=f"{moved.protocol}-{moved.direction}",
    )
    _run(search, moved, seed, json_output)


def _run(search: Search, moved: Transfer, seed: int | None, json_output: bool) -> None:
    resolve_for(search.client, moved, search.id)

    def told(line: str) -> None:
        # With --json a line per trial goes where people look while it lasts.
        typer.echo(line, err=json_output)

    with choose("virtual", "auto", "auto", seed=seed).options() as common:
        options = replace(common, virtual_looks=LOOKS)
        name = f"search-{search.variable.name}"
        with measured_run(name, options, Silent(), reports=make_reports, planned=[search.id]) as session:
            answer = run_search(session, search, told)
    if json_output:
        page = str(session.run.path / PAGE)
        typer.echo(json.dumps({**answer.model_dump(mode="json"), "page": page, "exit_code": _code(answer)}, indent=2))
    else:
        typer.echo(answer.judged.reason)
        for note in answer.judged.notes:
            typer.echo(f"note: {note}")
        typer.echo(f"results: {session.run.path}")
    raise typer.Exit(_code(answer))


def _code(answer: Answer) -> int:
    return exit_code([answer.judged.name])


def _goal(low: float, high: float, width: Ratio, budget: int, variable: Variable) -> Goal:
    if not 0 < low < high:
        why = f"there is nothing to search from {variable.text(low)} to {variable.text(high)}"
        raise UsageProblem(why, remedy="--from must be above 0, because values are compared by their ratio, and below --to")
    if not LEAST_WIDTH <= width.value < 1:
        raise UsageProblem(f"--width {width} is out of range", remedy=f"from {Ratio(LEAST_WIDTH)} to less than 100 %")
    return Goal(low, high, width.value, budget, variable.step)


def _network(name: str, rate: BitRate | None, rtt: Duration) -> Topology:
    if bool(name) == (rate is not None):
        raise UsageProblem("the line to search on is not clear", remedy="give --topology or --rate, one of them")
    if rate is None:
        return load_topology(name)
    slug = f"line-{str(rate).replace(' ', '').replace('/s', '').lower()}"
    return Topology(name=slug, description=f"A line of {rate}.", link=make_link(rate, rtt, Ratio(0), Duration(0), None))


def _expectation(moved: Transfer, kind: str, *, tolerance: Ratio = Ratio(0.05), bound: float | None = None) -> Expectation:
    try:
        found = Expectation(kind=kind, tolerance=tolerance, bound=bound)
    except ValueError:
        what = f"--tolerance {tolerance}" if bound is None else f"a bound of {bound:g}"
        raise UsageProblem(f"{what} is out of range", remedy="more than 0, and a share below 100 %") from None
    if problem := found.problem(moved):
        raise UsageProblem(problem)
    return found


def _line_size(network: Topology) -> Size:
    rate = network.link.direction("down").rate
    if rate is None:
        raise UsageProblem(f"{network.name} has no rate, so there is no line to fill", remedy="give --rate")
    return Size(int(float(f"{rate.bit_s / 8 * _LINE_S:.2g}")))
