"""What the benchmarks on shaped links share: one network, one link after the other, samples of several clients interleaved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.common import say
from lab.backend.host import Network
from lab.backend.namespaces.network import RouterChoice, open_network
from lab.client.adapter import ClientAdapter
from lab.link.theory import ideal_goodput_bit_s
from lab.measure.ports import PortSampler
from lab.measure.sample import take_sample
from lab.network.calibrate import calibrate
from lab.network.guard import assert_no_bypass
from lab.network.pins import pin
from lab.network.shape import shape
from lab.result.models import Calibration, Sample
from lab.server.bundle import Servers, start_servers
from lab.spec.models import Topology, Transfer


@dataclass(frozen=True)
class Shaped:
    """A network that is up, with its servers."""

    network: Network
    servers: Servers

    def link(self, topology: Topology) -> Calibration:
        """Make its link that of `topology`, and look whether it is."""
        pin(self.network, topology.congestion_control, topology.link.mtu)
        shape(self.network, topology.link)
        return self.look(topology)

    def look(self, topology: Topology) -> Calibration:
        look = calibrate(self.network, topology.link, topology.congestion_control)
        say(f"{topology.name}: the link {'is what it claims' if look.ok else 'is NOT: ' + '; '.join(look.problems)}")
        return look

    def interleaved(
        self, clients: Mapping[str, ClientAdapter], transfer: Transfer, n: int, label: str
    ) -> dict[str, list[Sample]]:
        """n samples of each client, one of each after the other; a client that cannot do it has none."""
        able = {name: adapter for name, adapter in clients.items() if not adapter.supports(transfer)}
        samples: dict[str, list[Sample]] = {name: [] for name in able}
        with PortSampler(self.network) as ports:
            for index in range(n):
                for name, adapter in able.items():
                    sample = take_sample(self.network, self.servers, adapter, transfer, index, ports=ports)
                    samples[name].append(sample)
                    rate = f"{sample.body_byte_s / 1e6:.3f} MB/s" if sample.body_byte_s else "no rate"
                    say(f"{label} {name} {index + 1}/{n}: {rate}{'' if sample.ok else ', FAILED: ' + sample.problem}")
        return samples


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
    """Bytes per second of every window of whole slots that begins `after_ms` or later."""
    width, first = round(window_ms / slot_ms), round(after_ms / slot_ms)
    return [sum(slots_bit_s[start : start + width]) / width / 8 for start in range(first, len(slots_bit_s) - width + 1)]
