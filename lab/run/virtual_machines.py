"""Machines in virtual time as a session wants them: their seeds, their facts for results, their links' certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lab.assets.userlands import Userland
from lab.hosts.host import Network
from lab.hosts.virtual.machine import CHARGE_MOST_NS, derived_seed
from lab.hosts.virtual.network import open_network
from lab.model.clock import CHARGE_NS
from lab.model.errors import LabFault
from lab.model.results import Calibration, PathCertificate, VirtualMachine
from lab.model.topology import Topology
from lab.model.wiring import PLAIN, Wiring
from lab.net.calibrate import Tolerance
from lab.net.certificates import certified, certified_path, only


@dataclass(frozen=True)
class VirtualMachines:
    """Cells differ by `seed` when they are run again on purpose. `machine_seed`, if given, is every machine's."""

    seed: int = 1
    machine_seed: int | None = None
    charge_ns: int = CHARGE_NS
    tolerance: Tolerance = Tolerance()
    twins: Mapping[str, str] = field(default_factory=dict)
    """By the name of a client, that of the client whose samples' seeds it gets."""

    def open_for(
        self,
        ids: Sequence[str],
        payload_bytes: int,
        *,
        wiring: Wiring = PLAIN,
        userlands: Mapping[str, Userland] | None = None,
    ) -> Network:
        """A machine whose seed follows from what it is for: what ran before plays no part. Raises LabFault."""
        # Cells that share a machine share its seed as well; a question that has one alone gets its twin's.
        named = ids if len(ids) > 1 else [self._twin(each) for each in ids]
        seed = derived_seed(self.seed, *named) if self.machine_seed is None else self.machine_seed
        return self._boot(seed, payload_bytes, wiring=wiring, userlands=userlands)

    def sample_seed(self, cell_id: str, index: int) -> int:
        return derived_seed(self.seed, self._twin(cell_id), index)

    def _twin(self, what: str) -> str:
        """The id of the same question about the client whose seeds this one gets."""
        client, mark, row = what.partition("--")
        return f"{self.twins.get(client, client)}{mark}{row}"

    def facts(self, network: Network) -> VirtualMachine | None:
        """For results; None in real time."""
        facts = network.virtual_facts
        return VirtualMachine(**facts, session_seed=self.seed) if facts else None

    def certified(self, topology: Topology) -> Calibration:
        """The calibration of that link, taken once, over IPv4. Raises LabFault where it cannot be taken."""
        boot = partial(self._boot, wiring=Wiring(same_host=topology.same_host))
        return certified(topology, self.tolerance, (self.charge_ns, CHARGE_MOST_NS), boot)

    def certified_path(self, topology: Topology, userlands: Mapping[str, Userland]) -> PathCertificate:
        """The proof of the path besides the judged link, taken once; `userlands` are its NATs'. Raises LabFault."""
        links = {node.name: self.certified(only(topology, node.link)) for node in topology.wiring.nodes if node.link}
        boot = partial(self._boot, wiring=topology.wiring, userlands=userlands)
        return certified_path(topology, links, self.tolerance, (self.charge_ns, CHARGE_MOST_NS), boot)

    def _boot(
        self, seed: int, payload_bytes: int = 0, *, wiring: Wiring = PLAIN, userlands: Mapping[str, Userland] | None = None
    ) -> Network:
        """Twice, where it must be: a file that is replaced while the machine reads it (an update of the lab) ends its boot."""
        opened = partial(
            open_network,
            seed=seed,
            payload_bytes=payload_bytes,
            charge_ns=self.charge_ns,
            wiring=wiring,
            userlands=userlands,
        )
        try:
            return opened()
        except LabFault:
            return opened()
