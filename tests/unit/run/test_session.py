"""A session: what it brings up for a question without a cell, what it records, and what it leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import LabFault, NotSupported
from lab.model.results import Verdict
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec
from lab.model.userland import Userlands
from lab.run import session as session_module
from lab.run.progress import Silent
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_run
from tests.unit.run.fake_lab import FakeLab, FakeNetwork

TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": {"rtt": "20 ms", "rate": "8 Mbit/s"}})
FREE = Topology.model_validate({"name": "free", "description": "A test."})
CHANGING = Topology.model_validate(
    {**TOPOLOGY.model_dump(), "name": "train", "schedule": {"steps": [{"at": "1 s", "rate": "1 Mbit/s"}]}}
)
CELL = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "-").cell(ClientSpec(name="new"))
REAL = ReleaseRow.named("dsl-50--h2-get-40x10kB-p10-discard", "-").cell(ClientSpec(name="new"))


class Heard(Silent):
    """Keeps verdicts and skips."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def verdict(self, cell: str, verdict: Verdict) -> None:
        self.seen.append(f"{cell} {verdict.name}")

    def skipped(self, reason: str) -> None:
        self.seen.append(f"skipped {reason}")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def session(fake_lab: FakeLab, folder: Path, heard: Heard, **options: Any) -> Session:
    return Session(RunDir.create("test", results=folder), replace(fake_lab.options(), **options), progress=heard)


def booting(made: Session) -> list[Any]:
    """Notes from now on what machines in virtual time are booted for."""
    booted: list[Any] = []

    def boot(ids: Any, size: int, **how: Any) -> None:
        booted.append((list(ids), size, how["wiring"].same_host, how["userlands"], how["http3"]))
        network = FakeNetwork("machine")
        network.clock = SimpleNamespace(kind="virtual")
        made.lab.network, made.lab.servers = network, SimpleNamespace()  # type: ignore[assignment]

    made.lab.boot = boot  # type: ignore[assignment, method-assign]
    return booted


def test_a_bench_in_real_time_has_the_link_and_forgets_it(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard)
    shaped: list[Any] = []
    shape = fake_lab.shape
    object.__setattr__(made.options.instruments, "shape", lambda _, link: shaped.append(link) or shape())  # type: ignore[func-returns-value]
    for topology in (TOPOLOGY, FREE):
        with made.bench("it", topology) as (network, servers):
            assert (network, servers) == made.lab.up
        assert made.lab.calibration is None
    assert shaped == [TOPOLOGY.link, FREE.link]
    with made.bench("it", FREE):
        pass
    assert len(shaped) == 3, "the link was forgotten"
    assert len(fake_lab.opened) == 1


@pytest.mark.parametrize(("clock", "real", "virtual"), [("virtual", False, True), ("auto", False, True), ("auto", True, False)])
def test_a_bench_is_in_virtual_time_unless_it_asks_about_the_machine(
    fake_lab: FakeLab, tmp_path: Path, heard: Heard, clock: Any, real: bool, virtual: bool
) -> None:
    made = session(fake_lab, tmp_path, heard, clock=clock)
    booted = booting(made)
    shaped: list[Any] = []
    object.__setattr__(made.options.instruments, "shape", lambda _, link: shaped.append(link))
    with made.bench("it", FREE, real=real):
        pass
    assert booted == ([(["it"], 0, False, Userlands(client="", server=""), None)] if virtual else [])
    assert shaped == [FREE.in_virtual_time().link if virtual else FREE.link]


def test_a_client_must_speak_the_protocol_unless_its_userlands_program_does(
    fake_lab: FakeLab, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(session_module, "assert_speaks_here", lambda *words: asked.append(words[-1]))
    own = Userlands(client="debian-12", server="")
    for number, (client, transfer, userlands) in enumerate(
        (
            (CELL.client, CELL.transfer, Userlands(client="", server="")),
            (CELL.client, CELL.transfer, own),
            (None, CELL.transfer, Userlands(client="", server="")),
            (CELL.client, None, Userlands(client="", server="")),
        )
    ):
        made = session(fake_lab, tmp_path, heard, clock="virtual", userlands=userlands)
        booting(made)
        with made.bench(f"bench {number}", TOPOLOGY, client=client, transfer=transfer):
            pass
    assert asked == ["bench 0"]


def test_a_bench_needs_a_link_that_stays(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard)
    words = "train has a schedule, and an event needs a link that stays as it is"
    with pytest.raises(NotSupported, match=f"it: {words}"), made.bench("it", CHANGING):
        pass
    assert (heard.seen, made.skipped, fake_lab.opened) == ([f"skipped it: {words}"], {"it": words}, [])


def test_a_bench_that_fails_forgets_the_link_too(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard)

    def fail() -> None:
        with made.bench("it", TOPOLOGY):
            raise LabFault("broken")

    with pytest.raises(LabFault, match="broken"):
        fail()
    assert made.lab._shaped is None
    assert made.skipped == {}


def test_a_skip_is_kept_without_the_name_that_it_is_kept_under(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard)
    with pytest.raises(NotSupported), made.noting_skip("cell"):
        raise NotSupported("cell: it cannot")
    assert (made.skipped, heard.seen) == ({"cell": "it cannot"}, ["skipped cell: it cannot"])


def test_an_answer_is_written_and_shown_where_it_counts(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard)
    cell = made.run_cell(CELL)
    assert heard.seen == [f"{cell.id} PASS"]
    (order, results) = made.run_together("x", [CELL, REAL], 2)
    assert (order, [result.id for result in results]) == ([0, 1, 1, 0], [CELL.id, REAL.id])
    assert [len(result.samples) for result in results] == [2, 2]
    assert [result.id for result in made.results] == [CELL.id, REAL.id], "what ran again takes the place of what was"
    unjudged: Any = SimpleNamespace(id="a", verdict=None, counts=True)
    uncounted: Any = SimpleNamespace(id="b", verdict=Verdict(name="FAIL", reason=""), counts=False)
    made.run.write_answer = lambda answer: tmp_path / answer.id  # type: ignore[method-assign]
    before = list(heard.seen)
    for each in (unjudged, uncounted):
        assert made.keep(each) is each
    assert heard.seen == before
    counted: Any = SimpleNamespace(id="c", verdict=Verdict(name="FAIL", reason=""), counts=True)
    made.keep(counted)
    assert heard.seen[-1] == "c FAIL"
    assert [each.id for each in made.answers] == ["a", "b", "c"]


def test_an_abandoned_lab_writes_neither_a_cell_nor_an_answer(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard)

    def rate(_: str, index: int) -> float:
        made.lab.abandoned = index == 1
        return 1e6

    fake_lab.rate = rate
    with pytest.raises(LabFault, match="the run was interrupted"):
        made.run_cell(CELL)
    with pytest.raises(LabFault, match="the run was interrupted"):
        made.keep(SimpleNamespace(id="a", verdict=None, counts=True))  # type: ignore[arg-type]
    assert (list(made.run.cells.glob("*.json")), made.results, made.answers, heard.seen) == ([], [], [], [])


def test_a_session_with_results_writes_its_record_and_one_without_none(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    with session(fake_lab, tmp_path, heard) as empty:
        pass
    assert empty.recorded is None
    with session(fake_lab, tmp_path, heard) as made:
        result = made.run_cell(CELL)
    assert made.recorded == read_run(made.run.path)
    assert made.recorded
    assert made.recorded.cells == [result.id]
    assert not any(network.open for network in fake_lab.opened)


def test_a_lane_has_a_network_of_its_own_name_and_what_is_known_of_the_client(
    fake_lab: FakeLab, tmp_path: Path, heard: Heard
) -> None:
    made = session(fake_lab, tmp_path, heard)
    made.lab.client_facts = {"score": 1}
    lane = made.lane(3, heard)
    assert (lane.run, lane.lab.name, lane.lab.client_facts) == (made.run, f"{made.run.name}-lane3", {"score": 1})
    assert lane.progress is heard
    lane.bring_up()
    assert [network.name for network in fake_lab.opened] == [f"{made.run.name}-lane3"]


def test_looks_are_those_of_the_clock(fake_lab: FakeLab, tmp_path: Path, heard: Heard) -> None:
    made = session(fake_lab, tmp_path, heard, clock="auto")
    assert made.looks_for([CELL]) == made.options.virtual_looks
    assert made.looks_for([REAL]) == made.options.looks
    assert made.options.virtual_looks != made.options.looks
