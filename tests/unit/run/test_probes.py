"""Tries run ahead change no step of a search; what is not asked for is ended, and an interrupt ends all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.judge.bisect import Expected
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.errors import LabFault, NotSupported
from lab.robot.bugs import find_scenario
from lab.run import probes as module
from lab.run.probes import Probes, search
from lab.run.search import Trial, step_answer, walk
from lab.run.session import Options

SCENARIO = find_scenario("curl--dsl-50--http1-put-1999999B-at-1MBps")
V = [f"v{index}" for index in range(8)]


@dataclass
class Bench:
    """Stands in for machines: which candidates are bad, how many ran at once, and which never end by themselves."""

    first_bad: int = 5
    slow: set[str] = field(default_factory=set)
    begun: list[tuple[str, int]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, trial: Trial) -> Answer:
        name = trial.cell.client.name
        with self.lock:
            self.begun.append((name, trial.session.options.seed))
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            until = time.monotonic() + (60 if name in self.slow else 0.02)
            while time.monotonic() < until:
                if trial.session.lab.abandoned:
                    with self.lock:
                        self.ended.append(name)
                    raise LabFault("the run was interrupted")
                time.sleep(0.002)
        finally:
            trial.discard()
            with self.lock:
                self.at_once -= 1
        return step_answer(name, "FAIL" if int(name[1:]) >= self.first_bad else "PASS", "+1 %")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    made = Bench()
    monkeypatch.setattr(Trial, "run", lambda trial: made.run(trial))  # noqa: PLW0108 - a bound method is not bound again
    monkeypatch.setattr(module, "side_by_side", lambda: 3)
    yield made
    assert made.at_once == 0, "nothing goes on after the search"


def walked(**more: Any) -> tuple[list[str], Any]:
    told: list[Answer] = []
    given: dict[str, Any] = {"ready": lambda _: True, **more}
    found = search(V, SCENARIO, str, Options(clock="auto"), told.append, **given)
    return [f"{step.id} {step.facts['why']} {step.judged.name}" for step in told], found


@pytest.mark.parametrize("first_bad", range(1, 8))
def test_the_steps_are_those_of_one_try_after_the_other(bench: Bench, first_bad: int) -> None:
    bench.first_bad = first_bad
    alone: list[Answer] = []
    judged = walk(V, lambda name, _: step_answer(name, "FAIL" if int(name[1:]) >= first_bad else "PASS", "+1 %"), alone.append)
    steps, found = walked()
    assert steps == [f"{step.id} {step.facts['why']} {step.judged.name}" for step in alone]
    assert (found.conclusion, found.exit_code) == (judged.conclusion, 0)
    assert 1 < bench.most_at_once <= 3
    assert len(set(bench.begun)) == len(bench.begun), "no try is run twice: a second one of a candidate has its own seed"


def test_what_is_no_longer_expected_is_ended(bench: Bench) -> None:
    """v3 FAILs, so the tries of v4 to v6 begun meanwhile are useless and must not occupy the core."""
    bench.first_bad = 2
    bench.slow = {"v4", "v5", "v6"}
    _, found = walked()
    assert found.conclusion.suspects == ("v2",)
    # Whether one of them was begun at all depends on how quickly threads come to run.
    assert {name for name, _ in bench.begun} & bench.slow <= set(bench.ended)


def test_what_must_be_built_first_is_built_when_it_is_due_and_not_before(bench: Bench) -> None:
    built: list[str] = []

    def build(name: str) -> str:
        built.append(name)
        return name

    told: list[Answer] = []
    search(V, SCENARIO, build, Options(clock="auto"), told.append, ready=lambda name: name in built)
    asked = list(dict.fromkeys(step.id for step in told))
    assert list(dict.fromkeys(built)) == asked
    assert {name for name, _ in bench.begun} == set(asked)


def test_what_cannot_be_built_is_stepped_around(bench: Bench) -> None:
    def build(name: str) -> str:
        if name == "v4":
            raise LabFault("v4 cannot be built: no header")
        return name

    bench.first_bad = 5
    told: list[Answer] = []
    found = search(V, SCENARIO, build, Options(clock="auto"), told.append, ready=lambda name: name != "v4")
    assert found.skipped == {"v4": "v4 cannot be built: no header"}
    assert (found.conclusion.kind, found.conclusion.suspects, found.exit_code) == ("range", ("v4", "v5"), 3)


def test_what_ends_a_try_ends_the_search(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    """Even a defect of the lab: the thread in which it happened keeps it for the search."""
    assert not bench.begun
    monkeypatch.setattr(Trial, "run", lambda _: {}["nothing"])
    with pytest.raises(KeyError):
        walked()


def test_an_interrupt_ends_every_try(bench: Bench) -> None:
    bench.slow = {"v7", "v3"}

    def told(_: Answer) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(V, SCENARIO, str, Options(clock="auto"), told, ready=lambda _: True)
    assert "v7" in bench.ended


def test_a_try_that_is_due_replaces_the_least_likely_one(bench: Bench) -> None:
    bench.slow = {"v7", "v3"}
    with Probes(SCENARIO, str, Options(clock="auto"), ready=lambda _: True, most=2) as probes:
        one, other, due = (Expected(name, LookPlan(), 0) for name in ("v7", "v3", "v1"))
        probes.expect([one, other, due])
        probes._fill()
        assert probes.judge("v1", LookPlan()).judged.name == "PASS"
        assert bench.ended == ["v3"]
        assert bench.most_at_once == 2


def test_in_real_time_one_try_follows_the_other(bench: Bench) -> None:
    told: list[Answer] = []
    found = search(V, SCENARIO, str, Options(clock="real"), told.append, ready=lambda _: True)
    assert found.exit_code == 0
    assert bench.most_at_once == 1
    assert [name for name, _ in bench.begun] == [step.id for step in told]


def test_what_virtual_time_has_no_answer_to_is_refused_at_once(bench: Bench) -> None:
    cpu = find_scenario("curl--dsl-50--h2-get-4x5MiB-at-1MBps-p4--cpu")
    with pytest.raises(NotSupported, match="CPU time"):
        search(V, cpu, str, Options(clock="virtual"), lambda _: None, ready=lambda _: True)
    assert not bench.begun
