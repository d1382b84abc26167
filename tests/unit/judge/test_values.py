"""A verdict and its parts are never changed in place: the judge's values are frozen."""

from __future__ import annotations

import dataclasses
from types import ModuleType

import pytest

from lab.judge import (
    bisect,
    decide,
    diagnosis,
    faults,
    harm,
    host,
    matching,
    ratio,
    regression,
    simulate,
    sweep,
    threshold,
    tolerance,
)

MODULES = [bisect, decide, diagnosis, faults, harm, host, matching, ratio, regression, simulate, sweep, threshold, tolerance]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_field_of_a_value_can_be_set(module: ModuleType) -> None:
    types = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    own = [each for each in types if dataclasses.is_dataclass(each)]
    assert own
    for each in own:
        value = object.__new__(each)
        for field in dataclasses.fields(each):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
