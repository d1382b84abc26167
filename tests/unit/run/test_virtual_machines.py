"""Machines in virtual time: whose seed they have, what results say about them, and a second attempt to boot one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.virtual.machine import CHARGE_MOST_NS, derived_seed
from lab.model.clock import CHARGE_NS
from lab.model.errors import LabFault
from lab.model.results import VirtualMachine
from lab.model.topology import Topology
from lab.model.wiring import PLAIN, Wiring
from lab.run import virtual_machines
from lab.run.virtual_machines import VirtualMachines

ONE_HOST = Wiring(same_host=True)

LOOPBACK = Topology.model_validate({"name": "same", "description": "A test.", "same_host": True})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What machines were opened with."""
    found: list[dict[str, Any]] = []

    def open_network(**how: Any) -> str:
        found.append(how)
        return f"machine {len(found)}"

    monkeypatch.setattr(virtual_machines, "open_network", open_network)
    return found


def test_a_machines_seed_follows_from_what_it_is_for(opened: list[dict[str, Any]]) -> None:
    machines: Any = VirtualMachines(seed=7, charge_ns=5)
    assert machines.open_for(ids=["a", "b"], payload_bytes=9, wiring=ONE_HOST, userlands={"client": "u"}) == "machine 1"
    machines.open_for(["a"], 0)
    how = {"payload_bytes": 9, "charge_ns": 5, "wiring": ONE_HOST, "userlands": {"client": "u"}}
    assert opened[0] == {"seed": derived_seed(7, "a", "b"), **how}
    plain = {"payload_bytes": 0, "charge_ns": 5, "wiring": PLAIN, "userlands": None}
    assert opened[1] == {"seed": derived_seed(7, "a"), **plain}
    VirtualMachines(seed=7, machine_seed=0).open_for(["a"], 0)
    assert (opened[2]["seed"], opened[2]["charge_ns"]) == (0, CHARGE_NS)
    assert machines.sample_seed("a", 3) == derived_seed(7, "a", 3)


def test_a_baseline_meets_what_its_candidate_meets(opened: list[dict[str, Any]]) -> None:
    """In cells, in questions with a machine of their own, and in faults, whose details the samples' seeds decide."""
    machines: Any = VirtualMachines(seed=7, twins={"old": "new"})
    rows = ["net--http1-get-1MB", "net--http1-put-1MB--no-wrong-file-killed"]
    for row in rows:
        seeds = [[machines.sample_seed(f"{client}--{row}", index) for index in range(5)] for client in ("new", "old")]
        assert seeds[0] == seeds[1]
        machines.open_for([f"new--{row}"], 0)
        machines.open_for([f"old--{row}"], 0)
        assert opened[-1]["seed"] == opened[-2]["seed"]
    machines.open_for(["new--x", "old--x"], 0)
    assert opened[-1]["seed"] == derived_seed(7, "new--x", "old--x"), "one machine for both"


def test_a_boot_that_fails_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[int] = []

    def open_network(**_: object) -> str:
        came.append(len(came))
        if len(came) != 2:
            raise LabFault(f"attempt {len(came)}")
        return "machine"

    monkeypatch.setattr(virtual_machines, "open_network", open_network)
    machines: Any = VirtualMachines()
    assert machines.open_for(["a"], 0) == "machine"
    came[:] = [0, 0]
    with pytest.raises(LabFault, match="attempt 4"):
        machines.open_for(["a"], 0)


def test_results_say_which_machine_it_was_and_the_sessions_seed() -> None:
    known = {"seed": 3, "charge_ns": 5, "kernel": "6.9", "kernel_sha256": "f" * 64, "memory_bytes": 1}
    fields = VirtualMachine.model_fields
    facts = {name: known.get(name, "x") for name in fields if name != "session_seed"}
    network: Any = SimpleNamespace(virtual_facts=None)
    assert VirtualMachines(seed=7).facts(network) is None
    made: Any = VirtualMachines(seed=7)
    seen: list[dict[str, Any]] = []

    class Machine:
        def __init__(self, **told: Any) -> None:
            seen.append(told)

    network.virtual_facts = facts
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(virtual_machines, "VirtualMachine", Machine)
        assert isinstance(made.facts(network), Machine)
    assert seen == [{**facts, "session_seed": 7}]


def test_a_certificate_is_taken_on_a_machine_like_those_of_the_cells(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def certified(topology: Topology, tolerance: object, charges: tuple[int, int], boot: Any) -> Any:
        boot(11)
        return topology, tolerance, charges

    monkeypatch.setattr(virtual_machines, "certified", certified)
    machines: Any = VirtualMachines(charge_ns=5)
    assert machines.certified(LOOPBACK) == (LOOPBACK, machines.tolerance, (5, CHARGE_MOST_NS))
    assert (opened[0]["seed"], opened[0]["wiring"].same_host, opened[0]["charge_ns"]) == (11, True, 5)
