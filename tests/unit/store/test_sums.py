"""Python 3.12 adds floats more exactly than 3.11 does: what results have must not depend on the Python of the lab."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.paths import project_root
from lab.net import series
from lab.net.series import Reading, build_series

ROOMS = ("model", "link", "net", "clients", "judge")
slots = st.lists(st.tuples(st.integers(9_000_000, 11_000_000), st.integers(0, 100_000)), min_size=12, max_size=60)


def exactly(values: Iterable[float]) -> float:
    return math.fsum(values)


def one_by_one(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


@given(slots)
def test_a_series_is_the_same_however_floats_are_added(steps: list[tuple[int, int]]) -> None:
    readings, t_ns, sent = [Reading(0, 0, 0)], 0, 0
    for passed, size in steps:
        t_ns, sent = t_ns + passed, sent + size
        readings.append(Reading(t_ns, sent, 0))
    found = []
    for added in (exactly, one_by_one):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(series, "sum", added, raising=False)
            found.append(build_series(readings))
    assert found[0] == found[1]


def divides(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Div) for each in ast.walk(node))


def test_no_quotient_is_added_by_sum() -> None:
    """The certain sign of a float; `math.fsum` adds those, alike in every Python."""
    found = []
    for room in ROOMS:
        for path in (project_root() / "lab" / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum":
                    inner = node.args[0]
                    if divides(inner.elt if isinstance(inner, ast.GeneratorExp) else inner):
                        found.append(f"{path.name}:{node.lineno}")
    assert found == []
