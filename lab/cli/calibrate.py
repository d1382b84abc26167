"""`lab calibrate`: the distance of a shaped link from its ideal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from lab.cli.options import (
    AnyBackend,
    Beside,
    Jitter,
    Json,
    Loss,
    NetworkClock,
    Rate,
    Router,
    Rtt,
    Seed,
    Wait,
    make_link,
    refuse_settings,
)
from lab.cli.output import stdout_console
from lab.hosts.choose import open_network
from lab.hosts.host import Network
from lab.hosts.virtual.machine import derived_seed
from lab.hosts.virtual.network import open_network as open_virtual
from lab.judge.interval import mean_interval
from lab.model.errors import EXIT_INVALID
from lab.model.link import Link
from lab.model.load import load_topology
from lab.model.obeyed import real_time_lacks, refuse
from lab.model.results import Calibration, Interval
from lab.model.units import Duration, Ratio
from lab.net.calibrate import Tolerance, calibrate
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape
from lab.run.progress import Lines
from lab.run.settings import DEFAULT_SEED, WAIT, choose
from lab.servers.iperf3 import start as start_iperf3
from reports.text import CalibrationRow, calibration_table

CONFIDENCE = 0.90
# One has no interval.
LEAST_LOOKS, MOST_LOOKS = 2, 50


def register(app: typer.Typer) -> None:
    app.command("calibrate")(calibrate_command)


def calibrate_command(
    rate: Rate = None,
    rtt: Rtt = Duration(0),
    loss: Loss = Ratio(0.0),
    jitter: Jitter = Duration(0),
    seed: Seed = None,
    topology: Annotated[
        str, typer.Option("--topology", metavar="NETWORK", help="The link of this network, by name or YAML file.")
    ] = "",
    n: Annotated[int, typer.Option("-n", min=LEAST_LOOKS, max=MOST_LOOKS, help="How often to measure.")] = 5,
    congestion_control: Annotated[
        str | None, typer.Option("--cc", help="TCP congestion control of the probes. Default: the topology's, or cubic.")
    ] = None,
    clock: NetworkClock = "auto",
    router: Router = "auto",
    backend: AnyBackend = "auto",
    wait: Wait = WAIT,
    beside: Beside = False,
    json_output: Json = False,
) -> None:
    """Shape a link and measure it n times: goodput each way against the ideal, and the idle round trip.

    Exit code 4 when a mean is beyond the tolerance at which cells become INVALID: 1 % of goodput, 1 ms of RTT and twice the
    jitter.
    """
    refuse_settings(topology, rate=rate, rtt=rtt, loss=loss, jitter=jitter)
    wanted = load_topology(topology) if topology else None
    link = wanted.link if wanted else make_link(rate, rtt, loss, jitter, seed)
    if wanted and clock == backend == router == "auto" and real_time_lacks(wanted):
        clock = "virtual"
    where = choose(clock, backend, router, wait=wait, beside=beside)
    virtual = where.clock == "virtual"
    if wanted:
        refuse("calibrate", wanted, "virtual" if virtual else "real")
        refuse_settings(topology, seed=None if virtual else seed)
    number = DEFAULT_SEED if seed is None else seed
    progress = Lines()
    control = congestion_control or (wanted.congestion_control if wanted else "cubic")
    measure = partial(measure_link, link, n, congestion_control=control, seed=number, progress=progress)
    if virtual:
        looks = measure(opened=partial(open_virtual, seed=number))
    else:
        with where.options(real_now=True):
            looks = measure(opened=partial(open_network, where.backend, router=where.router))
    progress.clear()
    summary = {"clock": "virtual" if virtual else "real", **summarise(link, looks)}
    if json_output:
        typer.echo(json.dumps(summary, indent=2))
    else:
        calibration_table([row(link, looks)], stdout_console())
        if virtual:
            typer.echo(f"in virtual time, seed {number}: independent of the machine's speed and load")
    tolerance = Tolerance()
    if link.shaped and any(not look.ok for look in looks):
        beyond = sorted({problem for look in looks for problem in look.problems})
        typer.echo(f"lab: beyond tolerance ({tolerance.goodput:.1%}, {tolerance.rtt_ms:g} ms): {beyond[0]}", err=True)
        raise typer.Exit(EXIT_INVALID)


def measure_link(
    link: Link, n: int, *, opened: Callable[[], Network], congestion_control: str, seed: int, progress: Lines
) -> list[Calibration]:
    """n looks at a link of a lab made for the purpose."""
    progress.step("bringing the network up")
    network = opened()
    try:
        return looks_at(network, link, n, congestion_control=congestion_control, seed=seed, progress=progress)
    finally:
        network.close()


def looks_at(
    network: Network, link: Link, n: int, *, congestion_control: str, progress: Lines, seed: int = DEFAULT_SEED
) -> list[Calibration]:
    """n looks at one shaped link; in virtual time each begins by a seed of its own."""
    pin(network, congestion_control, link.mtu)
    assert_no_bypass(network)
    server = start_iperf3(network.server)
    shape(network, link)
    looks = []
    for number in range(n):
        progress.step(f"measuring {number + 1} of {n}")
        network.vary(derived_seed(seed, "look", number))
        looks.append(calibrate(network, link, congestion_control))
    server.stop()
    return looks


def row(link: Link, looks: Sequence[Calibration]) -> CalibrationRow:
    return CalibrationRow(link=link, looks=list(looks))


def summarise(link: Link, looks: Sequence[Calibration]) -> dict[str, object]:
    """The output of --json: per direction goodput_error (fraction of the ideal) and rtt_excess_ms, each with its interval."""

    def interval(values: list[float]) -> dict[str, object]:
        found: Interval = mean_interval(values, CONFIDENCE)
        return {**found.model_dump(), "values": values}

    directions: dict[str, object] = {}
    for name, sides in (("up", [look.up for look in looks]), ("down", [look.down for look in looks])):
        errors = [side.goodput_error for side in sides if side.goodput_error is not None]
        directions[name] = {
            "ideal_bit_s": sides[0].ideal_bit_s,
            "goodput_bit_s": interval([side.goodput_bit_s for side in sides]),
            "goodput_error": interval(errors) if len(errors) == len(sides) else None,
            "retransmits": [side.retransmits for side in sides],
            "router_drops": [side.router_drops for side in sides],
        }
    return {
        "link": link.model_dump(mode="json"),
        "n": len(looks),
        "directions": directions,
        "rtt_ideal_ms": looks[0].rtt_ideal_ms,
        "rtt_excess_ms": interval([look.rtt_excess_ms for look in looks]),
        "ok": all(look.ok for look in looks),
        "problems": [problem for look in looks for problem in look.problems],
    }
