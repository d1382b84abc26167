"""The dataclasses of a module, for tests that nothing changes a value after it was made."""

from __future__ import annotations

import dataclasses
from types import ModuleType

import pytest


def records(module: ModuleType) -> list[type]:
    """Those that the module itself defines."""
    own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    return [each for each in own if dataclasses.is_dataclass(each)]


def assert_values(module: ModuleType) -> None:
    """No field of any of them can be set."""
    own = records(module)
    assert own
    for each in own:
        value = object.__new__(each)
        for field in dataclasses.fields(each):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
