"""Any command on the client's host: how it is described, and what crossed the link meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed, Ports
from lab.net.ports import PortCounters, PortReading
from lab.net.series import SLOT_NS
from lab.run import commands
from lab.run.commands import Measured, Way, measure

MS = 1_000_000
WAY = Way(10, 5, None, None)


def measured(**more: Any) -> Measured:
    known = {"argv": ("it", "--fast"), "exit_code": 3, "stdout": "", "stderr": "", "seconds": 1.5, "timed_out": False}
    return Measured(**{**known, "up": WAY, "down": Way(20, 7, None, None), **more})


def test_a_command_is_described_in_one_line() -> None:
    assert str(measured()) == "it --fast: exit code 3 after 1.500 s, 5 bytes up, 7 bytes down"
    assert str(measured(timed_out=True)) == "it --fast: killed after 1.500 s, 5 bytes up, 7 bytes down"
    for length, shown in ((200, "x" * 200), (201, "x" * 200 + "...")):
        assert str(measured(argv=("x" * length,))).partition(":")[0] == shown


def test_a_rate_is_of_the_time_in_which_payload_flowed() -> None:
    assert Way(0, 1000, 0.5, None).byte_s == 2000
    assert (Way(0, 1000, None, None).byte_s, Way(0, 1000, 0.0, None).byte_s) == (None, None)


@dataclass
class World:
    """A network whose client ends with that code; 1,448 bytes leave its port every 10 ms, with a pause."""

    code: int = 0
    told: list[Any] = field(default_factory=list)
    rows: Sequence[PortReading] = ()

    def run(self, argv: Any, *, env: dict[str, str], cwd: str, timeout_s: float, check: bool) -> Completed:
        self.told.append(("run", argv, env, cwd, timeout_s, check))
        return Completed(tuple(argv), self.code, b"out", b"err\xff", 100 * MS, 2_100 * MS, 0, 0, timed_out=self.code == 9)

    def between(self, start_ns: int, end_ns: int) -> Sequence[PortReading]:
        self.told.append(("between", start_ns, end_ns))
        return self.rows

    @property
    def network(self) -> Any:
        client = SimpleNamespace(under_test=self, end_processes=lambda mark: self.told.append(("end", mark)))
        return SimpleNamespace(client=client, wire_ports=Ports(client="c", server="s"), random_bytes=bytes)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    @contextmanager
    def sampler(_: object) -> Iterator[World]:
        yield made

    monkeypatch.setattr(commands, "PortSampler", sampler)
    return made


def do(world: World) -> Measured:
    return measure(world.network, ["it"], environment={"A": "1"}, folder="/w", timeout_s=7.0)


def test_a_command_runs_in_its_folder_and_what_it_leaves_behind_is_ended(world: World) -> None:
    found = do(world)
    mark = "ROUGHWATER_SAMPLE=" + "00" * 8
    assert world.told == [
        ("run", ["it"], {"A": "1", "ROUGHWATER_SAMPLE": "00" * 8}, "/w", 7.0, False),
        ("end", mark),
        ("between", 100 * MS, 2_100 * MS + SLOT_NS),
    ]
    assert (found.argv, found.exit_code, found.stdout, found.stderr, found.seconds) == (("it",), 0, "out", "err\ufffd", 2.0)
    assert found.up == found.down == Way(0, 0, None, None)


def test_a_schedule_begins_with_the_command_and_ends_after_it(world: World) -> None:
    changing: Any = SimpleNamespace(start=lambda: world.told.append("begun"))

    @contextmanager
    def schedule() -> Iterator[Any]:
        yield changing
        world.told.append("over")

    measure(world.network, ["it"], environment={}, folder="/w", timeout_s=7.0, schedule=schedule())
    what = [each if isinstance(each, str) else each[0] for each in world.told]
    assert what == ["begun", "run", "end", "between", "over"]


@pytest.mark.parametrize(("code", "shown"), [(0, 0), (1, 1), (255, 255), (-1, 129), (-9, 137)])
def test_an_exit_code_is_a_shells(world: World, code: int, shown: int) -> None:
    world.code = code
    found = do(world)
    assert (found.exit_code, found.timed_out) == (shown, False)
    world.code = 9
    assert do(world).timed_out


def test_each_way_is_counted_at_its_own_port(world: World) -> None:
    # Down a megabyte from 100 ms to 300 ms, silent from 200 ms to 250 ms; up an acknowledgement for each two segments.
    sent, rows = 0, []
    for t_ms in range(0, 400, 10):
        busy = 100 < t_ms <= 300 and not 200 < t_ms <= 250
        sent += 46 * busy
        rows.append(
            PortReading(
                t_ms * MS,
                {"c": PortCounters(0, 0, 500 + 1514 * sent, 5 + sent), "s": PortCounters(0, 0, 66 * sent // 2, sent // 2)},
            )
        )
    world.rows = rows
    found = do(world)
    assert (found.down.wire_bytes, found.down.payload_bytes) == (1514 * sent, 1448 * sent)
    assert found.down.payload_s == pytest.approx(0.19)
    assert found.down.longest_gap_s == pytest.approx(0.05)
    assert found.down.byte_s == pytest.approx(1448 * sent / 0.19)
    assert (found.up.wire_bytes, found.up.payload_bytes) == (66 * sent // 2, 0)
    assert (found.up.payload_s, found.up.longest_gap_s, found.up.byte_s) == (None, None, None)
