"""Hosts on which nothing runs: each command is noted with its time, and answers what the test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from lab.hosts.host import Completed, Ports, RouterFacts
from lab.model.clock import Clock as ClockName
from lab.model.paths import project_root
from lab.model.units import Duration
from tests.support.simulated_link import SimulatedClock, StandIn

_SCRIPTS = {path.read_text(encoding="utf-8"): path.stem for path in (project_root() / "lab/net").glob("*_script.py")}


def needs_root(words: tuple[str, ...]) -> bool:
    """Whether a command changes the network, or holds a port below 1024 as the receiver of a flood does."""
    return words[0] in ("tc", "ip", "/bin/sh", "schedule_script", "trace_script") or words == ("flood_script",)


class Noted(NamedTuple):
    """A command, or a script of lab/net by its name and without its source. `what` is run, start, write or stop."""

    at_s: float
    host: str
    what: str
    words: tuple[str, ...]


@dataclass
class NotedNetwork:
    """`answers` gives what a command prints, `codes` its exit code, by its first word; what is not there prints nothing."""

    answers: dict[str, bytes | Callable[[tuple[str, ...]], bytes]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    held: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The qdiscs that are there, by device."""
    ended: set[str] = field(default_factory=set)
    """Commands that end by themselves."""
    kind: ClockName = "virtual"
    router_kind: Any = "kernel"
    seed: bool = True

    def __post_init__(self) -> None:
        self.clock = SimulatedClock(self.kind)
        self.begun_ns = self.clock.now_ns
        self.notes: list[Noted] = []
        self.router_ports = self.wire_ports = Ports(client="to-client", server="to-server")
        self.router_facts = RouterFacts(self.router_kind, "", "", supports_seed=self.seed)
        self.own_delay = Duration(0)
        self.client = self.prober = NotedHost(self, "client", "10.77.1.2")
        self.server = NotedHost(self, "server", "10.77.2.2")
        self.router = self.wire = NotedHost(self, "router", "")

    def note(self, host: str, what: str, words: Sequence[str]) -> tuple[str, ...]:
        """Note it; its words, with a script by its name."""
        if len(words) > 4 and words[4] in _SCRIPTS:
            words = (_SCRIPTS[words[4]], *words[5:])
        self.notes.append(Noted((self.clock.now_ns - self.begun_ns) / 1e9, host, what, tuple(words)))
        return tuple(words)

    def completed(self, words: tuple[str, ...]) -> Completed:
        said = self.answers.get(words[0], b"")
        text = said if isinstance(said, bytes) else said(words)
        now_ns = self.clock.now_ns
        return Completed(words, self.codes.get(words[0], 0), text, b"", now_ns, now_ns, 0.0, 0.0)


@dataclass
class NotedHost(StandIn):
    network: NotedNetwork
    name: str
    address: str
    tap_port: str = "eth0"

    def run(self, argv: Sequence[str], *, root: bool = False, check: bool = True, **_: object) -> Completed:
        words = self.network.note(self.name, "run", argv)
        assert root or not needs_root(words), f"{words[0]} needs root"
        if words[:3] == ("tc", "qdisc", "del") and words[4] not in self.network.held:
            assert not check, "a qdisc that is not there cannot be deleted"
        return self.network.completed(words)

    def start(self, argv: Sequence[str], *, root: bool = False, stdout: Path | None = None, **_: object) -> NotedProcess:
        words = self.network.note(self.name, "start", argv)
        assert root or not needs_root(words), f"{words[0]} needs root"
        if stdout is not None:
            stdout.write_bytes(self.network.completed(words).stdout)
        return NotedProcess(self.network, self.name, words)

    def write(self, path: str | PurePath, data: bytes, **_: object) -> None:
        self.network.note(self.name, "write", (str(path), data.decode()))


@dataclass
class NotedProcess:
    network: NotedNetwork
    host: str
    words: tuple[str, ...]

    def running(self) -> bool:
        return self.words[0] not in self.network.ended

    def wait(self, timeout_s: float) -> Completed:
        del timeout_s
        return self.network.completed(self.words)

    def stop(self, grace_s: float = 2.0) -> Completed:
        self.network.note(self.host, "stop", (self.words[0], f"{grace_s:g}"))
        return self.network.completed(self.words)

    def sync(self) -> None: ...
