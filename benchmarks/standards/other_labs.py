"""Figures of other labs with network namespaces, cell by cell: two CUBIC flows in one pfifo, one CUBIC flow through fq_codel."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.common import say
from benchmarks.standards.paths import (
    LINUX_READ,
    LINUX_WRITE,
    Buffers,
    FlowSeen,
    Shared,
    bare_path,
    linked_path,
    retransmitted,
    run_flows,
    share,
)
from benchmarks.standards.published import (
    TWO_FLOWS_SEEDS,
    TWO_FLOWS_SHARE,
    TWO_FLOWS_TOTAL,
    OneFlow,
    TwoFlows,
)

TWO_FLOWS_S = 180.0
TWO_FLOWS_WINDOW_S = (119.0, 179.0)
"""Theirs: a minute that ends a second before the run does."""
ONE_FLOW_S = 40.0
_BUFFERS = Buffers(LINUX_READ, LINUX_WRITE)
"""Both labs left Linux's."""
# fq_codel's own defaults, which the other lab kept: 10240 packets, 5 ms, 100 ms; it marks.
_FQ_CODEL = {"kind": "fq_codel", "limit": "10240 packets", "ecn": True}


@dataclass(frozen=True)
class TwoSeen:
    """One run of two flows, goodput in Mbit/s."""

    seed: int
    mbit_s: tuple[float, float]
    resent: int

    @property
    def total(self) -> float:
        return sum(self.mbit_s)

    @property
    def share(self) -> float:
        return self.mbit_s[0] / self.total


@dataclass(frozen=True)
class TwoResult:
    """All runs of a published row, against it."""

    row: TwoFlows
    runs: tuple[TwoSeen, ...]

    @property
    def total(self) -> float:
        return statistics.median(run.total for run in self.runs)

    @property
    def share(self) -> float:
        return statistics.median(run.share for run in self.runs)

    @property
    def word(self) -> str:
        total = abs(self.total / self.row.total - 1) <= TWO_FLOWS_TOTAL
        share_of_first = abs(self.share - self.row.share) <= TWO_FLOWS_SHARE
        return _word(("total", total), ("share", share_of_first))

    def kept(self) -> dict[str, object]:
        """A line of the page's table."""
        return {
            "name": self.row.name,
            "rate_mbit_s": self.row.rate.bit_s / 1e6,
            "queue_packets": self.row.queue_packets,
            "rtts_ms": [rtt.ms for rtt in self.row.rtts],
            "published_mbit_s": self.row.published,
            "published_total": self.row.total,
            "published_share": self.row.share,
            "total": self.total,
            "share": self.share,
            "runs": [{"seed": run.seed, "mbit_s": run.mbit_s, "resent": run.resent} for run in self.runs],
            "word": self.word,
        }


@dataclass(frozen=True)
class OneResult:
    """One flow against a published figure, Mbit/s."""

    row: OneFlow
    mbit_s: float
    resent: int

    @property
    def word(self) -> str:
        return _word(("", abs(self.mbit_s / self.row.published - 1) <= self.row.band))

    def kept(self) -> dict[str, object]:
        """A line of the page's table."""
        return {
            "name": self.row.name,
            "rate_mbit_s": self.row.rate.bit_s / 1e6,
            "rtt_ms": self.row.rtt.ms,
            "published_mbit_s": self.row.published,
            "band": self.row.band,
            "mbit_s": self.mbit_s,
            "resent": self.resent,
            "word": self.word,
        }


def _word(*checks: tuple[str, bool]) -> str:
    wrong = [name for name, inside in checks if not inside]
    return f"OUT OF THE BAND{': ' if any(wrong) else ''}{', '.join(wrong)}" if wrong else "in the band"


def two_flows(rows: Sequence[TwoFlows], jobs: int) -> tuple[list[TwoResult], dict[str, object]]:
    """The results, and the raw looks by row and seed."""
    work = [(row, seed) for row in rows for seed in TWO_FLOWS_SEEDS]
    with ThreadPoolExecutor(jobs) as pool:
        seen = list(pool.map(lambda each: _two(*each), work))
    results = []
    for row in rows:
        runs = [reduce_two(seed, flows) for (of, seed), flows in zip(work, seen, strict=True) if of == row]
        results.append(TwoResult(row, tuple(runs)))
    raw: dict[str, object] = {
        f"{row.name}, seed {seed}": [flow.kept() for flow in flows] for (row, seed), flows in zip(work, seen, strict=True)
    }
    return results, raw


def reduce_two(seed: int, flows: Sequence[FlowSeen]) -> TwoSeen:
    first, second = (flow.acked_bit_s(*TWO_FLOWS_WINDOW_S) / 1e6 for flow in flows)
    return TwoSeen(seed, (first, second), retransmitted(flows))


def _two(row: TwoFlows, seed: int) -> list[FlowSeen]:
    with bare_path(seed, buffers=_BUFFERS) as network:
        share(network, Shared(row.rate, row.queue_packets, row.rtts))
        network.vary(seed)
        flows = run_flows(network, count=2, seconds=TWO_FLOWS_S, interval_s=1.0)
    seen = reduce_two(seed, flows)
    say(f"{row.name}, seed {seed}: {seen.mbit_s[0]:.2f} + {seen.mbit_s[1]:.2f} Mbit/s; published {row.published}")
    return flows


def one_flow(rows: Sequence[OneFlow], jobs: int) -> tuple[list[OneResult], dict[str, object]]:
    """The results, and the raw looks by row."""
    with ThreadPoolExecutor(jobs) as pool:
        seen = list(pool.map(_one, rows))
    results = [
        OneResult(row, flow.acked_bit_s(0.0, ONE_FLOW_S) / 1e6, retransmitted([flow]))
        for row, flow in zip(rows, seen, strict=True)
    ]
    return results, {row.name: flow.kept() for row, flow in zip(rows, seen, strict=True)}


def _one(row: OneFlow) -> FlowSeen:
    link = {"rate": str(row.rate), "rtt": str(row.rtt), "queue": _FQ_CODEL}
    with linked_path(link, 1, buffers=_BUFFERS, ecn=True) as network:
        (flow,) = run_flows(network, count=1, seconds=ONE_FLOW_S, interval_s=0.5)
    say(f"{row.name}: {flow.acked_bit_s(0.0, ONE_FLOW_S) / 1e6:.3f} Mbit/s; published {row.published}")
    return flow
