"""A lab from one piece of work to the next: what it brings up, what it keeps, and what it gives up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import RouterFacts
from lab.judge.host import HostLimits
from lab.model.errors import LabFault, NotSupported
from lab.model.results import Calibration, HostSnapshot
from lab.model.transfer import ClientSpec
from lab.model.userland import Userlands
from lab.model.wiring import Wiring
from lab.run import lab as module
from lab.run.instruments import Instruments
from lab.run.lab import CALIBRATION_ATTEMPTS, Lab
from lab.run.options import Options
from lab.run.progress import Silent
from lab.run.release import ReleaseRow
from lab.servers.bundle import DEFAULT_PAYLOADS, SAME_HOST, SERVERS, Places
from tests.unit.run.fake_lab import FakeNetwork
from tests.unit.store.conftest import AT, make_calibration

CELL = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "-").cell(ClientSpec(name="curl"))
TOPOLOGY = CELL.topology


@dataclass
class Virtual(FakeNetwork):
    """A machine in virtual time."""

    clock: Any = field(default_factory=lambda: SimpleNamespace(kind="virtual"))


@dataclass
class World(Silent):
    """Everything that a lab does to networks, in its order."""

    told: list[Any] = field(default_factory=list)
    networks: list[Any] = field(default_factory=list)
    ok: list[bool] = field(default_factory=list)
    """Of each calibration; good ones when it is at its end."""
    broken: str = ""

    def step(self, text: str) -> None:
        self.told.append(text)

    def _opened(self, made: Any, *words: Any) -> Any:
        self.told.append(words)
        self.networks.append(made)
        return made

    def open(self, backend: str, *, router: str, name: str) -> Any:
        return self._opened(FakeNetwork(name), "open", backend, router, name)

    def open_same_host(self, backend: str, *, name: str) -> Any:
        made = FakeNetwork(name, router_facts=RouterFacts("none", "", "", supports_seed=False))
        return self._opened(made, "same host", backend, name)

    def open_for(self, ids: Sequence[str], payload_bytes: int, *, wiring: Wiring, userlands: Any) -> Any:
        facts = RouterFacts("none" if wiring.same_host else "kernel", "", "", supports_seed=True)
        made = Virtual(ids[0], router_facts=facts)
        return self._opened(made, "boot", list(ids), payload_bytes, wiring.same_host, dict(userlands))

    def start(self, _: object, **how: Any) -> Any:
        if self.broken == "servers":
            raise LabFault("no server")
        self.told.append(("servers", how["payload_sizes"], how["wanted"], how["places"], how["http3"]))
        return SimpleNamespace(endpoints=None)

    def calibrate(self, _: object, link: object, control: str, *, tolerance: object, attempt: int) -> Calibration:
        del tolerance
        self.told.append(("calibrate", link == TOPOLOGY.link, control, attempt))
        return make_calibration(attempt=attempt).model_copy(update={"ok": self.ok.pop(0) if self.ok else True})

    def snapshot(self, _: object) -> HostSnapshot:
        if self.broken == "facts":
            raise LabFault("no facts")
        return HostSnapshot(at=AT, machine={"cores": 2}, hosts={"client": {"kernel": "6"}, "server": {"kernel": "5"}})

    def shape(self, _: object, link: Any) -> Any:
        self.told.append(("shape", link.rate.bit_s))
        return SimpleNamespace(number=len(self.told))

    def lab(self, **options: Any) -> Lab:
        instruments = Instruments(
            open_network=self.open,
            open_same_host=self.open_same_host,
            pin=lambda _, *how: self.told.append(("pin", *how)),
            assert_no_bypass=lambda _: self.told.append("no bypass"),
            start_servers=self.start,
            shape=self.shape,
            shape_nodes=lambda *_: {},
            calibrate=self.calibrate,
            snapshot=self.snapshot,
        )
        made = Lab(Options(instruments=instruments, **options), "run", self)
        made.machines = SimpleNamespace(open_for=self.open_for)  # type: ignore[assignment]
        return made


@pytest.fixture
def world() -> World:
    return World()


def test_a_network_in_real_time_is_brought_up_once(world: World) -> None:
    lab = world.lab(backend="compose", router="uml")
    lab.bring_up()
    lab.bring_up()
    assert world.told == [
        "bringing the network up",
        ("open", "compose", "uml", "run"),
        ("pin", "cubic"),
        "no bypass",
        ("servers", DEFAULT_PAYLOADS, SERVERS, Places(), None),
    ]
    assert lab.up == (world.networks[0], lab.servers)
    assert (lab.clock, lab.name) == ("real", "run")
    assert world.lab(name="lane").name == "lane"


def test_another_number_of_hosts_needs_another_network(world: World) -> None:
    lab = world.lab()
    lab.bring_up()
    lab.bring_up(same_host=True)
    lab.bring_up(same_host=True)
    assert [network.open for network in world.networks] == [False, True]
    assert ("same host", "namespaces", "run") in world.told
    assert world.told[-1] == ("servers", DEFAULT_PAYLOADS, SERVERS, SAME_HOST, None)
    lab.bring_up()
    assert [network.open for network in world.networks] == [False, False, True]


def test_a_machine_in_virtual_time_is_booted_for_each_piece_of_work(world: World) -> None:
    lab = world.lab()
    lab.bring_up()
    lab.boot(["a", "b"], 5_000, {"sshd"})
    assert world.told[5:] == [
        "a: booting its machine",
        ("boot", ["a", "b"], 5_000, False, {}),
        "no bypass",
        ("servers", (), {"sshd"}, Places(), None),
    ]
    assert lab.clock == "virtual"
    lab.boot(["a", "b"], 5_000, wiring=Wiring(same_host=True))
    assert world.told[-1] == ("servers", (), SERVERS, SAME_HOST, None)
    assert [network.open for network in world.networks] == [False, False, True]
    lab.bring_up()
    assert [network.open for network in world.networks] == [False, False, False, True], "real time has another network"


def test_userlands_belong_to_the_machine_that_has_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    monkeypatch.setattr(module, "get_userland", lambda name, _: SimpleNamespace(name=name, facts=f"facts of {name}"))
    monkeypatch.setattr(module, "check_http3", lambda server, program: checked.append((server and server.name, program)))
    lab = world.lab()
    lab.boot(["a"], 0, userlands=Userlands(client="debian-12", server=""))
    assert [*lab.userlands.items()] == [("client", "facts of debian-12")]  # type: ignore[comparison-overlap]
    assert checked == []
    lab.boot(["a"], 0, userlands=Userlands(client="", server="debian-13"), http3="nginx")
    assert [*lab.userlands.items()] == [("server", "facts of debian-13")]  # type: ignore[comparison-overlap]
    assert checked == [("debian-13", "nginx")]
    assert world.told[-1][-1] == "nginx"
    lab.boot(["a"], 0, http3="aioquic")
    assert checked[-1] == (None, "aioquic")
    lab.boot(["a"], 0, userlands=Userlands(client="debian-12", server=""))
    lab.bring_up()
    assert lab.userlands == {}


def test_the_machine_is_taken_once_and_given_back_at_the_end(world: World) -> None:
    @contextmanager
    def turn() -> Iterator[None]:
        world.told.append("taken")
        yield
        world.told.append("given back")

    lab = world.lab(turn=turn)
    lab.boot(["a"], 0)
    assert "taken" not in world.told
    lab.bring_up()
    assert world.told.index("taken") < world.told.index(("open", "namespaces", "auto", "run"))
    lab.bring_up(same_host=True)
    assert world.told.count("taken") == 1
    lab.close_network()
    assert "given back" not in world.told
    lab.close()
    assert world.told[-1] == "given back"


def test_a_network_whose_servers_do_not_start_is_closed(world: World) -> None:
    world.broken = "servers"
    lab = world.lab()
    with pytest.raises(LabFault, match="no server"):
        lab.bring_up()
    assert (world.networks[0].open, lab.network) == (False, None)


def test_a_lab_that_was_abandoned_does_no_more_work(world: World) -> None:
    lab = world.lab()
    lab.abandon()
    with pytest.raises(LabFault, match="the run was interrupted"):
        lab.bring_up()
    other = world.lab()
    other.bring_up()
    other.abandon()
    assert not world.networks[-1].open


@pytest.mark.parametrize(("choice", "clock"), [("real", "real"), ("virtual", "virtual"), ("auto", "virtual")])
def test_cells_have_a_network_by_their_clock(world: World, choice: Any, clock: str) -> None:
    lab = world.lab(clock=choice)
    larger = CELL.model_copy(update={"transfer": CELL.transfer.model_copy(update={"size": type(CELL.transfer.size)(9 << 20)})})
    lab.ready([CELL, larger])
    assert lab.clock == clock
    if clock == "virtual":
        assert ("boot", [CELL.id, larger.id], 9 << 20, False, {}) in world.told
        assert world.told[-1] == ("servers", (), {"nginx"}, Places(), None)
    assert set(lab.timing_s) == {"bring_up"}


def test_real_time_refuses_userlands_before_anything_is_brought_up(world: World) -> None:
    lab = world.lab(clock="real", userlands=Userlands(client="debian-12", server=""))
    with pytest.raises(NotSupported, match="runs in real time, where there are no userlands"):
        lab.ready([CELL])
    assert world.told == []


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_link_is_shaped_once_unless_it_is_another_or_its_losses_repeat(world: World) -> None:
    lab = world.lab()
    lab.bring_up()
    world.told.clear()
    first = lab.shape(TOPOLOGY)
    lab.calibration = make_calibration()
    assert lab.shape(TOPOLOGY) is first
    assert lab.calibration
    assert world.told == [("pin", TOPOLOGY.congestion_control, 1500), ("shape", 50_000_000)]
    seeded = TOPOLOGY.model_copy(update={"link": TOPOLOGY.link.model_copy(update={"seed": 3})})
    assert lab.shape(seeded) is not first
    assert lab.calibration is None, "no calibration of another link holds"
    assert lab.shape(seeded) is not lab.shape(seeded)
    assert set(lab.timing_s) == {"shape"}


def test_nothing_is_known_of_a_link_that_was_forgotten(world: World) -> None:
    lab = world.lab()
    lab.bring_up()
    first = lab.shape(TOPOLOGY)
    lab.calibration, lab.idle = make_calibration(), SimpleNamespace()  # type: ignore[assignment]
    lab.close_network()
    assert not any((lab.calibration, lab.idle, lab.network, lab.servers))
    lab.close_network()
    lab.bring_up()
    assert lab.shape(TOPOLOGY) is not first


@pytest.mark.parametrize(("ok", "looks"), [([True], [True]), ([False, True], [False, True]), ([False, False], [False, False])])
def test_a_link_beyond_tolerance_is_looked_at_once_more_and_both_looks_are_kept(
    world: World, ok: list[bool], looks: list[bool]
) -> None:
    lab = world.lab()
    lab.bring_up()
    world.ok, world.told = [*ok, True], []
    found = lab.calibrate(TOPOLOGY)
    assert [each.ok for each in found] == looks
    assert [each.attempt for each in found] == [1, 2][: len(looks)]
    assert CALIBRATION_ATTEMPTS == 2
    step = f"{TOPOLOGY.name}: calibrating the link"
    assert world.told == [
        each for number in range(1, len(looks) + 1) for each in (step, ("calibrate", True, TOPOLOGY.congestion_control, number))
    ]


def test_a_certificate_is_of_the_machines(world: World) -> None:
    lab = world.lab()
    lab.machines = SimpleNamespace(certified=lambda topology: f"of {topology.name}")  # type: ignore[assignment]
    assert lab.certified(TOPOLOGY) == f"of {TOPOLOGY.name}"  # type: ignore[comparison-overlap]
    assert world.told == [f"{TOPOLOGY.name}: the link's certificate"]
    assert set(lab.timing_s) == {"calibrate"}


# --- the machine under it ---------------------------------------------------------------------------------------------


def test_only_real_time_has_limits_for_its_machine(world: World) -> None:
    lab = world.lab(host_limits=HostLimits())
    lab.bring_up()
    assert lab.watcher.limits == HostLimits()
    lab.boot(["a"], 0)
    assert lab.watcher.limits is None
    assert lab.watch_idle() is None
    assert "host" in lab.timing_s


def test_what_was_measured_of_the_clients_host_is_in_every_snapshot(world: World) -> None:
    lab = world.lab()
    lab.bring_up()
    lab.client_facts = {"score": 7, "kernel": "own"}
    found = lab.snapshot()
    assert found.hosts == {"client": {"kernel": "own", "score": 7}, "server": {"kernel": "5"}}
    world.broken = "facts"
    assert (lab.snapshot().hosts, bool(lab.snapshot().machine)) == ({}, True)


def test_a_lab_that_was_abandoned_stores_no_cell_without_facts(world: World) -> None:
    lab = world.lab()
    lab.bring_up()
    lab.abandon()
    world.broken = "facts"
    with pytest.raises(LabFault, match="no facts"):
        lab.snapshot()
    assert set(lab.timing_s) == {"provenance"}


def test_times_of_one_thing_add_up_and_the_rest_is_overhead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    lab = world.lab()
    lab.timing_s = {"old": 9.0}
    lab.begin()
    for seconds in (2.0, 0.5):
        with lab.timed("work"):
            clock.now += seconds

    def fail() -> None:
        with lab.timed("failed"):
            clock.now += 4.0
            raise LabFault("no")

    with pytest.raises(LabFault, match="no"):
        fail()
    clock.now += 1.0
    lab.end()
    assert lab.timing_s == {"work": 2.5, "failed": 4.0, "overhead": 1.0}
