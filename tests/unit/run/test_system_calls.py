"""System calls of one more run: whether perf may count them, how a client is put under it, and what is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.cell import Cell
from lab.model.errors import LabFault, UsageProblem
from lab.model.transfer import ClientSpec
from lab.run import system_calls
from lab.run.release import ReleaseRow
from lab.run.system_calls import check, read_report, record
from tests.support.samples import sample

CELL = ReleaseRow.named("dsl-50--h2-get-40x10kB-p10-discard", "-").cell(ClientSpec(name="curl"))
PERF = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '{report}' >"$2"
exit {code}
"""
GOOD = "9;;raw_syscalls:sys_enter;1;1;;"


def perf(folder: Path, monkeypatch: pytest.MonkeyPatch, report: str, code: int = 0) -> None:
    program = folder / "perf"
    program.write_text(PERF.replace("{report}", report).replace("{code}", str(code)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_perf_may_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perf(tmp_path, monkeypatch, GOOD)
    check()


@pytest.mark.parametrize(("report", "code"), [("", 0), (GOOD, 255), ("<not supported>;;x;1;1;;", 0)])
def test_perf_may_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, code: int) -> None:
    perf(tmp_path, monkeypatch, report, code)
    with pytest.raises(UsageProblem, match="perf may not count system calls on this machine") as caught:
        check()
    assert "kernel.perf_event_paranoid=1" in caught.value.remedy


def test_perf_must_be_there_and_on_the_clients_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageProblem, match="--syscalls needs perf, which is not installed"):
        check()
    with pytest.raises(UsageProblem, match="--syscalls needs perf on the client's host"):
        check("compose")


def test_a_report_has_the_most_frequent_calls_first_and_none_that_never_came() -> None:
    enter = "syscalls:sys_enter_"
    text = f"2;;{enter}read;1\n7;;{enter}poll:u;1\n0;;{enter}write;1\n5;;x\n3;;{enter}b"
    assert list(read_report(text).items()) == [("poll", 7), ("x", 5), ("b", 3), ("read", 2)]
    assert read_report("no report\n1;2\n;;\n") == {}


# --- one more run -----------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A session whose client is counted with that report."""

    folder: Path
    report: str = f"{GOOD}\n4;;syscalls:sys_enter_poll;1\n3;;syscalls:sys_enter_read;1"
    told: list[Any] = field(default_factory=list)
    problem: str = ""
    adapter: Any = None

    def run_command(self, argv: list[str], *, check: bool) -> Any:
        self.told.append((argv, check))
        return SimpleNamespace(text=self.report)

    @property
    def session(self) -> Any:
        client = SimpleNamespace(workdir=PurePosixPath("/w"), under_test="host", run=self.run_command)

        @contextmanager
        def bench(what: str, topology: object, *, real: bool) -> Iterator[Any]:
            self.told.append((what, topology, real))
            yield SimpleNamespace(client=client), "servers"

        return SimpleNamespace(
            bench=bench,
            lab=SimpleNamespace(adapter_on=self.on_host),
            progress=SimpleNamespace(step=self.told.append),
            run=SimpleNamespace(evidence=lambda _: self.folder),
        )

    def on_host(self, host: str, *asked: object) -> Any:
        self.told.append((host, *asked))
        return self.adapter

    def take(self, _: object, servers: str, adapter: Any, transfer: object, index: int) -> Any:
        self.told.append((servers, adapter.command("transfer", "ends"), adapter.name, transfer, index))
        return sample(ok=not self.problem, problem=self.problem)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    adapter = SimpleNamespace(name="curl", command=lambda *words: ["curl", *words], identify=made.told.append)
    monkeypatch.setattr(system_calls, "take_sample", made.take)
    made.adapter = adapter
    return made


def counted(world: World, cell: Cell = CELL) -> float:
    return record(world.session, cell)


def test_a_client_runs_once_more_under_perf_and_its_report_is_taken_away(world: World) -> None:
    assert counted(world) == 9.0
    bench, step, placed, host, taken, read, removed = world.told
    assert bench == (CELL.id, CELL.topology, True)
    assert step == f"{CELL.id}: one run for its system calls"
    assert placed == ("host", CELL.client, CELL.transfer, CELL.id), "the program is where that host has it"
    assert host == "host"
    servers, command, name, transfer, index = taken
    assert (servers, name, transfer, index) == ("servers", "curl", CELL.transfer, 0)
    assert command[:5] == ["perf", "stat", "-x", ";", "-e"]
    assert command[5].startswith("raw_syscalls:sys_enter,syscalls:sys_enter_poll,")
    assert command[6:] == ["-o", "/w/syscalls", "--", "curl", "transfer", "ends"]
    assert (read, removed) == ((["cat", "/w/syscalls"], False), (["rm", "-f", "--", "/w/syscalls"], False))


def test_calls_are_written_by_name_with_the_number_of_requests(world: World) -> None:
    counted(world)
    found = json.loads((world.folder / "syscalls.json").read_text())
    assert found == {"system_calls": 9, "requests": 40, "by_name": {"poll": 4, "read": 3}}


def test_where_the_kernels_side_is_not_counted_the_names_add_up(world: World) -> None:
    world.report = "4;;syscalls:sys_enter_poll:u;1\n3;;syscalls:sys_enter_read:u;1"
    assert counted(world) == 7.0


@pytest.mark.parametrize(
    ("problem", "report", "why"),
    [("cut off", GOOD, "cut off"), ("", "", "perf counted none; sudo sysctl"), ("cut off", "", "cut off")],
)
def test_a_transfer_that_failed_or_was_not_counted_has_no_calls(world: World, problem: str, report: str, why: str) -> None:
    world.problem, world.report = problem, report
    with pytest.raises(LabFault) as caught:
        counted(world)
    assert caught.value.message.startswith(f"the system calls of curl were not counted: {why}")
    assert not (world.folder / "syscalls.json").exists()
