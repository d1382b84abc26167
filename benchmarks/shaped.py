"""What the benchmarks on shaped links share: one network, one link after the other, samples of several clients interleaved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.common import say
from lab.clients.adapter import ClientAdapter
from lab.hosts.agent.router import RouterChoice
from lab.hosts.host import Network
from lab.hosts.namespaces.network import open_network
from lab.judge.sweep import turn_order
from lab.link.theory import ideal_goodput_bit_s
from lab.model.errors import LabFault
from lab.model.results import Calibration, Sample
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.net.calibrate import calibrate
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.ports import PortSampler
from lab.net.shape import shape
from lab.run.sample import take_sample
from lab.servers.bundle import Servers, start_servers

LOOKS = 2


@dataclass(frozen=True)
class Job:
    """What one line of a comparison does; lines may differ in the client, the transfer, or both."""

    adapter: ClientAdapter
    transfer: Transfer


@dataclass
class Proof:
    """Every look at a link, before and after its samples; a link is what it claims when the last one of both found it so."""

    before: list[Calibration] = field(default_factory=list)
    after: list[Calibration] = field(default_factory=list)
    fault: str = ""

    @property
    def ready(self) -> bool:
        """Whether samples are worth taking."""
        return bool(self.before) and self.before[-1].ok and not self.fault

    @property
    def problem(self) -> str:
        """Empty, or why figures of this link are worth nothing."""
        if self.fault:
            return f"the lab: {self.fault}"
        for when, looks in (("before", self.before), ("after", self.after)):
            if looks and not looks[-1].ok:
                return f"the link did not calibrate {when}: {'; '.join(looks[-1].problems)}"
        return "" if self.before and self.after else "the link was not looked at before and after"

    def kept(self) -> dict[str, object]:
        sides = {"before": self.before, "after": self.after}
        looks = {name: [look.model_dump(mode="json") for look in taken] for name, taken in sides.items()}
        return {**looks, "fault": self.fault}


@dataclass(frozen=True)
class Shaped:
    """A network that is up, with its servers."""

    network: Network
    servers: Servers

    def link(self, topology: Topology) -> Calibration:
        """Shape the link of `topology` and calibrate it."""
        pin(self.network, topology.congestion_control, topology.link.mtu)
        shape(self.network, topology.link)
        return self.look(topology)

    def look(self, topology: Topology) -> Calibration:
        look = calibrate(self.network, topology.link, topology.congestion_control)
        say(f"{topology.name}: the link {'is what it claims' if look.ok else 'is NOT: ' + '; '.join(look.problems)}")
        return look

    def looks(self, topology: Topology) -> list[Calibration]:
        """Calibrate as cells do: a second time if the first is out of tolerance, never a third time."""
        looks: list[Calibration] = []
        while len(looks) < LOOKS and not (looks and looks[-1].ok):
            looks.append(self.look(topology))
        return looks

    @contextmanager
    def proven(self, topology: Topology) -> Iterator[Proof]:
        """The link of `topology`, calibrated before and after the block; only afterwards is it known whether the link was right.

        A calibration that fails with an error invalidates the link. It does not end the benchmark: the samples are kept.
        """
        pin(self.network, topology.congestion_control, topology.link.mtu)
        shape(self.network, topology.link)
        proof = Proof()
        try:
            proof.before = self.looks(topology)
        except LabFault as fault:
            proof.fault = fault.message
        yield proof
        if proof.ready:
            try:
                proof.after = self.looks(topology)
            except LabFault as fault:
                proof.fault = fault.message

    def rounds(self, jobs: Mapping[str, Job], n: int, label: str, *, timeout_s: float | None = None) -> dict[str, list[Sample]]:
        """n samples of each job, interleaved in rotating order. A client that cannot do its job is printed and left out."""
        able: dict[str, Job] = {}
        for name, job in jobs.items():
            if reason := job.adapter.supports(job.transfer):
                say(f"{label} {name} is left out: {reason}")
            else:
                able[name] = job
        samples: dict[str, list[Sample]] = {name: [] for name in able}
        names = list(able)
        with PortSampler(self.network) as ports:
            for index in range(n):
                for name in (names[turn] for turn in turn_order(len(names), index)):
                    job = able[name]
                    sample = take_sample(
                        self.network, self.servers, job.adapter, job.transfer, index, ports=ports, timeout_s=timeout_s
                    )
                    samples[name].append(sample)
                    say(f"{label} {name} {index + 1}/{n}: {_told(sample)}")
        return samples

    def interleaved(
        self, clients: Mapping[str, ClientAdapter], transfer: Transfer, n: int, label: str
    ) -> dict[str, list[Sample]]:
        """n samples of each client, interleaved; a client that cannot do the transfer is left out."""
        able = {name: adapter for name, adapter in clients.items() if not adapter.supports(transfer)}
        samples: dict[str, list[Sample]] = {name: [] for name in able}
        with PortSampler(self.network) as ports:
            for index in range(n):
                for name, adapter in able.items():
                    sample = take_sample(self.network, self.servers, adapter, transfer, index, ports=ports)
                    samples[name].append(sample)
                    say(f"{label} {name} {index + 1}/{n}: {_told(sample)}")
        return samples


def _told(sample: Sample) -> str:
    rate = f"{sample.body_byte_s / 1e6:.3f} MB/s" if sample.body_byte_s else "no rate"
    return f"{rate}{'' if sample.ok else ', FAILED: ' + sample.problem}"


@contextmanager
def shaped_network(router: RouterChoice = "auto") -> Iterator[Shaped]:
    network = open_network(router=router)
    try:
        pin(network, "cubic")
        assert_no_bypass(network)
        yield Shaped(network, start_servers(network, payload_sizes=()))
    finally:
        network.close()


def ideal_byte_s(topology: Topology, transfer: Transfer) -> float | None:
    """The link's best goodput in the transfer's direction; None where nothing limits it."""
    ideal = ideal_goodput_bit_s(topology.link.direction("down" if transfer.direction == "get" else "up"))
    return ideal / 8 if ideal else None


def windows_byte_s(slots_bit_s: Sequence[float], slot_ms: float, window_ms: float, *, after_ms: float = 0.0) -> list[float]:
    """Bytes per second of every window of complete slots that begins `after_ms` or later."""
    width, first = round(window_ms / slot_ms), round(after_ms / slot_ms)
    return [sum(slots_bit_s[start : start + width]) / width / 8 for start in range(first, len(slots_bit_s) - width + 1)]
