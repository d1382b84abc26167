"""A value from a store is never changed in place: all are frozen."""

from __future__ import annotations

import dataclasses
from types import ModuleType

import pytest

from lab.store import bundle, rewrite, run_dir, stored_run
from lab.store.history import index, query, steps


@pytest.mark.parametrize(
    "module", [bundle, rewrite, run_dir, stored_run, index, query, steps], ids=lambda module: module.__name__
)
def test_no_field_of_a_value_can_be_set(module: ModuleType) -> None:
    types = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    own = [each for each in types if dataclasses.is_dataclass(each)]
    assert own
    for each in own:
        value = object.__new__(each)
        for field in dataclasses.fields(each):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
