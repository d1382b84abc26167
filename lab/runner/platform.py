"""One piece of work and what it costs the host: MB/s, CPU seconds per GB, and those normalised by the host's CPU score.

The score is measured on the client's host right before the cell, and once more after it; it is part of the cell's snapshots, so
that `lab compare` of two machines' runs has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean

from lab import __version__
from lab.judge.cost import cpu_s_per_gb, hashed_mb_per_gb
from lab.judge.quirks import verdict_on
from lab.measure.cpu_score import CpuScore, measure_cpu_score
from lab.result.finding import Finding, FindingRow
from lab.result.models import CellResult, Sample, Verdict
from lab.runner.session import Session
from lab.spec.models import Cell

MOST_DRIFT = 0.10
"""Between the scores before and after: a processor that changed its clock by more makes the normalised figure a rough one."""


def run_platform(session: Session, cell: Cell) -> Finding:
    """Run the cell between two scores; write both results. Raises as `Session.run_cell`."""
    started_at = datetime.now(UTC)
    with session.bench(cell.id, cell.topology, real=True) as (network, _):
        before = measure_cpu_score(network.client)
    session.client_facts |= before.facts
    result = session.run_cell(cell)
    with session.bench(cell.id, cell.topology, real=True) as (network, _):
        after = measure_cpu_score(network.client)
    rows = work_rows(result.samples, before, after)
    finding = Finding(
        id=f"{cell.id}--platform",
        kind="platform",
        run=session.run.name,
        lab_version=__version__,
        backend=result.backend,
        router=result.router,
        machine=result.before.machine,
        client=result.client,
        topology=cell.topology,
        transfer=cell.transfer,
        rows=rows,
        verdict=judge(result, rows, before, after),
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )
    session.keep(finding)
    return finding


def work_rows(samples: Sequence[Sample], before: CpuScore, after: CpuScore) -> list[FindingRow]:
    """A row per transfer, normalised by the mean of the two scores."""
    score = fmean((before.mbps, after.mbps))
    return [_row(sample, score) for sample in samples]


def _row(sample: Sample, score: float) -> FindingRow:
    figures = {"wall_s": sample.wall_s, "cpu_score_MBps": score}
    if (seconds := cpu_s_per_gb([sample])) is not None:
        figures |= {"cpu_s_per_GB": seconds, "hashed_MB_per_GB": hashed_mb_per_gb(seconds, score)}
    if sample.body_byte_s is not None:
        figures["body_MBps"] = sample.body_byte_s / 1e6
    return FindingRow(name=f"sample {sample.index + 1}", problem=sample.problem, figures=figures)


def judge(result: CellResult, rows: Sequence[FindingRow], before: CpuScore, after: CpuScore) -> Verdict:
    """The cell's own verdict, with what the work cost; a score that drifted is told."""
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
