"""What the nets catch: a planted difference of each kind, and not what differs between any two runs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.nets.differences import compare_documents, compare_runs, compare_texts, undeclared

CELL: dict[str, Any] = {
    "run": "20261128T160513-cells-3492",
    "started_at": "2026-11-28T16:05:13Z",
    "after": {"machine": {"cpu_s": 6814.1, "cores": 2}},
    "samples": [{"rate": 1.0, "verdict": {"name": "PASS"}}, {"rate": 2.0}],
    "verdict": {"name": "PASS"},
    "notes": [],
}


def test_clocks_of_the_machine_and_names_of_runs_do_not_count() -> None:
    other = copy.deepcopy(CELL) | {"run": "another", "started_at": "later"}
    other["after"]["machine"]["cpu_s"] = 1.0
    assert compare_documents(CELL, other, "virtual") == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda cell: cell["samples"][1].update(rate=2.000001), [".samples[1].rate: 2.0 -> 2.000001"]),
        (lambda cell: cell["samples"].append({"rate": 3.0}), [".samples[2].rate: missing -> 3.0"]),
        (lambda cell: cell.pop("notes"), [".notes: [] -> missing"]),
        (lambda cell: cell.update(notes=None), [".notes: [] -> null"]),
        (lambda cell: cell["after"]["machine"].update(cores=4), [".after.machine.cores: 2 -> 4"]),
    ],
)
def test_every_other_field_counts_in_virtual_time(change: Any, expected: list[str]) -> None:
    other = copy.deepcopy(CELL)
    change(other)
    assert compare_documents(CELL, other, "virtual") == expected


def test_in_real_time_form_and_verdict_count() -> None:
    other = copy.deepcopy(CELL)
    other["samples"][0]["rate"] = 9.0
    assert compare_documents(CELL, other, "real") == []
    other["samples"][0]["verdict"]["name"] = "FAIL"
    other["more"] = 1
    assert compare_documents(CELL, other, "real") == [".more: only now", ".samples[0].verdict.name: 'PASS' -> 'FAIL'"]


def test_a_file_that_one_run_lacks_is_a_difference(tmp_path: Path) -> None:
    for name, files in (("base", ("run.json", "cells/a.json")), ("here", ("run.json", "cells/b.json"))):
        for file in files:
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"rate": 1}), encoding="utf-8")
    found = compare_runs(tmp_path / "base", tmp_path / "here", "virtual")
    assert found == ["cells/a.json: only before", "cells/b.json: only now"]


def test_texts_are_compared_by_line() -> None:
    assert compare_texts("a\nb\n", "a\nb\n") == []
    assert compare_texts("a\nb\n", "a\nc\n") == ["line 2 of 1 that differ: 'b' -> 'c'"]
    assert compare_texts("a\nb\n", "a\n") == ["1 lines less"]


def test_what_is_declared_is_left_out() -> None:
    lines = ["cells/x.json: .virtual.counts.lab: 1 -> 2", "cells/x.json: .samples[0].rate: 1 -> 2"]
    assert undeclared(lines, ["cells/*: .virtual.counts"]) == lines[1:]
    assert undeclared(lines, ["*.samples[0].rate"]) == lines[:1]
    assert undeclared(lines, []) == lines
