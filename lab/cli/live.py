"""`lab shell`, `lab up`, `lab link`, `lab exec`, `lab status`, `lab down`: networks for a person to work in."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from lab.assets.tools import provide
from lab.cli.asked_files import put_asked_files
from lab.cli.options import (
    AnyBackend,
    EndpointOf,
    Env,
    Jitter,
    Json,
    Loss,
    NetworkClock,
    Rate,
    RealBackend,
    Router,
    Rtt,
    Seed,
    UserlandOf,
    bare,
    make_link,
    refuse_settings,
    variables,
)
from lab.cli.output import say
from lab.cli.terminal import run_attached
from lab.cli.virtual_shell import VirtualShell
from lab.hosts.agent.router import RouterChoice
from lab.hosts.choose import Backend, attach, labs, open_live, open_network, take_down
from lab.hosts.host import Host, LiveNetwork, Network
from lab.hosts.virtual.host import environment
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import Link
from lab.model.load import load_topology, with_endpoint
from lab.model.obeyed import real_time_lacks, refuse
from lab.model.topology import Topology
from lab.model.units import Duration, Ratio
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.qdiscs import read_qdiscs
from lab.net.shape import change, shape
from lab.run.settings import DEFAULT_SEED, choose
from lab.servers.bundle import Servers, places, start_servers

_FOREIGN = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
_COMMAND_LAST = {"allow_interspersed_args": False}
_PASS_THROUGH = {**_COMMAND_LAST, "ignore_unknown_options": True}
Lab = Annotated[str, typer.Option("--lab", help="Which lab, when more than one is up.")]
Machines = Annotated[
    Literal["vagrant"] | None,
    typer.Option("--backend", help="vagrant: the link of the virtual machines, which keep it when the command has ended."),
]
Command = Annotated[list[str] | None, typer.Argument(metavar="-- CMD...", help="The command; a shell without one.")]


class _HostFirst(TyperCommand):
    """Takes its options after the host too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [param for param in self.params if param.param_type_name == "option"]
        return super().parse_args(ctx, options_first(args, [name for option in options for name in option.opts]))


def options_first(words: Sequence[str], valued: Collection[str]) -> list[str]:
    """`HOST OPTIONS -- CMD` as `OPTIONS HOST -- CMD`; every `valued` option has a value. Raises UsageProblem for another option.

    A command needs no `--` before it: no program's name begins with a dash.
    """
    host = _after_options(words, valued)
    if host >= len(words) or words[host] == "--":
        return [*words]
    command = host + 1 + _after_options(words[host + 1 :], valued)
    between = words[host + 1 : command]
    if other := next((word for word in between if word.startswith("-") and not _known(word, valued)), ""):
        raise UsageProblem(f"lab exec has no option {other}", remedy="put -- before the command")
    return [*words[:host], *between, words[host], *words[command:]]


def _after_options(words: Sequence[str], valued: Collection[str]) -> int:
    """The place of the first word that is neither an option nor an option's value; of `--`, if it comes first."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if words[at] in valued else 1
    return at


def _known(word: str, valued: Collection[str]) -> bool:
    return word == "--help" or word.partition("=")[0] in valued


def register(app: typer.Typer) -> None:
    app.command("shell", context_settings=_COMMAND_LAST)(shell)
    app.command("up")(up)
    app.command("link")(link_command)
    app.command("exec", cls=_HostFirst, context_settings=_PASS_THROUGH)(exec_command)
    app.command("status")(status)
    app.command("down")(down)


def shell(
    command: Command = None,
    rate: Rate = None,
    rtt: Rtt = Duration(0),
    loss: Loss = Ratio(0.0),
    jitter: Jitter = Duration(0),
    seed: Seed = None,
    topology: Annotated[str, typer.Option("--topology", help="A topology instead of --rate and --rtt.")] = "",
    clock: NetworkClock = "auto",
    router: Router = "auto",
    backend: AnyBackend = "auto",
    env: Env = None,
    userland: UserlandOf = None,
    endpoint: EndpointOf = "",
) -> None:
    """Run any command on the client of a shaped network; `server` is reachable by that name.

    lab shell --rate 20mbit --rtt 40ms -- curl -o /dev/null http://server/files/5MiB

    Userlands, and topologies that need it, are run in virtual time; a schedule begins with each command. There a command
    has no terminal and no input, cannot write outside /run and /dev/shm, and prints when it has ended. A line on stderr then says
    what it moved over TCP: goodput, retransmits, round trips, and what held it back.
    """
    given = variables(env)
    if topology:
        refuse_settings(topology, rate=rate, rtt=rtt, loss=loss, jitter=jitter)
        wanted = load_topology(topology)
    else:
        link = make_link(rate, rtt, loss, jitter, seed)
        wanted = Topology(name="shell", description="A link of the command line.", link=link)
    if endpoint:
        wanted = with_endpoint(wanted, endpoint)
    if clock == backend == router == "auto" and (userland or real_time_lacks(wanted)):
        clock = "virtual"
    where = choose(clock, backend, router, userlands=userland or ())
    refuse("shell", wanted, "virtual" if where.clock == "virtual" else "real")
    if where.clock == "virtual":
        with VirtualShell(wanted, DEFAULT_SEED if seed is None else seed, given, where.userlands) as virtual:
            raise typer.Exit(virtual.run(words) if (words := bare(command)) else virtual.read_lines(sys.stdin))
    if topology:
        refuse_settings(topology, seed=seed)
    network = _open(where.backend, router=where.router, same_host=wanted.same_host)
    try:
        servers = _prepare(network, wanted)
        words = bare(command)
        put_asked_files(servers, words)
        code = _attached(network.client, words or _shell(), servers.environment, given)
    finally:
        network.close()
    raise typer.Exit(code)


def _open(backend: Backend, *, router: RouterChoice, name: str = "", same_host: bool = False) -> LiveNetwork:
    """A network to work in. Programs that its hosts share with the machine are fetched first."""
    if backend == "namespaces":
        provide(say)
    return open_live(backend, router=router, name=name, same_host=same_host)


def _shell() -> list[str]:
    return [os.environ.get("SHELL", "/bin/sh")]


def _prepare(network: Network, topology: Topology) -> Servers:
    """Shape the network before anything runs on it."""
    pin(network, topology.congestion_control, topology.link.mtu)
    assert_no_bypass(network)
    shape(network, topology.link)
    return start_servers(network, places=places(topology.wiring))


def _attached(host: Host, command: Sequence[str], more: Mapping[str, str], given: Mapping[str, str]) -> int:
    """Run with the caller's uid, folder and terminal; elsewhere as the lab's user in the host's folder.

    The command has no variable of the caller's but the terminal's kind and those that are `given`.
    """
    terminal_kind = {"TERM": os.environ.get("TERM", "dumb")}
    if host.shares_files:
        env, cwd, uid = environment({}), os.getcwd(), os.getuid()  # noqa: PTH109
    else:
        env, cwd, uid = {**_FOREIGN, "HOME": str(host.workdir)}, str(host.workdir), 1
    env = {**env, **terminal_kind, **more, **given}
    code = run_attached(lambda fds, terminal: host.attach(command, fds, env=env, cwd=cwd, uid=uid, terminal=terminal))
    if code == 127:
        raise UsageProblem(f"{command[0]}: no such command", remedy="give a path, or install it")
    return code


def up(
    topology: Annotated[str, typer.Argument(help="A topology's name or file.")] = "link-local",
    name: Annotated[str, typer.Option(help="What to call this lab.")] = "default",
    router: Router = "auto",
    backend: RealBackend = "namespaces",
) -> None:
    """Bring a network up and leave it running; `lab exec`, `lab link` and `lab down` find it by name."""
    wanted = load_topology(topology)
    refuse("up", wanted, "real")
    network = _open(backend, router=router, name=name)
    try:
        servers = _prepare(network, wanted)
        network.remember({"topology": wanted.model_dump(mode="json"), "environment": servers.environment})
        network.detach()
    except BaseException:
        network.close()
        raise
    typer.echo(
        f"lab {name}: {wanted.name} is up ({network.router_facts.kind} router); servers at {network.server.address} (server)"
    )
    for variable, value in servers.environment.items():
        typer.echo(f"  {variable}={value}")


def _pick(name: str) -> str:
    """The named lab, or the only lab that is up."""
    found = [*labs()]
    if name:
        if name not in found:
            raise UsageProblem(f"no lab called {name!r} is up", remedy="lab status")
        return name
    if len(found) != 1:
        raise UsageProblem(
            "no lab is up" if not found else f"several labs are up: {', '.join(found)}",
            remedy="lab up" if not found else "say which with --lab",
        )
    return found[0]


def link_command(
    topology: Annotated[str, typer.Argument(help="A topology's name or file; or use --rate and --rtt.")] = "",
    rate: Rate = None,
    rtt: Rtt = Duration(0),
    loss: Loss = Ratio(0.0),
    jitter: Jitter = Duration(0),
    seed: Seed = None,
    lab: Lab = "",
    backend: Machines = None,
) -> None:
    """Change the link of a running lab while traffic flows, or shape the link of virtual machines.

    `vagrant up` calls it for those.
    """
    refuse_settings(topology, rate=rate, rtt=rtt, loss=loss, jitter=jitter, seed=seed)
    wanted = load_topology(topology) if topology else None
    if wanted:
        refuse("vagrant" if backend else "link", wanted, "real")
    link = wanted.link if wanted else make_link(rate, rtt, loss, jitter, seed)
    if backend:
        if lab:
            raise UsageProblem("--lab names a lab of `lab up`, and virtual machines have no name", remedy="leave --lab away")
        _shape_machines(link, wanted.congestion_control if wanted else "cubic")
        return
    network, note = attach(_pick(lab))
    base = Topology.model_validate(note["topology"])
    if wanted:
        pin(network, wanted.congestion_control, link.mtu)
    else:
        # No option sets the hosts' MTU, so it stays as it is.
        link = link.model_copy(update={"mtu": base.link.mtu})
    shaped = change(network, link)
    now = wanted or base.model_copy(update={"link": shaped.link})
    kept = {key: value for key, value in note.items() if key in ("environment",)}
    network.remember({**kept, "topology": now.model_dump(mode="json")})
    for command in shaped.commands:
        typer.echo(command)


def _shape_machines(link: Link, congestion_control: str) -> None:
    """The router keeps the link, and each machine its settings, until it boots."""
    network = open_network("vagrant")
    try:
        pin(network, congestion_control, link.mtu)
        assert_no_bypass(network)
        shaped = shape(network, link)
    finally:
        network.close()
    for command in shaped.commands:
        typer.echo(command)
    typer.echo(f"the link is shaped and read back; {network.backend_facts['path']}")


def exec_command(
    host: Annotated[str, typer.Argument(help="client, server, or router.")],
    command: Command = None,
    lab: Lab = "",
    env: Env = None,
) -> None:
    """Run a command on a host of a running lab, with your terminal."""
    given = variables(env)
    network, note = attach(_pick(lab))
    hosts: dict[str, Host] = {"client": network.client, "server": network.server, "router": network.router, "wire": network.wire}
    if host not in hosts:
        raise UsageProblem(f"no host called {host!r}", remedy="use " + ", ".join(hosts))
    target = hosts[host]
    if not target.interactive:
        if not bare(command):
            raise UsageProblem("the User-Mode Linux router takes one command at a time", remedy="lab exec router -- tc -s qdisc")
        if given:
            raise UsageProblem("the User-Mode Linux router takes no variables", remedy="leave --env out")
        done = target.run(bare(command), check=False)
        sys.stdout.write(done.text)
        raise typer.Exit(done.returncode)
    code = _attached(target, bare(command) or _shell(), dict(note.get("environment", {})), given)
    raise typer.Exit(code)


def status(json_output: Json = False) -> None:
    """List this user's running labs."""
    found: list[dict[str, Any]] = []
    for name, backend in labs().items():
        try:
            network, note = attach(name)
            qdiscs = read_qdiscs(network)
        except (LabFault, UsageProblem):
            found.append({"name": name, "state": "a run in progress", "backend": backend})
            continue
        seconds = round(time.time() - note["started"])
        found.append(
            {
                "name": name,
                "state": "up",
                "backend": backend,
                "topology": note["topology"]["name"],
                "router": note["router_facts"]["kind"],
                "up_s": seconds,
                "drops": sum(int(qdisc.get("drops", 0)) for port in qdiscs.values() for qdisc in port),
            }
        )
    if json_output:
        import json

        typer.echo(json.dumps(found, indent=2))
        return
    if not found:
        typer.echo("no lab is up")
    for entry in found:
        typer.echo("  ".join(f"{key} {value}" if key != "name" else str(value) for key, value in entry.items()))


def down(
    name: Annotated[str, typer.Argument(help="Which lab; the only one without a name.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every lab of this user.")] = False,
) -> None:
    """Take a lab down: its processes, namespaces, mounts and files end with it."""
    names = [*labs()] if everything else [_pick(name)]
    for lab in names:
        take_down(lab)
        typer.echo(f"lab {shlex.quote(lab)} is down")
    if not names:
        typer.echo("no lab is up")
