"""The cells of a sweep over buffer sizes, and the answer made of their samples."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lab import __version__
from lab.clients.adapter import ClientAdapter
from lab.judge import sweep
from lab.judge.host import judge_together
from lab.judge.sweep import byte_rates, common_clock, judge_sweep
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer, Arm
from lab.model.cell import Cell
from lab.model.errors import NotSupported
from lab.model.numbers import geometric_mean
from lab.model.results import CellResult
from lab.model.study import BufferStudy


def arms_of(study: BufferStudy, adapter: ClientAdapter) -> tuple[dict[str, Cell], dict[str, str]]:
    """The cells of the settings that the client has, by setting, and why it does not have the others.

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


def buffer_sizes(
    study: BufferStudy,
    arms: dict[str, CellResult],
    *,
    order: Sequence[int],
    left_out: dict[str, str],
    problems: Sequence[str],
    looks: LookPlan,
) -> Answer:
    """Judge the cells. `order` has the index of an arm per transfer; `problems` are the lab's, and make it INVALID."""
    names, cells = list(arms), list(arms.values())
    samples = [sample for cell in cells for sample in cell.samples]
    compared = [sweep.Arm(name, cell.samples) for name, cell in arms.items()]
    clock = common_clock([sample for sample in samples if sample.ok]) if samples else None
    rates = byte_rates(compared, clock) if clock else [[] for _ in compared]
    # Samples on a link that failed its calibration do not support a verdict, nor do they for a single cell.
    grounds = samples and cells[0].certificate is not None
    judged = judge_sweep(compared, study.floor.value, looks) if grounds else None
    verdict = judge_together(judged, cells, looks, problems=problems)
    if left_out:
        why = {reason: [name for name in left_out if left_out[name] == reason] for reason in left_out.values()}
        without = "; ".join(f"{', '.join(names)}: not compared, {reason}" for reason, names in why.items())
        verdict = verdict.model_copy(update={"warnings": [*verdict.warnings, without]})
    return Answer(
        id=study.id,
        question="buffer-sizes",
        run=cells[0].run,
        lab_version=__version__,
        backend=cells[0].backend,
        clocks=[cells[0].clock],
        client=cells[0].client,
        topology=study.topology,
        transfer=study.transfer,
        arms=[
            Arm(name=name, cell=cell.id, verdict=cell.verdict.name, byte_s=row, mean_byte_s=geometric_mean(row))
            for name, cell, row in zip(names, cells, rates, strict=True)
        ],
        bound=study.floor,
        rate_clock=clock,
        order=[names[index] for index in order],
        skipped=left_out,
        ratio=verdict.interval,
        verdict=verdict,
        started_at=cells[0].started_at,
        ended_at=datetime.now(UTC),
    )
