"""One piece of work and what it costs the host: MB/s, CPU seconds per GB, and those normalised by the host's CPU score.

The score is measured on the client's host right before the cell, and once more after it; it is part of the cell's snapshots, so
that `lab compare` of two machines' runs has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean

from lab.judge.cost import hashed_mb_per_gb
from lab.judge.quirks import verdict_on
from lab.model.answer import Answer, Observation, answer_of
from lab.model.cell import Cell
from lab.model.figures import COST
from lab.model.results import CellResult, Sample, Verdict
from lab.run.cpu_score import CpuScore, measure_cpu_score
from lab.run.session import Session

MOST_DRIFT = 0.10
"""Limit of the change from the first score to the second; beyond it the normalised figure is rough."""


def run_platform(session: Session, cell: Cell) -> Answer:
    """Run the cell between two scores; write both results. Raises as `Session.run_cell`."""
    started_at = datetime.now(UTC)
    with session.bench(cell.id, cell.topology, real=True) as (network, _):
        before = measure_cpu_score(network.client)
    session.lab.client_facts |= before.facts
    result = session.run_cell(cell)
    with session.bench(cell.id, cell.topology, real=True) as (network, _):
        after = measure_cpu_score(network.client)
    rows = work_rows(result.samples, before, after)
    of_platform = {
        "id": f"{cell.id}--platform",
        "question": "platform",
        "expectation": None,
        "observations": rows,
        "verdict": judge(result, rows, before, after),
        "started_at": started_at,
        "ended_at": datetime.now(UTC),
    }
    return session.keep(answer_of(result).model_copy(update=of_platform))


def work_rows(samples: Sequence[Sample], before: CpuScore, after: CpuScore) -> list[Observation]:
    """An observation per transfer, normalised by the mean of the two scores."""
    score = fmean((before.mbps, after.mbps))
    return [_row(sample, score) for sample in samples]


def _row(sample: Sample, score: float) -> Observation:
    figures = {"wall_s": sample.wall_s, "cpu_score_MBps": score}
    if sample.ok and (seconds := COST.of(sample)) is not None:
        figures |= {"cpu_s_per_GB": seconds, "hashed_MB_per_GB": hashed_mb_per_gb(seconds, score)}
    if sample.body_byte_s is not None:
        figures["body_MBps"] = sample.body_byte_s / 1e6
    return Observation(name=f"sample {sample.index + 1}", problem=sample.problem, figures=figures)


def judge(result: CellResult, rows: Sequence[Observation], before: CpuScore, after: CpuScore) -> Verdict:
    """The cell's own verdict, with what the work cost; with a warning for a score that drifted."""
    if result.verdict.name in ("FAIL", "INVALID") or not rows:
        return result.verdict
    cost = fmean(row.figures["cpu_s_per_GB"] for row in rows)
    work = fmean(row.figures["hashed_MB_per_GB"] for row in rows)
    speeds = [row.figures["body_MBps"] for row in rows if "body_MBps" in row.figures]
    speed = f"{fmean(speeds):.1f} MB/s, " if speeds else ""
    fine = f"{speed}{cost:.2f} CPU seconds per GB, worth {work:.0f} MB of SHA-256 on this host ({before.mbps:.0f} MB/s)"
    drift = abs(after.mbps / before.mbps - 1)
    warnings = [f"the CPU score went from {before.mbps:.0f} to {after.mbps:.0f} MB/s"] if drift > MOST_DRIFT else []
    return verdict_on(rows, fine).model_copy(update={"warnings": warnings})
