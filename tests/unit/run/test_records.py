"""Records of the lab are values: threads share them, they are keys, and nothing changes them afterwards."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType

import pytest

import lab.run.arrived
import lab.run.commands
import lab.run.container
import lab.run.cpu_score
import lab.run.doctor
import lab.run.events.client_run
import lab.run.events.faults
import lab.run.events.flap
import lab.run.events.lookups
import lab.run.events.no_answer
import lab.run.events.quirks
import lab.run.events.refusal
import lab.run.flamegraph
import lab.run.harm
import lab.run.host_watch
import lab.run.instruments
import lab.run.interleaving
import lab.run.options
import lab.run.parallel
import lab.run.pauses
import lab.run.probes
import lab.run.qualify
import lab.run.questions
import lab.run.release
import lab.run.resume
import lab.run.revisions
import lab.run.sample
import lab.run.search
import lab.run.sets
import lab.run.settings
import lab.run.steps
import lab.run.system_calls
import lab.run.threshold
import lab.run.timed
import lab.run.virtual_machines
import lab.run.workers.cluster
import lab.run.workers.crew
import lab.run.workers.parcel
import lab.run.workers.task

CHANGE = {"Asking", "Lane", "Stage", "_Due", "_Member", "_Placed", "_Probe"}
"""Work in progress, in one thread."""
MODULES = [module for name, module in sorted(sys.modules.items()) if name.startswith(f"{lab.run.__name__}.")]


def records(module: ModuleType) -> list[type]:
    own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    return [each for each in own if dataclasses.is_dataclass(each)]


@pytest.mark.parametrize("module", [each for each in MODULES if records(each)], ids=lambda module: module.__name__)
def test_a_record_is_a_value_unless_it_is_work_in_progress(module: ModuleType) -> None:
    for record in records(module):
        frozen: bool = record.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert frozen == (record.__name__ not in CHANGE), record


def test_every_kind_of_record_is_looked_at() -> None:
    assert len({record.__name__ for module in MODULES for record in records(module)}) > 60
