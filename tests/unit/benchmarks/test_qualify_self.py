"""Many gates: what was done is not done again, and false alarms are counted against the stated rate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import qualify_self as module


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Exit codes by seed, 0 where there is none; those that were asked for are added."""
    found: dict[int, int] = {}

    def gate(candidate: str, baseline: str, seed: int, options: Sequence[str]) -> dict[str, Any]:
        return {"seed": seed, "exit_code": found.setdefault(seed, 0), "reason": f"{candidate} {baseline} {options}"}

    monkeypatch.setattr(module, "one_gate", gate)
    return found


def test_it_goes_on_where_it_was_stopped(codes: dict[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "new" / "gates.jsonl"
    assert module.main(["--seeds", "2", "--to", str(to), "--margin", "3%"]) == 0
    codes.clear()
    assert module.main(["--seeds", "3", "--to", str(to)]) == 0
    assert list(codes) == [3]
    assert [json.loads(line)["seed"] for line in to.read_text().splitlines()] == [1, 2, 3]
    said = capsys.readouterr().out
    assert "seed 1: curl curl ['--margin', '3%']" in said
    assert said.endswith("3 QUALIFIED\nNOT QUALIFIED: 0.0% of 3, 95 % interval 0.00% to 56.15%\n")


@pytest.mark.parametrize(("alarms", "candidate", "code"), [(1, "curl", 0), (6, "curl", 1), (6, "curl@8.18.0", 0)])
def test_more_false_alarms_than_stated_are_exit_code_1(
    codes: dict[int, int], tmp_path: Path, alarms: int, candidate: str, code: int
) -> None:
    codes.update(dict.fromkeys(range(1, alarms + 1), 1))
    assert module.main(["--seeds", "100", "--to", str(tmp_path / "x"), "--candidate", candidate]) == code


def test_without_a_verdict_there_is_no_share(codes: dict[int, int], tmp_path: Path) -> None:
    codes.update({1: 2, 2: 4})
    assert module.main(["--seeds", "2", "--to", str(tmp_path / "x")]) == 1
