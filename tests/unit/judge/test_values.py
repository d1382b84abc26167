"""A verdict and its parts are never changed in place: the judge's values are frozen."""

from __future__ import annotations

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
from tests.support.records import assert_values

MODULES = [bisect, decide, diagnosis, faults, harm, host, matching, ratio, regression, simulate, sweep, threshold, tolerance]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_field_of_a_value_can_be_set(module: ModuleType) -> None:
    assert_values(module)
