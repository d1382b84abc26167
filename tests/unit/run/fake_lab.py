"""A Session without a network: every sample is made by `rate`, every calibration is good unless `broken` spoils it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from lab.hosts.clocks import InRealTime
from lab.hosts.host import RouterFacts
from lab.judge.tolerance import LookPlan
from lab.model.results import Calibration, ClientIdentity, HostSnapshot, Sample
from lab.model.transfer import Transfer
from lab.run.instruments import Instruments
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from tests.unit.store.conftest import AT, make_calibration, make_sample


@dataclass
class FakeClient:
    """Knows every transfer but `cannot`."""

    name: str
    program: str = ""
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
    steps: list[str] = field(default_factory=list)
    """`shape` and `look` (a calibration), in their order."""
    read_back_problems: list[str] = field(default_factory=list)
    """Found when the link is read back for the first time."""

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
        return sample.model_copy(update={"command": [adapter.name], "body_byte_s": rate, "deviation": deviation})

    def shape(self, *_: object) -> Any:
        self.steps.append("shape")
        return SimpleNamespace(commands=())

    def read_back(self, *_: object) -> tuple[list[str], dict[str, Any]]:
        problems, self.read_back_problems = self.read_back_problems, []
        return problems, {}

    def calibrate(self, network: Any, *_: object, attempt: int, **__: object) -> Calibration:
        self.steps.append("look")
        found = make_calibration(attempt=attempt)
        return found.model_copy(update={"ok": False, "problems": ["9 % low"]}) if self.broken(network) else found

    @property
    def instruments(self) -> Instruments:
        return Instruments(
            open_network=lambda _, *, name, **__: self.open(name),
            open_same_host=lambda _, *, name: self.open_same_host(name),
            pin=lambda *_: None,
            assert_no_bypass=lambda _: None,
            start_servers=lambda *_, **__: SimpleNamespace(endpoints=None),
            shape=self.shape,
            shape_nodes=lambda *_: {},
            read_back=self.read_back,
            calibrate=self.calibrate,
            watch_ports=nullcontext,
            take_sample=self.take,
            snapshot=lambda _: HostSnapshot(at=AT, machine={}, hosts={"client": {}}),
        )

    def options(self, looks: Sequence[int] = (2, 4)) -> Options:
        return Options(looks=LookPlan(looks=tuple(looks)), instruments=self.instruments)

    def session(self, run: RunDir, looks: Sequence[int] = (2, 4)) -> Session:
        return Session(run, self.options(looks))
