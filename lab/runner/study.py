"""From a study to its cells and from their samples to its result; the running in between is `Session`'s."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from lab import __version__
from lab.client.adapter import ClientAdapter
from lab.errors import NotSupported
from lab.judge.host import judge_together
from lab.judge.sweep import Arm, byte_rates, common_clock, judge_sweep
from lab.judge.tolerance import LookPlan
from lab.result.models import CellResult
from lab.result.study import StudyArm, StudyResult
from lab.spec.models import Cell
from lab.spec.study import BufferStudy


def arms_of(study: BufferStudy, adapter: ClientAdapter) -> tuple[dict[str, Cell], dict[str, str]]:
    """The cells of the settings that the client has, by setting, and why it has not the others.

    Raises NotSupported when fewer than two are left to compare.
    """
    cells: dict[str, Cell] = {}
    left_out: dict[str, str] = {}
    for buffer in study.buffers:
        cell = study.cell(buffer)
        if reason := adapter.supports(cell.transfer):
            left_out[str(buffer)] = reason
        else:
            cells[str(buffer)] = cell
    if len(cells) < 2:
        raise NotSupported(f"{study.client.name} cannot do {study.id}: {'; '.join(dict.fromkeys(left_out.values()))}")
    return cells, left_out


def study_result(
    study: BufferStudy,
    arms: dict[str, CellResult],
    *,
    order: Sequence[int],
    left_out: dict[str, str],
    problems: Sequence[str],
    looks: LookPlan,
) -> StudyResult:
    """Judge what the cells hold. `order` has the index of an arm per transfer; `problems` are the lab's, and make it INVALID."""
    names, cells = list(arms), list(arms.values())
    samples = [sample for cell in cells for sample in cell.samples]
    compared = [Arm(name, cell.samples) for name, cell in arms.items()]
    clock = common_clock([sample for sample in samples if sample.ok]) if samples else None
    rates = byte_rates(compared, clock) if clock else [[] for _ in compared]
    # As for a cell: what was taken on a link that then failed its lab is no ground for a verdict.
    grounds = samples and cells[0].certificate is not None
    judged = judge_sweep(compared, study.floor.value, looks) if grounds else None
    verdict = judge_together(judged, cells, looks, problems=problems)
    if left_out:
        why = {reason: [name for name in left_out if left_out[name] == reason] for reason in left_out.values()}
        without = "; ".join(f"{', '.join(names)}: not compared, {reason}" for reason, names in why.items())
        verdict = verdict.model_copy(update={"warnings": [*verdict.warnings, without]})
    return StudyResult(
        id=study.id,
        run=cells[0].run,
        lab_version=__version__,
        client=cells[0].client,
        topology=study.topology,
        transfer=study.transfer,
        varied="buffer_size",
        floor=study.floor,
        clock=clock,
        lab_clock=cells[0].clock,
        arms=[
            StudyArm(setting=name, cell=cell.id, byte_s=row, mean_byte_s=_geometric_mean(row))
            for name, cell, row in zip(names, cells, rates, strict=True)
        ],
        order=[names[index] for index in order],
        left_out=left_out,
        verdict=verdict,
        started_at=cells[0].started_at,
        ended_at=datetime.now(UTC),
    )


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None
