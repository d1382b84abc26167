"""Cells that share a link: what each sample is given, what is written of each cell, and what a fault of the lab leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from lab.clients import registry
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.errors import LabFault, NotSupported
from lab.model.results import CellResult, ClientIdentity, HostSnapshot, Sample, SetAside
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec
from lab.run import interleaving as module
from lab.run.interleaving import Interleaving, Lane
from lab.run.lab import Lab
from lab.run.progress import Silent
from lab.run.release import ReleaseRow
from lab.run.schedule import fixed_rounds
from tests.unit.run.fake_lab import FakeClient, FakeLab, FakeNetwork
from tests.unit.store.conftest import AT, make_calibration, make_sample

ROW = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "-")
NEW, OLD = ROW.cell(ClientSpec(name="new")), ROW.cell(ClientSpec(name="old"))
UPLOAD = ReleaseRow.named("dsl-50--http1-put-5MiB-at-1MBps", "-").cell(ClientSpec(name="new"))
ADAPTER: Any = SimpleNamespace(name="new")
IDENTITY = ClientIdentity(name="new", version="1", path="/bin/true", sha256="0" * 64, command=[])
LOOKS = LookPlan(looks=(2, 4))


@dataclass
class Noting(FakeLab):
    """Keeps what every sample was given."""

    given: list[dict[str, Any]] = field(default_factory=list)
    fault: str = ""

    def take(self, *words: Any, **how: Any) -> Sample:
        network, _, adapter, transfer, index = words
        if self.fault:
            raise LabFault(self.fault)
        self.given.append({"client": adapter.name, "index": index, "direction": transfer.direction, "network": network, **how})
        return super().take(network, None, adapter, transfer, index)

    def lab(self, **options: Any) -> Lab:
        return Lab(replace(self.options(), **options), "run", Silent())


@pytest.fixture
def noting(fake_lab: FakeLab) -> Noting:
    del fake_lab  # it names the clients
    return Noting()


def run(lab: Lab, *cells: Cell, rounds: int = 2, captures: Any = None, remarks: tuple[str, ...] = ()) -> list[CellResult]:
    made = Interleaving(lab, cells, fixed_rounds(rounds), captures=captures)
    return made.run("test", LOOKS, remarks)


# --- a sample ---------------------------------------------------------------------------------------------------------


def test_a_sample_has_its_number_its_links_direction_and_a_place_for_its_packets(noting: Noting) -> None:
    results = run(noting.lab(), NEW, OLD, captures=lambda cell: Path("/evidence", cell))
    assert [(each["client"], each["index"]) for each in noting.given] == [("new", 0), ("old", 0), ("old", 1), ("new", 1)]
    first = noting.given[0]
    assert first["pcap_dir"] == Path("/evidence", NEW.id)
    assert first["link"] == NEW.topology.link.direction("down")
    assert first["watched"] is None
    assert [sample.index for sample in results[1].samples] == [0, 1]
    assert [sample.seed for sample in results[0].samples] == [None, None], "nothing repeats this machine's own time"
    run(noting.lab(), UPLOAD, rounds=1)
    assert (noting.given[-1]["link"], noting.given[-1]["pcap_dir"]) == (UPLOAD.topology.link.direction("up"), None)


@pytest.mark.parametrize("writes", [True, False])
def test_a_client_that_writes_no_keys_is_named_once_per_cell(noting: Noting, tmp_path: Path, writes: bool) -> None:
    class Notes(Silent):
        said: ClassVar[list[str]] = []

        def note(self, text: str) -> None:
            self.said.append(text)

    taken = noting.take

    def take(*words: Any, **how: Any) -> Sample:
        if writes:
            how["pcap_dir"].joinpath("sample-000.keys").write_text("secret")
        return taken(*words, **how).model_copy(update={"pcap": "sample-000.pcap"})

    Notes.said.clear()
    lab = noting.lab(instruments=replace(noting.instruments, take_sample=take))
    lab.progress = Notes()
    over_tls = ReleaseRow.named("dsl-50--h2-get-5MiB-at-1MBps", "-").cell(ClientSpec(name="new"))
    run(lab, over_tls, NEW, captures=lambda _: tmp_path)
    said = [f"{over_tls.id}: new writes no TLS keys to SSLKEYLOGFILE: its captures stay encrypted"]
    assert Notes.said == ([] if writes else said)


@pytest.mark.parametrize(
    ("why", "can", "kind", "protocol", "watched", "said"),
    [
        (True, True, "virtual", "http1", True, ""),
        (False, True, "virtual", "http1", False, ""),
        (True, False, "virtual", "http1", False, "one host has no link to watch"),
        (True, True, "virtual", "h3", False, "of QUIC the kernels and the wire know too little"),
        (True, True, "real", "http1", False, "real time has no processor to spare for looking"),
    ],
)
def test_a_sample_is_watched_or_says_why_not(
    noting: Noting, monkeypatch: pytest.MonkeyPatch, why: bool, can: bool, kind: str, protocol: str, watched: bool, said: str
) -> None:
    """Also where the link has a schedule."""
    monkeypatch.setattr(module, "can_watch", lambda _: can)
    made = Interleaving(noting.lab(why=why), [NEW], fixed_rounds(1))
    monkeypatch.setattr(Interleaving, "_virtual", kind == "virtual")
    lane = made.lanes[0]
    lane.cell = lane.cell.model_copy(update={"transfer": lane.cell.transfer.model_copy(update={"protocol": protocol})})
    made._network.vary = lambda _: None  # type: ignore[method-assign]
    taken = made._sample(lane, None)  # type: ignore[arg-type]
    assert bool(noting.given[-1]["watched"]) == watched
    assert (taken.why.sentence if taken.why else "") == (said and f"not known: {said}")


# --- a result ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "shown"), [("./new", os.path.abspath("new")), ("/opt/x/../new", "/opt/new"), ("new", "new")])  # noqa: PTH100
def test_a_program_is_shown_where_it_is(program: str, shown: str) -> None:
    cell = ROW.cell(ClientSpec(name="new", program=program))
    found = Lane(cell, ADAPTER, IDENTITY).identified()
    assert (found.program, found.version) == (shown, "1")


def test_the_command_is_that_of_the_first_transfer_that_ran() -> None:
    lane = Lane(NEW, ADAPTER, IDENTITY)
    assert lane.identified().command == [], "none ran"
    ran = [make_sample(at, None).model_copy(update={"command": ["new", str(at)]}) for at in range(3)]
    lane.samples += [ran[1], ran[2]]
    assert lane.identified().command == ["new", "1"]
    lane.set_aside.append(SetAside(reason="a busy machine", sample=ran[0]))
    assert lane.identified().command == ["new", "0"], "it was set aside, but it ran"


def test_a_host_is_shown_with_the_system_of_its_client() -> None:
    shared = HostSnapshot(at=AT, machine={}, hosts={"client": {"kernel": "6", "system": "Debian"}, "server": {"kernel": "5"}})
    own: Any = SimpleNamespace()
    assert Lane(NEW, own, own).snapshot(shared) is shared
    wine = Lane(NEW, own, own, system="Windows").snapshot(shared)
    assert wine.hosts == {"client": {"kernel": "6", "system": "Windows"}, "server": {"kernel": "5"}}
    bare = HostSnapshot(at=AT, machine={}, hosts={})
    assert Lane(NEW, own, own, system="Windows").snapshot(bare) is bare


def test_what_cells_share_is_in_the_result_of_each(noting: Noting) -> None:
    lab = noting.lab()
    first, second = run(lab, NEW, OLD, remarks=("said twice",))
    assert first.certificate == second.certificate
    assert first.certificate
    assert (len(first.certificate.before), len(first.certificate.after)) == (1, 1)
    assert (first.id, second.id, first.run, first.plan) == (NEW.id, OLD.id, "test", [2, 4])
    assert (first.backend, first.clock, first.virtual, first.host) == ("fake", "real", None, None)
    assert [each.verdict.warnings[-1] for each in (first, second)] == ["said twice"] * 2
    assert set(first.timing_s) == {"bring_up", "provenance", "shape", "host", "calibrate", "transfer", "overhead"}
    assert first.started_at == lab.started_at <= first.ended_at
    assert (first.expectation, first.transfer, first.topology) == (NEW.expectation, NEW.transfer, NEW.topology)


def test_the_order_has_a_cell_per_transfer(noting: Noting) -> None:
    made = Interleaving(noting.lab(), [NEW, OLD], fixed_rounds(2))
    made.run("test", LOOKS)
    assert made.order == [0, 1, 1, 0]
    assert made.problems == []


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_fault_of_the_lab_is_invalid_for_every_cell_and_the_link_is_forgotten(noting: Noting) -> None:
    noting.fault = "the router is gone"
    lab = noting.lab()
    results = run(lab, NEW, OLD)
    assert [(result.verdict.name, result.verdict.reason) for result in results] == [
        ("INVALID", "the lab, not the client: the router is gone")
    ] * 2
    assert [result.certificate for result in results] == [None, None]
    assert lab.calibration is None
    noting.fault = ""
    run(lab, NEW)
    assert noting.steps == ["shape", "look", "shape", "look", "look"]


def test_what_was_taken_before_a_fault_supports_no_verdict(noting: Noting) -> None:
    take = noting.take

    def breaking(*words: Any, **how: Any) -> Sample:
        if len(noting.given) == 2:
            noting.fault = "broken"
        return take(*words, **how)

    noting.take = breaking  # type: ignore[method-assign]
    (result,) = run(noting.lab(), NEW, rounds=3)
    assert (len(result.samples), result.verdict.name, result.verdict.interval) == (2, "INVALID", None)


def test_a_lab_that_was_abandoned_writes_no_result(noting: Noting) -> None:
    noting.fault = "the network is gone"
    lab = noting.lab()
    made = Interleaving(lab, [NEW], fixed_rounds(1))
    lab.abandoned = True
    with pytest.raises(LabFault, match="the network is gone"):
        made.run("test", LOOKS)


def test_on_a_link_that_failed_its_first_calibration_nothing_is_taken(noting: Noting) -> None:
    noting.broken = lambda _: True
    lab = noting.lab()
    (result,) = run(lab, NEW)
    assert (result.samples, noting.given, result.verdict.name) == ([], [], "INVALID")
    assert result.certificate
    assert (len(result.certificate.before), result.certificate.after) == (2, [])
    assert noting.steps == ["shape", "look", "look"]
    assert lab.calibration is None


def test_over_a_link_too_slow_for_its_limit_nothing_is_taken(noting: Noting) -> None:
    fast = ReleaseRow.named("dsl-50--http1-get-5MiB-at-6MBps", "-").cell(ClientSpec(name="new"))
    (result,) = run(noting.lab(), fast)
    assert (result.samples, result.verdict.name) == ([], "INVALID")
    assert "too little to judge a limit" in result.verdict.reason


def test_the_last_look_before_the_samples_says_whether_the_link_is_fast_enough(noting: Noting) -> None:
    looked = noting.calibrate

    def first_slow(network: Any, *words: object, attempt: int, **how: object) -> Any:
        found = looked(network, *words, attempt=attempt, **how)
        if attempt > 1:
            return found
        slow = found.down.model_copy(update={"goodput_bit_s": 1e6})
        return found.model_copy(update={"down": slow, "ok": False, "problems": ["slow"]})

    noting.calibrate = first_slow  # type: ignore[method-assign]
    (result,) = run(noting.lab(), NEW)
    assert result.certificate
    assert [look.ok for look in result.certificate.before] == [False, True]
    assert len(result.samples) == 2


def test_a_link_that_changed_by_itself_spoils_the_look_after_the_samples(noting: Noting) -> None:
    noting.read_back_problems = ["the rate is 1 Mbit/s"]
    lab = noting.lab()
    (result,) = run(lab, NEW)
    assert result.certificate
    last = result.certificate.after[-1]
    assert (last.ok, last.problems) == (False, ["the rate is 1 Mbit/s"])
    assert (result.verdict.name, len(result.samples)) == ("INVALID", 2)
    assert lab.calibration is None
    run(lab, NEW)
    assert noting.steps.count("shape") == 2


# --- virtual time -----------------------------------------------------------------------------------------------------


@dataclass
class Virtual(FakeNetwork):
    """A machine in virtual time."""

    clock: Any = field(default_factory=lambda: SimpleNamespace(kind="virtual"))
    varied: list[int] = field(default_factory=list)

    def vary(self, seed: int) -> None:
        self.varied.append(seed)


class Machines:
    """The lab's machines; their seeds tell what they are for."""

    def __init__(self) -> None:
        self.network = Virtual("machine")

    def open_for(self, *_: object, **__: object) -> Virtual:
        return self.network

    def sample_seed(self, cell_id: str, index: int) -> int:
        return len(cell_id) * 100 + index

    def facts(self, _: object) -> None:
        return None

    def certified(self, _: object) -> Any:
        return make_calibration()


@pytest.fixture
def virtual(noting: Noting) -> Callable[[], Lab]:
    def make() -> Lab:
        lab = noting.lab(clock="virtual")
        lab.machines = Machines()  # type: ignore[assignment]
        return lab

    return make


def test_in_virtual_time_every_sample_has_a_seed_and_the_link_one_certificate(noting: Noting, virtual: Callable[[], Lab]) -> None:
    lab = virtual()
    (result,) = run(lab, NEW)
    seeds = [len(NEW.id) * 100, len(NEW.id) * 100 + 1]
    assert [sample.seed for sample in result.samples] == seeds
    assert lab.up[0].varied == seeds  # type: ignore[attr-defined]
    assert result.certificate
    assert (len(result.certificate.before), result.certificate.after) == (1, [])
    assert (result.clock, result.verdict.name) == ("virtual", "PASS")
    assert "look" not in noting.steps, "nothing else can disturb a machine in virtual time"


def test_a_link_that_changed_in_virtual_time_is_a_fault_of_the_lab(noting: Noting, virtual: Callable[[], Lab]) -> None:
    noting.read_back_problems = ["the rate is 1 Mbit/s", "there is no loss"]
    (result,) = run(virtual(), NEW)
    assert result.verdict.name == "INVALID"
    assert result.verdict.reason == "the lab, not the client: the link has changed: the rate is 1 Mbit/s; there is no loss"


def test_an_unshaped_link_is_a_wire_of_a_gigabit_there(virtual: Callable[[], Lab]) -> None:
    plain = Topology.model_validate({"name": "plain", "description": "A test."})
    (result,) = run(virtual(), NEW.model_copy(update={"topology": plain}))
    assert result.topology == plain.in_virtual_time() != plain


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_a_client_cannot_do_is_refused_before_anything_is_brought_up(
    noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._CODE, "old", lambda name, program: FakeClient(name, program, cannot="no limit"))
    with pytest.raises(NotSupported, match="no limit"):
        Interleaving(noting.lab(), [NEW, OLD], fixed_rounds(1))
    assert noting.opened == []
