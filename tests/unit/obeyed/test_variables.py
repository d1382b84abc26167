"""The variables of `--env` reach the client by every way that runs one, in both clocks; no other of the caller's does."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from lab.cli import run as command
from lab.cli.main import GROUPS
from lab.clients.registry import resolve
from lab.clients.variables import with_variables
from lab.hosts.host import Host
from lab.model.clock import Clock
from lab.model.errors import LabFault
from lab.model.obeyed import FrontEnd
from lab.run import session as sessions
from lab.run.options import Options
from lab.run.workers.task import sendable
from tests.unit.obeyed.effects import ENDS
from tests.unit.obeyed.given import Given, prepare
from tests.unit.obeyed.test_client_fields import CLIENT, TOPOLOGY, write
from tests.unit.obeyed.ways import WAYS, cells

VARIABLES = {"MINE": "another", "EMPTY": ""}


def given_variables(front_end: FrontEnd | None, clock: Clock, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of the described client, whose own MINE is a file's name."""
    patch.setenv("SECRET", "not passed on")
    client = str(write(folder / "clients", CLIENT))
    given = Given(write(folder / "topologies", TOPOLOGY), clock, patch, folder, client, VARIABLES)
    prepare(given)
    (WAYS[front_end] if front_end else cells)(given)
    return dict(given.arrived["environment"])


@pytest.mark.parametrize("clock", ["virtual", "real"])
@pytest.mark.parametrize("front_end", [None, "event", "robot steps"])
def test_a_client_has_them_in_a_cell_in_an_event_and_in_steps(
    front_end: FrontEnd | None, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = given_variables(front_end, clock, tmp_path, monkeypatch)
    plain = resolve(sessions.ClientSpec.parse(str(tmp_path / "clients" / "mine.yaml"))).environment(ENDS)
    assert found == {**plain, **VARIABLES}
    assert "SECRET" not in found


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_lab_run_hands_them_on(clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOURS", "the caller's")
    given = Given(write(tmp_path / "topologies", TOPOLOGY), clock, monkeypatch, tmp_path)
    prepare(given)

    def reached(lab: Any, *_: object, **__: object) -> None:
        given.note(variables=lab.options.variables)
        raise LabFault("it is reached")

    monkeypatch.setattr(sessions, "Interleaving", reached)
    with pytest.raises(LabFault):
        command.run([given.cell], topology=[str(given.file)], clock=clock, env=["MINE=a=b", "YOURS"])
    assert given.arrived["variables"] == {"MINE": "a=b", "YOURS": "the caller's"}


def test_workers_get_them() -> None:
    assert sendable(Options(variables=VARIABLES)).variables == VARIABLES


def test_a_version_is_asked_with_them_and_the_identity_has_them() -> None:
    asked: list[Any] = []
    answer = SimpleNamespace(text="/usr/bin/curl\n00\ncurl 8\n", returncode=0)
    host = SimpleNamespace(name="client", platform="linux", identify=lambda *words: asked.append(words) or answer)
    identity = with_variables(resolve(sessions.ClientSpec(name="curl")), VARIABLES).identify(cast(Host, host))
    assert asked[0][-1] == VARIABLES
    assert identity.variables == VARIABLES
    assert identity.version == "curl 8"


def test_a_client_without_any_is_itself() -> None:
    adapter = resolve(sessions.ClientSpec(name="curl"))
    assert with_variables(adapter, {}) is adapter


def test_the_commands_that_take_them() -> None:
    every = typer.Typer()
    for name in GROUPS:
        import_module(f"lab.cli.{name}").register(every)
    found = {
        each.callback.__name__
        for each in every.registered_commands
        if each.callback and "env" in inspect.signature(each.callback).parameters
    }
    assert found == {"run", "shell", "exec_command", "rerun", "own_tests"}
