"""The cost of a transfer to its host, in a measure that can be compared between hosts; pure functions of results."""

from __future__ import annotations

from lab.judge.ratio import welch_ratio
from lab.model.figures import COST
from lab.model.results import CellResult, Interval

SCORE_FACT = "cpu_score_MBps"
"""A fact of the client's host in a cell's snapshot, if it was measured: 10^6 bytes of SHA-256 per CPU second."""


def score_of(cell: CellResult) -> float | None:
    """The CPU score of the client's host, 10^6 bytes of SHA-256 per CPU second; None where it was not measured."""
    score = cell.before.hosts.get("client", {}).get(SCORE_FACT)
    return float(score) if isinstance(score, int | float) and score > 0 else None


def hashed_mb_per_gb(seconds_per_gb: float, score_mbps: float) -> float:
    """CPU seconds per GB, normalised: the MB that the processor hashes in the time that the client spends on one GB.

    Half of it on another machine means half of the work, whatever the two machines are.
    """
    return seconds_per_gb * score_mbps


def cost_ratio(a: CellResult, b: CellResult) -> Interval | None:
    """CPU seconds per GB, B's geometric mean over A's, with Welch's interval; None where a side has not two above zero."""
    sides = [COST.values(cell) for cell in (a, b)]
    if any(len(side) < 2 or min(side) <= 0 for side in sides):
        return None
    return welch_ratio(*sides).interval()


def cost_note(a: CellResult, b: CellResult, names: tuple[str, str] = ("A", "B")) -> str:
    """One line on the cost of one cell in two runs, the sides called `names`; empty unless both have a score."""
    parts = []
    for name, cell in zip(names, (a, b), strict=True):
        score, seconds = score_of(cell), COST.summarise(cell)
        if score is None or seconds is None:
            return ""
        work = hashed_mb_per_gb(seconds, score)
        parts.append(f"{name} {seconds:.2f} CPU s per GB x {score:.0f} MB/s = {work:.0f} MB hashed per GB")
    return f"{a.id}: {'; '.join(parts)}"
