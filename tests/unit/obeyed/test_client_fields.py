"""Every field of a client's file has an effect on what its adapter does, and every front end runs it by that adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from robot.api import SkipExecution

from lab.clients.described import load_client
from lab.model.client import ClientFile
from lab.model.clock import Clock
from lab.model.errors import UsageProblem
from lab.model.libcurl import LibcurlSettings
from lab.model.obeyed import FRONT_ENDS, FrontEnd, refusal
from tests.unit.obeyed.effects import client_effects
from tests.unit.obeyed.fields import Leaf, client_leaves, client_pair, leaves
from tests.unit.obeyed.given import Given, finish, prepare
from tests.unit.obeyed.ways import WAYS, cells

CLOCKED: list[tuple[FrontEnd, Clock]] = [
    (front_end, clock) for front_end, facts in FRONT_ENDS.items() if "ClientFile" in facts.takes for clock in facts.clocks
]
CLIENT = {
    "name": "mine",
    "program": "/bin/echo",
    "version": ["1"],
    "protocols": ["http1", "h3"],
    "get": "{program} {options} {url}",
    "get_discard": "{program} {files} {parallel} {url}",
    "limit": "-l {limit}",
    "buffer": {"option": "-b {buffer}", "least": "1 KiB"},
    "files": {"mine.conf": "{host}"},
    "environment": {"MINE": "{ca}"},
    "notes": ["a note"],
}
TOPOLOGY = {"name": "net", "description": "A test.", "link": {"rate": "20 Mbit/s", "rtt": "40 ms"}}


def write(folder: Path, document: dict[str, Any]) -> Path:
    """JSON is YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{document['name']}.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


@pytest.mark.parametrize("leaf", client_leaves(), ids=lambda leaf: leaf.path)
def test_a_field_has_an_effect(leaf: Leaf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A build of the application has the description's settings. Its version is in the message that none has been built.
    program = "/opt/mine" if leaf.model == LibcurlSettings.__name__ and leaf.path != "libcurl.version" else ""
    found = []
    for number, document in enumerate(client_pair(leaf)):
        folder = tmp_path / str(number) / "clients"
        monkeypatch.setenv("ROUGHWATER_CLIENTS", str(folder))
        effects = client_effects(write(folder, document), program=program)
        found.append(json.dumps(effects, default=repr).replace(str(folder), ""))
    assert found[0] != found[1], f"nothing obeys {leaf.path}: let the adapter do so, or refuse it in lab.model.obeyed"


def test_a_planted_field_is_found(tmp_path: Path) -> None:
    class Planted(ClientFile):
        colour: str = ""

    assert "colour" in {leaf.path for leaf in leaves(Planted)}
    with pytest.raises(UsageProblem, match="colour: unknown field"):
        load_client(write(tmp_path, {**CLIENT, "colour": "red"}))


def drive(front_end: FrontEnd | None, clock: Clock, folder: Path, client: dict[str, Any]) -> dict[str, Any]:
    """What arrives of a client's file; with `problem` where it is refused."""
    with pytest.MonkeyPatch.context() as patch:
        given = Given(write(folder / "topologies", TOPOLOGY), clock, patch, folder, str(write(folder / "clients", client)))
        prepare(given)
        try:
            (WAYS[front_end] if front_end else cells)(given)
        except (UsageProblem, SkipExecution) as problem:
            return {"problem": str(problem)}
        finish(given)
        return given.arrived


@pytest.mark.parametrize(("front_end", "clock"), CLOCKED)
def test_a_front_end_runs_the_client_that_its_file_describes(front_end: FrontEnd, clock: Clock, tmp_path: Path) -> None:
    assert drive(front_end, clock, tmp_path, CLIENT).get("client") == ClientFile.model_validate(CLIENT)


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_cell_runs_the_client_that_its_file_describes(clock: Clock, tmp_path: Path) -> None:
    assert drive(None, clock, tmp_path, CLIENT)["client"] == ClientFile.model_validate(CLIENT)


@pytest.mark.parametrize(("front_end", "clock"), CLOCKED)
def test_the_userland_of_a_client_is_its_hosts_or_refused(front_end: FrontEnd, clock: Clock, tmp_path: Path) -> None:
    client = {**CLIENT, "userland": "debian:13"}
    found = drive(front_end, clock, tmp_path, client)
    if problem := refusal(front_end, ClientFile.model_validate(client), clock):
        assert problem.message in found["problem"]
    elif front_end == "robot steps":
        # Its network was there before the client was known.
        assert found["problem"] == "mine needs --userland client=debian:13"
    else:
        assert found["client"].userland == "debian:13"
        # Front ends that hand a cell on leave its userland to the session, as the test below shows.
        named = found["userlands"]
        assert named is None or named.client == "debian:13"


def test_the_userland_of_a_cells_client_is_its_hosts(tmp_path: Path) -> None:
    assert drive(None, "virtual", tmp_path, {**CLIENT, "userland": "debian:13"})["userlands"].client == "debian:13"
