"""What benchmarks measured, as one table of ratios: a build of ferry against the one before it, and its peers against ferry.

A ratio is of medians, with its interval (`benchmarks.claims`). `gained` and `LOST` are printed only if all of the
interval is on one side of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.claims import LEAST_SAMPLES, Estimate, median_ratio
from benchmarks.common import table

FERRY, BEFORE = "ferry", "ferry-before"
Figure = Literal["rate", "CPU"]


@dataclass(frozen=True)
class Measured:
    """One client's samples of one job: `rates` in any unit per second of wall time, `cpu` in seconds per unit."""

    job: str
    client: str
    rates: Sequence[float]
    cpu: Sequence[float]
    failed: int = 0

    def values(self, figure: Figure) -> Sequence[float]:
        return self.rates if figure == "rate" else self.cpu

    def kept(self) -> dict[str, object]:
        return {**vars(self), "rates": [*self.rates], "cpu": [*self.cpu]}


def change(ratio: Estimate | None, figure: Figure, failed: int = 0) -> str:
    """What happened since the build before: more is better for a rate, less for CPU time."""
    if failed:
        return f"{failed} FAILED"
    if ratio is None:
        return "no figure"
    if ratio.n < LEAST_SAMPLES:
        return f"n < {LEAST_SAMPLES} shows nothing"
    if ratio.low <= 1 <= ratio.high:
        return "no difference shown"
    return "gained" if (ratio.low > 1) == (figure == "rate") else "LOST"


def ratios_table(measured: Sequence[Measured], peers: Sequence[str], *, ours: str = FERRY, before: str = BEFORE) -> str:
    """Two lines for each job that `ours` did, its rate and its CPU time. A job that a client did not do has a dash."""
    headings = ["job", "figure", f"{ours} / {before}", "since", *(f"{peer} / {ours}" for peer in peers)]
    rows = []
    for job in dict.fromkeys(each.job for each in measured):
        clients = {each.client: each for each in measured if each.job == job}
        if ours not in clients:
            continue
        for figure in ("rate", "CPU"):
            compare = _comparison(clients, figure)
            since = compare(ours, before)
            failed = sum(clients[name].failed for name in (ours, before) if name in clients)
            judged = change(since, figure, failed) if before in clients else "-"
            rows.append([job, figure, _told(since), judged, *(_told(compare(peer, ours)) for peer in peers)])
    return table(headings, rows) if rows else f"no job was done by {ours}"


def _comparison(clients: dict[str, Measured], figure: Literal["rate", "CPU"]) -> Callable[[str, str], Estimate | None]:
    def compare(name: str, other: str) -> Estimate | None:
        ours, theirs = clients.get(name), clients.get(other)
        return median_ratio(ours.values(figure), theirs.values(figure)) if ours and theirs else None

    return compare


def _told(ratio: Estimate | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
