"""Which clock a command runs by: what its options come to together, and which of them contradict each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer

from lab.backend.choose import BACKENDS
from lab.cli import main
from lab.cli.options import AskedBackend, AskedClock
from lab.cli.place import DEFAULT_SEED, Only, Place, Turn, place, session_options
from lab.errors import UsageProblem
from lab.runner.machine import holders
from lab.spec.clock import CHARGE_NS
from lab.spec.units import Duration

AUTO, VIRTUAL, REAL = AskedClock.AUTO, AskedClock.VIRTUAL, AskedClock.REAL
HOSTS = AskedBackend
PERF = Only("--flamegraph", "perf cannot see into the guest")


@pytest.mark.parametrize(
    ("clock", "backend", "router", "expected"),
    [
        (AUTO, HOSTS.AUTO, "auto", Place("auto")),
        (VIRTUAL, HOSTS.AUTO, "auto", Place("virtual")),
        (REAL, HOSTS.AUTO, "auto", Place("real")),
        (AUTO, HOSTS.VIRTUAL, "auto", Place("virtual")),
        (VIRTUAL, HOSTS.VIRTUAL, "auto", Place("virtual")),
        (AUTO, HOSTS.NAMESPACES, "auto", Place("real")),
        (AUTO, HOSTS.COMPOSE, "auto", Place("real", "compose")),
        (REAL, HOSTS.VAGRANT, "auto", Place("real", "vagrant")),
        (AUTO, HOSTS.AUTO, "kernel", Place("real", router="kernel")),
        (AUTO, HOSTS.AUTO, "uml", Place("real", router="uml")),
    ],
)
def test_what_options_come_to(clock: AskedClock, backend: AskedBackend, router: str, expected: Place) -> None:
    assert place(clock, backend, router) == expected


def test_an_option_of_real_time_makes_the_rest_real() -> None:
    assert place(AUTO, HOSTS.AUTO, "auto", real_only=PERF).clock == "real"


def test_a_seed_is_the_sessions_and_one_is_the_default() -> None:
    wait = Duration(0)
    with Turn(wait, beside=False) as turn:
        assert session_options(place(AUTO, HOSTS.AUTO, "auto", seed=7), turn, any_host=True).seed == 7
        assert session_options(place(VIRTUAL, HOSTS.AUTO, "auto"), turn, any_host=True).seed == DEFAULT_SEED


def test_the_price_of_a_system_call_is_the_sessions() -> None:
    with Turn(Duration(0), beside=False) as turn:
        dear = place(AUTO, HOSTS.AUTO, "auto", price=Duration.parse("10us"))
        assert session_options(dear, turn, any_host=True).charge_ns == 10_000
        assert session_options(place(AUTO, HOSTS.AUTO, "auto"), turn, any_host=True).charge_ns == CHARGE_NS


@pytest.mark.parametrize(
    ("clock", "backend", "router", "more", "said"),
    [
        (VIRTUAL, HOSTS.COMPOSE, "auto", {}, ("--clock virtual", "--backend compose")),
        (VIRTUAL, HOSTS.NAMESPACES, "auto", {}, ("--clock virtual", "--backend namespaces")),
        (VIRTUAL, HOSTS.AUTO, "uml", {}, ("--clock virtual", "--router uml", "kernel")),
        (REAL, HOSTS.VIRTUAL, "auto", {}, ("--backend virtual", "--clock real")),
        (AUTO, HOSTS.VIRTUAL, "kernel", {}, ("--backend virtual", "--router kernel")),
        (VIRTUAL, HOSTS.AUTO, "auto", {"real_only": PERF}, ("--clock virtual", "--flamegraph", "perf")),
        (REAL, HOSTS.AUTO, "auto", {"seed": 3}, ("--seed 3", "--clock real")),
        (AUTO, HOSTS.COMPOSE, "auto", {"seed": 3}, ("--seed 3", "--backend compose")),
        (AUTO, HOSTS.AUTO, "auto", {"seed": 3, "real_only": PERF}, ("--seed 3", "--flamegraph")),
        (REAL, HOSTS.AUTO, "auto", {"price": Duration(10_000)}, ("--price 10 us", "--clock real")),
        (AUTO, HOSTS.AUTO, "uml", {"price": Duration(0)}, ("--price", "--router uml")),
    ],
)
def test_contradictions(
    clock: AskedClock, backend: AskedBackend, router: str, more: dict[str, object], said: tuple[str, ...]
) -> None:
    with pytest.raises(UsageProblem) as found:
        place(clock, backend, router, **more)  # type: ignore[arg-type]
    assert all(word in str(found.value) for word in said)
    assert "contradict" in found.value.message
    assert found.value.exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["run", "throttle"],
        ["qualify", "ferry"],
        ["repro"],
        ["bisect", "upload-limit", "--good", "curl@8.17.0", "--bad", "curl@8.23.0"],
        ["calibrate"],
        ["shell"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_says_it_in_one_line(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Path
) -> None:
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
    monkeypatch.setenv("THROUGHLINE_LOCK", str(lock))
    with Turn(Duration(0), beside=False) as turn:
        assert not lock.exists()
        with turn.take():
            assert len(holders(lock)) == 1
        assert len(holders(lock)) == 1, "another session of the command may follow"
        with turn.take():
            pass
    assert holders(lock) == []


def test_every_backend_in_real_time_can_be_asked_for() -> None:
    assert {each.value for each in AskedBackend} == {"auto", "virtual", *BACKENDS}
