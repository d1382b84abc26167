"""What a transfer costs the host it runs on, so that two hosts can be compared; pure functions of results."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from lab.result.models import CellResult, Sample

SCORE_FACT = "cpu_score_MBps"
"""Of the client's host in a cell's snapshot, where a study measured it: 10^6 bytes of SHA-256 per CPU second."""
_GB = 1e9


def cpu_s_per_gb(samples: Sequence[Sample]) -> float | None:
    """The mean over whole transfers; None where there is none."""
    whole = [sample for sample in samples if sample.ok and sample.expected_bytes]
    costs = [(sample.cpu_user_s + sample.cpu_system_s) / (sample.expected_bytes / _GB) for sample in whole]
    return fmean(costs) if costs else None


def hashed_mb_per_gb(seconds_per_gb: float, score_mbps: float) -> float:
    """CPU seconds per GB, normalised: the MB that this processor hashes in the time the client spends on one GB.

    Half of it on another machine is half of the work, whatever the machines.
    """
    return seconds_per_gb * score_mbps


def cost_note(a: CellResult, b: CellResult) -> str:
    """One line on what one cell cost in two runs; empty unless both have a score."""
    told = []
    for name, cell in (("A", a), ("B", b)):
        score, seconds = cell.before.hosts.get("client", {}).get(SCORE_FACT), cpu_s_per_gb(cell.samples)
        if not isinstance(score, int | float) or seconds is None:
            return ""
        work = hashed_mb_per_gb(seconds, score)
        told.append(f"{name} {seconds:.2f} CPU s per GB x {score:.0f} MB/s = {work:.0f} MB hashed per GB")
    return f"{a.id}: {'; '.join(told)}"
