"""What a transfer costs the host it runs on, so that two hosts can be compared; pure functions of results."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from lab.judge.ratio import welch_ratio
from lab.result.meaning import cpu_is_real
from lab.result.models import CellResult, Interval, Sample

SCORE_FACT = "cpu_score_MBps"
"""Of the client's host in a cell's snapshot, where a study measured it: 10^6 bytes of SHA-256 per CPU second."""
_GB = 1e9


def cpu_costs(samples: Sequence[Sample]) -> list[float]:
    """CPU seconds per GB of each whole transfer that moved something."""
    whole = [sample for sample in samples if sample.ok and sample.expected_bytes]
    return [(sample.cpu_user_s + sample.cpu_system_s) / (sample.expected_bytes / _GB) for sample in whole]


def cpu_s_per_gb(samples: Sequence[Sample]) -> float | None:
    """The mean over whole transfers; None where there is none."""
    costs = cpu_costs(samples)
    return fmean(costs) if costs else None


def score_of(cell: CellResult) -> float | None:
    """The CPU score of the client's host, 10^6 bytes of SHA-256 per CPU second; None where no study measured it."""
    score = cell.before.hosts.get("client", {}).get(SCORE_FACT)
    return float(score) if isinstance(score, int | float) and score > 0 else None


def hashed_mb_per_gb(seconds_per_gb: float, score_mbps: float) -> float:
    """CPU seconds per GB, normalised: the MB that this processor hashes in the time the client spends on one GB.

    Half of it on another machine is half of the work, whatever the machines.
    """
    return seconds_per_gb * score_mbps


def cell_costs(cell: CellResult) -> list[float]:
    """As `cpu_costs`; empty in virtual time, where no processor was asked."""
    return cpu_costs(cell.samples) if cpu_is_real(cell) else []


def cost_of(cell: CellResult) -> float | None:
    """As `cpu_s_per_gb`; None in virtual time."""
    costs = cell_costs(cell)
    return fmean(costs) if costs else None


def cost_ratio(a: CellResult, b: CellResult) -> Interval | None:
    """CPU seconds per GB, B's geometric mean over A's, with Welch's interval; None where a side has not two above zero."""
    sides = [cell_costs(cell) for cell in (a, b)]
    if any(len(side) < 2 or min(side) <= 0 for side in sides):
        return None
    return welch_ratio(*sides).interval()


def cost_note(a: CellResult, b: CellResult, names: tuple[str, str] = ("A", "B")) -> str:
    """One line on what one cell cost in two runs, the sides called `names`; empty unless both have a score."""
    told = []
    for name, cell in zip(names, (a, b), strict=True):
        score, seconds = score_of(cell), cost_of(cell)
        if score is None or seconds is None:
            return ""
        work = hashed_mb_per_gb(seconds, score)
        told.append(f"{name} {seconds:.2f} CPU s per GB x {score:.0f} MB/s = {work:.0f} MB hashed per GB")
    return f"{a.id}: {'; '.join(told)}"
