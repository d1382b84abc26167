"""Every front end, run from its own entry until it has handed a topology on; and what arrived.

`WAYS` has a function for each front end of `lab.model.obeyed.FRONT_ENDS`. The function patches the calls that would start
something, calls the command or the keyword as a user would, and notes the parts of the topology that reach the network.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import typer

from lab.cli import bisect, bundle, calibrate, harm, live, qualify, repro, search, virtual_shell
from lab.cli import run as run_command
from lab.cli import test as own_tests
from lab.clients import registry
from lab.hosts.compose.inside import links
from lab.hosts.host import Completed
from lab.link.plan import plan
from lab.model.errors import LabFault
from lab.model.obeyed import FrontEnd
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Duration, Ratio, Size
from lab.robot import current
from lab.robot.library import LabLibrary
from lab.run import session as sessions
from lab.run import virtual_network
from lab.run.clocks import clock_for
from lab.run.events import quirks
from lab.run.harm import FlowSeen
from lab.run.named_cells import named_cells
from lab.run.options import Options
from lab.run.project import suite
from lab.run.questions import Asking, CellQuestion, EventQuestion
from lab.run.search import run_once
from lab.run.session import Session
from lab.run.workers.parcel import found_problem
from lab.run.workers.task import INSTANCE, Order, answer
from lab.store.bundle import Bundle, Looks, Manifest, Member, SshdSettings
from lab.testing.fixtures import LabLink
from lab.testing.limits import LimitKept
from lab.testing.networks import topology_of
from tests.unit.obeyed.given import TRANSFER, Given, Noting, Reached
from tests.unit.store.conftest import make_calibration, make_cell

_SUITE = """\
*** Settings ***
Library    lab.robot.library.LabLibrary

*** Variables ***
${CLIENT}    new

*** Test Cases ***
"""
_RELEASE = f"{_SUITE}Row\n    Judge Release Row    net--{TRANSFER}    client=${{CLIENT}}    why=it is a test\n"
_BUGS = f"{_SUITE}Row\n    Reproduce Bug    it    net    {TRANSFER}    limit    CLIENT    none    none\n"
_GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})


# --- front ends that run cells ------------------------------------------------------------------------------------------


def _to_cells(given: Given) -> None:
    """Cells are complete where they get here; `cells` shows what is made of them."""

    class Recorder:
        def __init__(self, lab: Any, cells: Any, *_: object, **__: object) -> None:
            clock_for(cells, lab.options.clock)
            given.took(cells[0].topology)
            given.runs(registry.resolve(cells[0].client))
            raise LabFault("it is reached")

    given.patch.setattr(sessions, "Interleaving", Recorder)


def _reaching(given: Given, act: Callable[[], object]) -> None:
    """Until the recorder is reached; a problem of the input goes on."""
    _to_cells(given)
    try:
        act()
    except LabFault as fault:
        if fault.message != "it is reached":
            raise


def _run(given: Given) -> None:
    _reaching(
        given,
        lambda: run_command.run([given.cell], client=given.clients, topology=[str(given.file)], clock=given.clock),
    )


def _workers(given: Given) -> None:
    (cell,) = named_cells([given.cell], given.clients, [str(given.file)])
    order = Order(CellQuestion(cell), Options(clock=given.clock), "run", "w", INSTANCE, alone=False, wait_s=60.0)
    _to_cells(given)
    parcel = answer(pickle.loads(pickle.dumps(order)))
    assert parcel.problem
    problem = found_problem(parcel.problem)
    if not isinstance(problem, LabFault):
        raise problem


def _bisect(given: Given) -> None:
    def steps(scenario: Any, *words: Any) -> Any:
        _, __, ___, ____, options, _____ = words
        run_once(scenario, given.client, options)
        raise Reached

    given.patched(bisect, _versions=steps)
    with suppress(Reached):
        _reaching(given, lambda: bisect.bisect(f"new--net--{TRANSFER}", good=given.client, bad=given.client, clock=given.clock))


def _qualify(given: Given) -> None:
    suite = given.folder / "rows.robot"
    suite.write_text(_RELEASE)
    _reaching(given, lambda: qualify.qualify(given.client, suite=str(suite), clock=given.clock))


def _repro(given: Given) -> None:
    suite = given.folder / "bugs.robot"
    suite.write_text(_BUGS.replace("CLIENT    none", f"{given.client}    none"))
    _reaching(given, lambda: repro.repro([str(suite)], clock=given.clock))


def _rerun(given: Given) -> None:
    made = make_cell()
    client = made.client.model_copy(update={"name": given.spec.name})
    cell = made.model_copy(update={"topology": given.topology, "client": client})
    manifest = Manifest(
        lab_version="1",
        cell=cell.id,
        run=cell.run,
        looks=Looks(looks=(5,), alpha_per_look=0.05),
        sshd=SshdSettings(max_sessions=0, ciphers=""),
        members=[Member(name="cell.json", bytes=0, sha256="0" * 64)],
    )
    given.patched(bundle, read_bundle=lambda _: Bundle(manifest, cell))
    _reaching(given, lambda: bundle.rerun(Path("x.zip"), client=next(iter(given.clients), None), clock=given.clock))


def _robot(given: Given) -> None:
    library = LabLibrary()
    with given.session() as session, current.use(Asking(session)):
        judge = partial(library.judge_limited_transfer, client=given.client, topology=str(given.file), tolerance=Ratio(0.05))
        _reaching(given, lambda: judge(limit=ByteRate.parse("1 MB/s"), size=Size.parse("1 MB")))


def _search(given: Given, command: Callable[..., object]) -> None:
    more: dict[str, Any] = {"to": ByteRate.parse("1 MB/s")} if command is search.limit else {}
    if command is search.rtt:
        more = {"start": Duration.parse("20 ms")}
    _reaching(given, lambda: command(given.client, topology=str(given.file), **more))


def cells(given: Given) -> None:
    """A cell in a session, down to the network. Not a front end: what those above have in common."""
    (cell,) = named_cells([given.cell], given.clients, [str(given.file)])
    given.patch.setattr("lab.run.interleaving.scheduled", given.schedules)
    with _furnished(given) as session:
        session.run_cell(cell)


def _furnished(given: Given) -> Session:
    """A session whose networks note what they are given."""
    real, lab = partial(given.boots, kind="real"), Noting()
    lab.given = given
    instruments = replace(
        lab.instruments,
        open_network=real,
        open_same_host=partial(real, same_host=True),
        pin=given.pins,
        shape=given.shapes,
        start_servers=given.serves,
    )
    session = given.session(instruments=instruments)
    session.lab.machines = SimpleNamespace(  # type: ignore[assignment]
        open_for=given.boots,
        certified=lambda _: make_calibration(),
        certified_path=lambda *_: None,
        sample_seed=lambda *_: 1,
        facts=lambda _: None,
    )
    return session


# --- other front ends ---------------------------------------------------------------------------------------------------


def _robot_steps(given: Given) -> None:
    library = LabLibrary()
    given.patch.setattr("lab.robot.steps.BuiltIn", lambda: SimpleNamespace(get_variable_value=lambda _: "a test"))
    given.patch.setattr("lab.run.steps.scheduled", given.schedules)
    given.patch.setattr("lab.run.steps.take_sample", lambda *words, **_: _ran(given, words[2]))
    with _furnished(given) as session, current.use(Asking(session)):
        library.start_lab(str(given.file))
        with suppress(Reached):
            library.run_transfer(client=given.client, size=Size.parse("1 MB"))


def _raise(*_: object, **__: object) -> Any:
    raise Reached


def _ran(given: Given, adapter: Any) -> Any:
    given.runs(adapter)
    raise Reached


def _event(given: Given) -> None:
    _, judge = quirks._QUIRKS["flap"]
    given.patch.setitem(quirks._QUIRKS, "flap", (lambda bench, *_: _ran(given, bench.adapter), judge))
    # HTTP/3 has its server from the topology's userland.
    transfer = _GET.model_copy(update={"protocol": "h3"}) if given.clock == "virtual" else _GET
    question = EventQuestion(given.spec, given.topology, transfer, "flap")
    with _furnished(given) as session, suppress(Reached):
        question.ask(session)


def _harm(given: Given) -> None:
    given.patch.setattr("lab.run.harm.open_network", given.boots)
    given.patch.setattr("lab.run.harm.pin", given.pins)
    given.patch.setattr("lab.run.harm.assert_no_bypass", lambda _: None)
    given.patch.setattr("lab.run.harm.start_servers", given.serves)
    given.patch.setattr("lab.run.harm.shape", given.shapes)
    given.patch.setattr("lab.run.harm.scheduled", given.schedules)
    given.patch.setattr("lab.run.harm.flowing", lambda *_: nullcontext())
    if given.clients:
        given.patch.setattr("lab.run.harm._alone", lambda *_: ((), FlowSeen(0.0)))
        given.patch.setattr("lab.run.harm.bystander", lambda _: nullcontext())
        given.patch.setattr("lab.run.harm.take_sample", lambda *words, **_: _ran(given, words[2]))
    else:
        given.patch.setattr("lab.run.harm.bystander", _raise)
    # Two transfers, one of them over HTTP/3, have the server's userland serve it.
    with suppress(Reached):
        harm.harm_command([str(given.file)], [given.client], transfer=["http1-get", "h3-get"], size=Size.parse("1 MB"))


def _opens_shaped(given: Given) -> None:
    """Stand-ins for the network of a topology that a user's own commands run in."""
    given.patched(
        virtual_network,
        open_network=given.boots,
        pin=given.pins,
        assert_no_bypass=lambda _: None,
        shape=given.shapes,
        shape_nodes=lambda *_: {},
        start_servers=given.serves,
    )


def _shell(given: Given) -> None:
    _opens_shaped(given)
    given.patched(
        virtual_shell,
        scheduled=given.schedules,
        PortSampler=lambda _: nullcontext(MagicMock()),
        Watch=lambda _: nullcontext(MagicMock()),
        explain=lambda *_: None,
    )
    _live(given)
    with suppress(typer.Exit):
        live.shell(["true"], topology=str(given.file), clock=given.clock)


def _test(given: Given) -> None:
    _opens_shaped(given)
    given.patched(
        suite,
        VirtualMachines=MagicMock(),
        scheduled=given.schedules,
        Limits=MagicMock(),
        ProjectHost=MagicMock(),
        watched=lambda *_: (Completed(("true",), 0, b"", b"", 0, 0, 0.0, 0.0), None),
    )
    given.patched(own_tests, _close=lambda *_: None)
    with suppress(typer.Exit):
        own_tests.own_tests(["true"], topology=str(given.file))


def _live(given: Given) -> None:
    given.patched(
        live,
        open_live=given.boots,
        open_network=given.boots,
        attach=lambda _: (given.boots(), {"topology": given.topology.model_dump(mode="json")}),
        _pick=str,
        pin=given.pins,
        assert_no_bypass=lambda _: None,
        shape=given.shapes,
        change=given.shapes,
        start_servers=given.serves,
        _attached=lambda *_: 0,
    )


def _up(given: Given) -> None:
    _live(given)
    live.up(str(given.file))


def _link(given: Given, **more: Any) -> None:
    _live(given)
    live.link_command(str(given.file), **more)


def _calibrate(given: Given) -> None:
    given.patched(
        calibrate,
        open_network=given.boots,
        open_virtual=given.boots,
        pin=given.pins,
        assert_no_bypass=lambda _: None,
        start_iperf3=lambda _: None,
        shape=given.shapes,
        calibrate=_raise,
    )
    with suppress(Reached):
        calibrate.calibrate_command(topology=str(given.file), clock=given.clock)


def _pytest(given: Given) -> None:
    """Commands of a test's own, and cells with a client."""
    if given.clients:
        with given.session() as session:
            keeps = LimitKept(session, given.topology, MagicMock())
            _reaching(given, lambda: keeps(given.client, limit="1 MB/s", size="1 MB"))
        return
    given.patch.setattr("lab.testing.fixtures.scheduled", given.schedules)
    for place in ("lab.testing.fixtures.measure", "lab.run.commands.measure"):
        given.patch.setattr(place, lambda *_, **__: None)
    with _furnished(given) as session:
        link = LabLink(session, "a test", topology_of((given.file.name,), {}, given.file.parent), "1 MB")
        link.command(["true"], environment={}, folder="/", timeout_s=60.0)


def _compose(given: Given) -> None:
    wanted, folder = given.topology, given.folder
    (folder / "net.json").write_text(json.dumps(links.table(wanted)))
    found = links.load("net", folder)
    planned = {way: plan(wanted.link.direction(way), wanted.link.rtt, supports_seed=True) for way in links.DIRECTIONS}
    given.note(link=wanted.link if found.plans == planned else None, mtu=found.mtu, congestion_control=found.congestion_control)


WAYS: Mapping[FrontEnd, Callable[[Given], None]] = {
    "run": _run,
    "robot": _robot,
    "robot steps": _robot_steps,
    "event": _event,
    "workers": _workers,
    "bisect": _bisect,
    "qualify": _qualify,
    "repro": _repro,
    "rerun": _rerun,
    "search limit": partial(_search, command=search.limit),
    "search rtt": partial(_search, command=search.rtt),
    "search loss": partial(_search, command=search.loss),
    "harm": _harm,
    "shell": _shell,
    "test": _test,
    "up": _up,
    "link": _link,
    "calibrate": _calibrate,
    "pytest": _pytest,
    "compose": _compose,
    "vagrant": partial(_link, backend="vagrant"),
}
