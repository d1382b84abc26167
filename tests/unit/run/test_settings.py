"""Which clock a command runs by: what its options come to together, and which of them contradict each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer

from lab.cli import main
from lab.hosts.choose import BackendChoice
from lab.model.clock import CHARGE_NS, ClockChoice
from lab.model.errors import UsageProblem
from lab.model.units import Duration
from lab.run.lock import MachineLock, holders
from lab.run.settings import DEFAULT_SEED, Only, RunSettings, choose

AUTO: ClockChoice = "auto"
VIRTUAL: ClockChoice = "virtual"
REAL: ClockChoice = "real"
PERF = Only("--flamegraph", "perf cannot see into the guest")


@pytest.mark.parametrize(
    ("clock", "backend", "router", "expected"),
    [
        (AUTO, "auto", "auto", RunSettings("auto")),
        (VIRTUAL, "auto", "auto", RunSettings("virtual")),
        (REAL, "auto", "auto", RunSettings("real")),
        (AUTO, "virtual", "auto", RunSettings("virtual")),
        (VIRTUAL, "virtual", "auto", RunSettings("virtual")),
        (AUTO, "namespaces", "auto", RunSettings("real")),
        (AUTO, "compose", "auto", RunSettings("real", "compose")),
        (REAL, "vagrant", "auto", RunSettings("real", "vagrant")),
        (AUTO, "auto", "kernel", RunSettings("real", router="kernel")),
        (AUTO, "auto", "uml", RunSettings("real", router="uml")),
    ],
)
def test_what_options_come_to(clock: ClockChoice, backend: BackendChoice, router: str, expected: RunSettings) -> None:
    assert choose(clock, backend, router) == expected


def test_an_option_of_real_time_makes_the_rest_real() -> None:
    assert choose(AUTO, "auto", "auto", real_only=PERF).clock == "real"


def test_a_seed_is_the_sessions_and_one_is_the_default() -> None:
    with choose(AUTO, "auto", "auto", seed=7).options() as options:
        assert options.seed == 7
    with choose(VIRTUAL, "auto", "auto").options() as options:
        assert options.seed == DEFAULT_SEED


def test_the_price_of_a_system_call_is_the_sessions() -> None:
    with choose(AUTO, "auto", "auto", price=Duration.parse("10us")).options() as options:
        assert options.charge_ns == 10_000
    with choose(AUTO, "auto", "auto").options() as options:
        assert options.charge_ns == CHARGE_NS


@pytest.mark.parametrize(
    ("clock", "backend", "router", "more", "said"),
    [
        (VIRTUAL, "compose", "auto", {}, ("--clock virtual", "--backend compose")),
        (VIRTUAL, "namespaces", "auto", {}, ("--clock virtual", "--backend namespaces")),
        (VIRTUAL, "auto", "uml", {}, ("--clock virtual", "--router uml", "kernel")),
        (REAL, "virtual", "auto", {}, ("--backend virtual", "--clock real")),
        (AUTO, "virtual", "kernel", {}, ("--backend virtual", "--router kernel")),
        (VIRTUAL, "auto", "auto", {"real_only": PERF}, ("--clock virtual", "--flamegraph", "perf")),
        (REAL, "auto", "auto", {"seed": 3}, ("--seed 3", "--clock real")),
        (AUTO, "compose", "auto", {"seed": 3}, ("--seed 3", "--backend compose")),
        (AUTO, "auto", "auto", {"seed": 3, "real_only": PERF}, ("--seed 3", "--flamegraph")),
        (REAL, "auto", "auto", {"price": Duration(10_000)}, ("--price 10 us", "--clock real")),
        (AUTO, "auto", "uml", {"price": Duration(0)}, ("--price", "--router uml")),
    ],
)
def test_contradictions(
    clock: ClockChoice, backend: BackendChoice, router: str, more: dict[str, object], said: tuple[str, ...]
) -> None:
    with pytest.raises(UsageProblem) as found:
        choose(clock, backend, router, **more)  # type: ignore[arg-type]
    assert all(word in str(found.value) for word in said)
    assert "contradict" in found.value.message
    assert found.value.exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["run", "throttle"],
        ["qualify", "ferry"],
        ["repro"],
        ["bisect", "upload-limit", "--good", "curl@8.17.0", "--bad", "curl@8.22.0"],
        ["calibrate"],
        ["shell"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_says_it_in_one_line(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(results))
    monkeypatch.setattr(sys, "argv", ["lab", *command, "--clock", "virtual", "--backend", "compose"])
    monkeypatch.setattr(main, "app", typer.Typer())
    main.app.callback()(lambda: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        "lab: --clock virtual and --backend compose contradict each other: its hosts live by this machine's clock "
        "(leave one of them out)"
    ]
    assert not results.exists()


def test_the_machine_is_taken_when_real_time_begins_and_kept_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    monkeypatch.setenv("ROUGHWATER_LOCK", str(lock))
    with MachineLock(0, beside=False) as lock_of_run:
        assert not lock.exists()
        with lock_of_run.take():
            assert len(holders(lock)) == 1
        assert len(holders(lock)) == 1, "another session of the command may follow"
        with lock_of_run.take():
            pass
    assert holders(lock) == []
