"""A Session without a network: every sample is made by `rate`, every calibration is good unless `broken` spoils it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients import registry
from lab.hosts.clocks import InRealTime
from lab.hosts.host import RouterFacts
from lab.judge.tolerance import LookPlan
from lab.model.results import Calibration, ClientIdentity, HostSnapshot, Sample
from lab.model.transfer import ClientSpec, Transfer
from lab.run import interleaving
from lab.run import lab as lab_module
from lab.run import session as session_module
from lab.run.session import Options, Session
from tests.unit.store.conftest import AT, make_calibration, make_sample


@dataclass
class FakeClient:
    """Knows every transfer but `cannot`."""

    name: str
    cannot: str = ""

    def supports(self, transfer: Transfer) -> str:
        del transfer
        return self.cannot

    def identify(self, _: object) -> ClientIdentity:
        return ClientIdentity(name=self.name, version="1", path="/bin/true", sha256="0" * 64, command=[])

    def command(self, *_: object) -> list[str]:
        return [self.name]


@dataclass
class FakeNetwork(InRealTime):
    """Open until it is closed; it has no hosts."""

    name: str
    open: bool = True
    client: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(under_test=None))
    server: None = None
    backend: str = "fake"
    backend_facts: dict[str, str] = field(default_factory=dict)
    router_facts: RouterFacts = field(default_factory=lambda: RouterFacts("kernel", "", "", supports_seed=False))

    def close(self) -> None:
        self.open = False


@dataclass
class FakeLab:
    """`rate(client, index)` gives bytes per second, or None for a transfer that fails; `broken(network)` spoils a calibration."""

    rate: Callable[[str, int], float | None] = lambda *_: 1e6
    broken: Callable[[Any], bool] = lambda _: False
    opened: list[Any] = field(default_factory=list)

    def open(self, name: str) -> Any:
        network = FakeNetwork(name)
        self.opened.append(network)
        return network

    def open_same_host(self, name: str) -> Any:
        network = self.open(name)
        network.router_facts = RouterFacts("none", "", "", supports_seed=False)
        return network

    def take(self, _: object, __: object, adapter: FakeClient, transfer: Transfer, index: int, **___: object) -> Sample:
        rate = self.rate(adapter.name, index)
        limit = transfer.limit.byte_s if transfer.limit else None
        sample = make_sample(index, None, problem="" if rate else "cut off")
        deviation = rate / limit - 1 if rate and limit else None
        return sample.model_copy(update={"body_byte_s": rate, "deviation": deviation})

    def calibrate(self, network: Any, *_: object, attempt: int, **__: object) -> Calibration:
        found = make_calibration(attempt=attempt)
        return found.model_copy(update={"ok": False, "problems": ["9 % low"]}) if self.broken(network) else found


def install(lab: FakeLab, clients: dict[str, FakeClient], patch: pytest.MonkeyPatch) -> None:
    def resolve(client: ClientSpec) -> FakeClient:
        return clients.get(client.name, FakeClient(client.name))

    for module in (session_module, registry, interleaving):
        patch.setattr(module, "resolve", resolve)
    replaced: dict[str, Any] = {
        "open_network": lambda _, *, name, **__: lab.open(name),
        "open_same_host": lambda _, *, name: lab.open_same_host(name),
        "pin": lambda *_: None,
        "assert_no_bypass": lambda _: None,
        "start_servers": lambda *_, **__: SimpleNamespace(endpoints=None),
        "shape": lambda *_: SimpleNamespace(commands=()),
        "read_back": lambda *_: ([], {}),
        "calibrate": lab.calibrate,
        "PortSampler": nullcontext,
        "take_sample": lab.take,
        "host_snapshot": lambda _: HostSnapshot(at=AT, machine={}, hosts={"client": {}}),
    }
    for name, value in replaced.items():
        for module in (lab_module, interleaving):
            if name in vars(module):
                patch.setattr(module, name, value)


def session(run: Any, looks: Sequence[int] = (2, 4)) -> Session:
    return Session(run, Options(looks=LookPlan(looks=tuple(looks))))
