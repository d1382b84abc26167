"""A value from a store is never changed in place: all are frozen."""

from __future__ import annotations

from types import ModuleType

import pytest

from lab.store import bundle, rewrite, run_dir, stored_run
from lab.store.history import index, query, steps
from tests.support.records import assert_values


@pytest.mark.parametrize(
    "module", [bundle, rewrite, run_dir, stored_run, index, query, steps], ids=lambda module: module.__name__
)
def test_no_field_of_a_value_can_be_set(module: ModuleType) -> None:
    assert_values(module)
