"""The table of twenty cells: equal or different, and the files that a place gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.clients.described import load_client
from lab.model.cell_name import parse_cell_name
from lab.model.load import load_topology
from tests.places.__main__ import table
from tests.places.came import Came, apart, keep, kept
from tests.places.cells import CELLS, write

GO, C = CELLS[-1], CELLS[5]


def came(capture: str = "a", wall_s: float = 3.09) -> Came:
    return Came({"wall_s": wall_s}, (capture,), "counts")


@pytest.mark.parametrize(
    ("there", "said"),
    [(came(), ""), (came("b"), "captures"), (came("b", 3.090004), "$.wall_s: 3.09, 3.090004")],
)
def test_the_first_difference_is_named(there: Came, said: str) -> None:
    assert apart(came(), there) == said


def test_the_table_counts_differences_and_missing_results() -> None:
    here = {GO.id: came(), C.id: came()}
    there = {GO.id: came("b"), C.id: came("b")}
    lines, differ = table([C, GO], {"checkout": here, "there": there, "alone": {C.id: came()}})
    assert differ == 3
    assert lines[2].endswith("| captures | = |")
    assert lines[3].endswith("| captures | no result |")


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    assert kept(tmp_path / "none.json") == {}
    keep({C.id: came()}, tmp_path / "a" / "b.json")
    assert kept(tmp_path / "a" / "b.json") == {C.id: came()}


@pytest.mark.parametrize("own", [True, False])
def test_every_cell_has_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    folder = write(tmp_path / "place", {"ferry": program, "rclone": program} if own else None)
    monkeypatch.chdir(folder)
    assert len({cell.id for cell in CELLS}) == 20
    for cell in CELLS:
        client, topology, _, _ = parse_cell_name(cell.id)
        load_topology(topology)
        if (described := folder / "clients" / f"{client}.yaml").exists():
            found = load_client(described)
            assert "/" not in found.program or (folder / "clients" / found.program).exists() or not own or found.program[0] == "/"
