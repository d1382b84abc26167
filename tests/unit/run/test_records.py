"""Records of the lab are values: threads share them, they are keys, and nothing changes them afterwards."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import lab.run
from tests.support.records import records

CHANGE = {"Asking", "Lane", "LastLine", "Limits", "Stage", "SuiteOutcome", "_Due", "_Member", "_Placed", "_Probe", "_Words"}
"""Work in progress, in one thread."""
MODULES = [import_module(each.name) for each in pkgutil.walk_packages(lab.run.__path__, f"{lab.run.__name__}.")]


@pytest.mark.parametrize("module", [each for each in MODULES if records(each)], ids=lambda module: module.__name__)
def test_a_record_is_a_value_unless_it_is_work_in_progress(module: ModuleType) -> None:
    for record in records(module):
        frozen: bool = record.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert frozen == (record.__name__ not in CHANGE), record


def test_every_kind_of_record_is_looked_at() -> None:
    assert len({record.__name__ for module in MODULES for record in records(module)}) > 60
