"""What is computed from an observed flow: complete epochs, and what makes them worthless."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from benchmarks.standards.rfc9438 import BANDS, EPOCHS, RFC_WINDOWS, WARM, Cell, Found, all_cells, markdown, measure
from benchmarks.standards.script import COLUMNS
from lab.model.errors import LabFault, UsageProblem

CELL = Cell.parse("reno:100ms:1000")
LOSSES = 1 + WARM[1000] + EPOCHS[1000] + 1


def rows(window: float = 38.0, losses: int = LOSSES, **last: int) -> list[list[int]]:
    """A flow that sends `window` segments of 1000 bytes per 100 ms, looked at four times in each."""
    found = []
    epoch_s = 1000 / window * 0.1
    for look in range(int(losses * epoch_s / 0.025) + 2):
        t_s = look * 0.025
        row = dict.fromkeys(COLUMNS, 0) | {
            "t_ns": int(t_s * 1e9) + 10**9,
            "cwnd": round(window),
            "mss": 1000,
            "rtt_us": 100_000,
            "again": int(t_s / epoch_s),
            "bytes_acked": int(window * 1000 * t_s / 0.1),
        }
        found.append([(row | last)[name] for name in COLUMNS])
    return found


def changed(column: str, value: Callable[[dict[str, int]], int]) -> list[list[int]]:
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows()]
    return [list((row | {column: value(row)}).values()) for row in found]


def measured(given: list[list[int]], drops: int = LOSSES) -> Found:
    return measure(CELL, given, drops, 1.0)


def test_twelve_cells_and_a_band_for_each() -> None:
    assert len(all_cells()) == len(set(all_cells())) == 12
    assert {cell.algorithm for cell in all_cells()} == set(BANDS)
    assert all(Cell.parse(str(cell)) == cell for cell in all_cells())


def test_the_tables_entries_are_those_of_the_formulas() -> None:
    """1.2 / p^0.5, and the larger of that and equation 6; by hand: 1.054 x 0.1^0.75 x 10000^0.75 = 187.4."""
    for (algorithm, rtt), entries in RFC_WINDOWS.items():
        for period, window in entries.items():
            reno = 1.2 * math.sqrt(period)
            cubic = 1.054 * Cell(algorithm, rtt, period).rtt_s ** 0.75 * period**0.75
            assert window == pytest.approx(max(reno, cubic) if algorithm == "cubic" else reno, abs=0.6)


def test_the_window_is_what_was_acknowledged_per_round_trip() -> None:
    found = measured(rows(38.0))
    assert (found.window, found.cwnd) == (pytest.approx(38.0, rel=1e-3), 38.0)
    assert (found.word, found.problems, found.dropped, found.again) == ("in the band", (), LOSSES, LOSSES)
    assert found.ratio == found.window / 38


def test_spurious_retransmissions_are_not_planted_losses() -> None:
    found = measured(rows(spurious=1), LOSSES - 1)
    assert (found.spurious, found.word) == (1, "in the band")


@pytest.mark.parametrize(("window", "word"), [(34.5, "in the band"), (41.5, "in the band"), (34.0, "OUT"), (42.0, "OUT")])
def test_a_band_has_two_edges(window: float, word: str) -> None:
    assert measured(rows(window)).word.startswith(word)


@pytest.mark.parametrize(
    ("given", "drops", "problem"),
    [
        (rows(spurious=3), LOSSES, "3 of them for nothing"),
        (rows(), LOSSES + 2, "packets were dropped"),
        (changed("receiver_limited_us", lambda row: row["t_ns"] // 50_000), LOSSES, "receiver-limited for 2.0% of the time"),
        (changed("bytes_acked", lambda row: row["bytes_acked"] * (2 if row["again"] > 30 else 1)), LOSSES, "not settled"),
    ],
)
def test_another_limit_makes_the_flow_worthless(given: list[list[int]], drops: int, problem: str) -> None:
    found = measured(given, drops)
    assert found.word == "INVALID"
    assert any(problem in each for each in found.problems)
    assert problem in markdown([found])


def test_too_few_losses_are_the_labs_fault() -> None:
    with pytest.raises(LabFault, match="losses were seen"):
        measured(rows(losses=20), 20)


@pytest.mark.parametrize("text", ["bbr:10ms:1000", "reno:20ms:1000", "reno:10ms:1001", "reno", "reno:10ms:x"])
def test_unknown_entries_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        Cell.parse(text)
