"""A topology on its way through a front end: stand-ins for what would start something, and what arrived."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from lab.clients import registry
from lab.hosts.host import Completed, RouterFacts
from lab.model.clock import Clock
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec
from lab.model.userland import HOSTS, TopologyUserlands, UserlandFacts
from lab.model.wiring import PLAIN, Wiring
from lab.run.options import Options
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.unit.obeyed.effects import ENDS
from tests.unit.run.fake_lab import FakeClient, FakeLab

TRANSFER = "http1-get-1MB-at-1MBps"


class Reached(BaseException):
    """The front end has handed everything on."""


@dataclass
class Given:
    """A topology's file, the clock, the client as a user names it, and what arrived."""

    file: Path
    clock: Clock
    patch: pytest.MonkeyPatch
    folder: Path
    client: str = "new"
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of `--env`."""
    arrived: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> ClientSpec:
        return ClientSpec.parse(self.client)

    @property
    def cell(self) -> str:
        return f"{self.spec.name}--net--{TRANSFER}"

    @property
    def clients(self) -> list[str]:
        return [] if self.client == self.spec.name else [f"{self.spec.name}={self.client}"]

    @property
    def topology(self) -> Topology:
        return load_topology(str(self.file))

    def runs(self, adapter: Any) -> None:
        """A client described by a file has arrived with all of it."""
        if described := getattr(adapter, "spec", None):
            self.note(client=described, environment=adapter.environment(ENDS))

    def note(self, **parts: Any) -> None:
        self.arrived |= parts

    def took(self, topology: Topology) -> None:
        """All of it arrived."""
        self.note(**parts_of(topology))

    def patched(self, module: Any, **names: Any) -> None:
        for name, stand_in in names.items():
            self.patch.setattr(module, name, stand_in)

    def pins(self, _: object, congestion_control: str, mtu: int = 1500) -> None:
        self.note(congestion_control=congestion_control, mtu=mtu)

    def shapes(self, _: object, link: Any) -> Any:
        self.note(link=link)
        return SimpleNamespace(link=link, commands=())

    def schedules(self, _: object, topology: Topology) -> Any:
        self.note(schedule=topology.schedule)
        return nullcontext(None)

    def serves(self, *_: object, http3: str | None = None, endpoint: Any = None, **__: object) -> Any:
        self.note(http3=http3, endpoint=endpoint)
        return MagicMock()

    def boots(
        self,
        *_: object,
        same_host: bool = False,
        wiring: Wiring = PLAIN,
        userlands: Mapping[str, Any] | None = None,
        kind: Clock = "virtual",
        **__: object,
    ) -> Any:
        """A network; with the names of its userlands."""
        wiring = Wiring(same_host=True) if same_host else wiring
        self.note(wiring=wiring, userland_names={host: each.name for host, each in (userlands or {}).items() if host in HOSTS})
        network = MagicMock(backend="fake", backend_facts={"path": ""}, virtual_facts=None)
        network.clock.kind = kind
        network.router_facts = RouterFacts("none" if wiring.same_host else "kernel", "", "", supports_seed=True)
        network.client.under_test.run.return_value = Completed(("true",), 0, b"", b"", 0, 0, 0.0, 0.0)
        network.client.under_test.identify.return_value = Completed(("it",), 0, b"/it\n00\nit 1\n", b"", 0, 0, 0.0, 0.0)
        network.client.under_test.workdir = Path("/w")
        return network

    def session(self, **options: Any) -> Session:
        return Session(
            RunDir.create("obeyed", results=self.folder / "results"),
            Options(clock=self.clock, variables=self.variables, **options),
        )


def parts_of(topology: Topology) -> dict[str, Any]:
    return {
        "link": topology.link,
        "mtu": topology.link.mtu,
        "congestion_control": topology.congestion_control,
        "schedule": topology.schedule,
        "userlands": topology.userlands,
        "wiring": topology.wiring,
        "endpoint": topology.served_by,
    }


class Noting(FakeLab):
    """Notes the client of a sample."""

    given: Given

    def take(self, *words: Any, **how: Any) -> Any:
        self.given.runs(words[2])
        return super().take(*words, **how)


def prepare(given: Given) -> None:
    """A client called `new`, userlands that need not be built, and no program that has to be fetched."""
    given.patch.setitem(registry._CODE, "new", FakeClient)
    given.patch.setenv("ROUGHWATER_TOPOLOGIES", str(given.file.parent))
    given.patch.setenv("ROUGHWATER_RESULTS", str(given.folder / "results"))

    def found(name: str, *_: object) -> Any:
        return SimpleNamespace(name=name, facts=UserlandFacts(name=name, distribution="", digest="0" * 64, packages={}))

    given.patch.setattr("lab.run.userlands.get_userland", found)
    given.patch.setattr("lab.run.lab.get_userland", found)
    given.patch.setattr("lab.run.settings.provide", lambda _: None)


def finish(given: Given) -> None:
    """Userlands as the topology names them, where a machine was booted with them."""
    names = given.arrived.pop("userland_names", None)
    http3 = given.arrived.pop("http3", None)
    if names is not None:
        found = TopologyUserlands(**names, **({"http3": http3} if http3 and names.get("server") else {})) if names else None
        given.note(userlands=found)
