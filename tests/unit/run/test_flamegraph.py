"""The messages when a flame graph is impossible, before any network is up."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from lab.assets.inferno import Inferno
from lab.model.errors import LabFault, UsageProblem
from lab.run import flamegraph


def program(place: Path, script: str) -> Path:
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)
    return place


def test_without_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageProblem, match="not installed") as found:
        flamegraph.get_ready(lambda _: None)
    assert "linux-perf" in found.value.remedy


def test_a_perf_that_may_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "perf", "echo 'No permission to enable cpu-clock event.' >&2\nexit 255")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UsageProblem, match="No permission") as found:
        flamegraph.get_ready(lambda _: None)
    assert "perf_event_paranoid" in found.value.remedy
    assert "\n" not in str(found.value)


def test_the_share_of_a_function_counts_the_samples_below_it_too() -> None:
    stacks = "curl;main;ssl_cf_data_pending;poll 3\ncurl;main;ssl_cf_data_pending_too 5\ncurl;ssl_cf_data_pending 2\n"
    assert flamegraph.share(stacks, "ssl_cf_data_pending") == pytest.approx(0.5)
    assert flamegraph.share(stacks, "absent") == 0
    assert flamegraph.share("", "main") is None


def test_containers_have_no_perf() -> None:
    with pytest.raises(UsageProblem, match="client's host"):
        flamegraph.get_ready(lambda _: None, "compose")


@dataclass(eq=False)
class Client:
    """A host whose perf prints `stacks`."""

    stacks: bytes
    workdir: PurePosixPath = field(default_factory=lambda: PurePosixPath("/w"))
    asked: list[list[str]] = field(default_factory=list)

    @property
    def under_test(self) -> Client:
        return self

    def run(self, argv: list[str], **_: object) -> Any:
        self.asked.append(argv)
        return SimpleNamespace(stdout=self.stacks)


@dataclass
class Adapter:
    """`command` is the client's; what a recording asks for otherwise is the adapter's own."""

    identified: list[object] = field(default_factory=list)

    def identify(self, host: object) -> None:
        self.identified.append(host)

    def command(self, *_: object) -> list[str]:
        return ["client", "--url"]


def drawn(
    monkeypatch: pytest.MonkeyPatch, folder: Path, stacks: bytes, problem: str = ""
) -> tuple[Path, Client, list[list[str]]]:
    """Record with tools that mark what they read."""
    client, adapter, commands = Client(stacks), Adapter(), list[list[str]]()
    tools = [program(folder / name, f'echo {name} "$@"; cat') for name in ("collapse", "draw")]

    def take(_network: object, _servers: object, recorded: Any, _transfer: object, index: int) -> Any:
        assert index == 0
        assert recorded.identified == [client], "what is not the command is the client's own"
        commands.append(recorded.command(None, None))
        return SimpleNamespace(problem=problem)

    monkeypatch.setattr(flamegraph, "take_sample", take)
    session: Any = SimpleNamespace(
        bench=lambda _what, _topology, *, real: nullcontext((SimpleNamespace(client=client), None)) if real else None,
        # The program is where that host has it.
        lab=SimpleNamespace(adapter_on=lambda host, _spec, _transfer, what: {(client, "a-cell"): adapter}[host, what]),
        progress=SimpleNamespace(step=lambda _words: None),
        run=SimpleNamespace(evidence=lambda _what: folder),
    )
    cell: Any = SimpleNamespace(id="a-cell", topology=None, transfer=None, client=SimpleNamespace(name="mine"))
    return flamegraph.record(session, cell, Inferno(*tools)), client, commands


def test_a_recording_is_one_run_of_the_client_under_perf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, client, commands = drawn(monkeypatch, tmp_path, b"main;poll 3\n")
    (command,) = commands
    assert command[:2] == ["perf", "record"]
    assert command[-5:] == ["-o", "/w/perf.data", "--", "client", "--url"]
    assert [argv[0] for argv in client.asked] == ["perf", "rm"], "the recording is read where it was made, and then removed"
    assert client.asked[0][-2:] == ["-i", "/w/perf.data"]
    assert client.asked[1][-1] == "/w/perf.data"
    assert (tmp_path / "stacks.txt").read_text() == "collapse\nmain;poll 3\n"
    assert path.read_text() == "draw --title a-cell\ncollapse\nmain;poll 3\n"


@pytest.mark.parametrize(("problem", "why"), [("", "it was done too soon"), ("exit code 7", "exit code 7")])
def test_a_recording_without_stacks_is_the_labs_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, problem: str, why: str
) -> None:
    with pytest.raises(LabFault) as caught:
        drawn(monkeypatch, tmp_path, b" \n", problem)
    assert caught.value.message == f"perf recorded no stacks of mine: {why}"
    assert not (tmp_path / flamegraph.FILE).exists()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo one >&2; echo last words >&2; exit 3", "last words"),
        ("cat >/dev/null; exit 3", "exit code 3"),
        ("cat >/dev/null", "exit code 0"),
    ],
)
def test_a_tool_that_fails_or_draws_nothing_is_the_labs_fault(tmp_path: Path, script: str, why: str) -> None:
    tool = program(tmp_path / "draw", script)
    with pytest.raises(LabFault) as caught:
        flamegraph._pipe([tool], b"stacks")
    assert caught.value.message == f"draw failed: {why}"
