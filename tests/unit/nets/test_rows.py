"""The work of the nets can be asked for: each cell and row has the name of one."""

from __future__ import annotations

import pytest

from lab.model.cell_name import parse_cell_name
from lab.model.load import load_topology
from lab.robot.suite import find_suite
from tests.nets.rows import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_cells_or_a_suite(row: Row) -> None:
    names = [word for word in row.words if "--" in word and not word.startswith("--")]
    for cell in map(parse_cell_name, names):
        assert load_topology(cell.topology).name == cell.topology
    assert names or row.words[0] != "run" or find_suite(row.words[1])
