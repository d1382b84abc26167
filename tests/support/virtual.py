"""A cell in virtual time, derived from a cell that ran in real time."""

from __future__ import annotations

from lab.model.link import Link
from lab.model.results import CellResult, VirtualMachine
from lab.model.topology import Topology

GUEST = VirtualMachine(
    seed=7,
    session_seed=7,
    kernel_release="7.2.0-roughwater",
    kernel_sha256="a" * 64,
    charge_ns=200,
    charge_most_ns=10_000,
    conditions={"one processor": True, "memory at a fixed place": True},
    real_s=3.5,
)


def in_virtual_time(cell: CellResult, **update: object) -> CellResult:
    """Every sample has a seed; the host was not watched."""
    samples = [sample.model_copy(update={"seed": 100 + sample.index, "host": None}) for sample in cell.samples]
    made = {"backend": "virtual", "clock": "virtual", "virtual": GUEST, "samples": samples, "host": None, **update}
    return CellResult.model_validate_json(cell.model_copy(update=made).model_dump_json())


def without_a_rate(topology: Topology) -> Topology:
    """The same network, its link as fast as the machine."""
    return topology.model_copy(update={"link": Link()})
