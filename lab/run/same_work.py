"""The same requests by several clients, or with several treatments of the answers, interleaved: what does each cost?

Nothing is promised but that every answer arrives. Requests per second depend on the server and on everything else that the
processor does; CPU seconds of the client hardly do, so both are given, with their ratios to the first arm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import NamedTuple

from lab import __version__
from lab.judge.ratio import paired_ratio
from lab.model.answer import Answer, Arm
from lab.model.cell import Cell
from lab.model.cell_name import format_transfer
from lab.model.figures import FIGURES
from lab.model.results import CellResult, Interval, Sample, Verdict, worst
from lab.run import flamegraph, system_calls
from lab.run.session import Session

_ALPHA = 0.05
"""One-sided: the intervals are of 90 %."""
_ANSWERS = re.compile(r"-(?:discard(?:-nofile)?|repeat)$")


class _Values(NamedTuple):
    """A value per transfer, in the order of the rounds."""

    rates: list[float]
    cpu_s: list[float]


def same_work_id(cells: Sequence[Cell]) -> str:
    """`curl@8.14.1-and-curl@8.15.0--same-host--h2-get-50000x10kB-p100--same-work`."""
    clients = "-and-".join(dict.fromkeys(cell.client.name for cell in cells))
    work = _ANSWERS.sub("", format_transfer(cells[0].transfer))
    return f"{clients}--{cells[0].topology.name}--{work}--same-work"


def run_same_work(session: Session, cells: Sequence[Cell], rounds: int) -> Answer:
    """Run the cells, all on one link, that many times each; write them and the answer. Raises as `Session.run_cell`."""
    name = same_work_id(cells)
    order, results = session.run_together(name, cells, rounds)
    calls: list[float | None] = [None] * len(cells)
    for index, cell in enumerate(cells):
        if results[index].verdict.name in ("FAIL", "INVALID"):
            continue
        if session.options.syscalls:
            calls[index] = system_calls.record(session, cell) / cell.transfer.files
        if session.options.flamegraph is not None:
            flamegraph.record(session, cell, session.options.flamegraph)
    return session.keep(answer_of_same_work(name, results, order, calls))


def answer_of_same_work(
    name: str, results: Sequence[CellResult], order: Sequence[int], calls: Sequence[float | None] = ()
) -> Answer:
    """The answer made of the cells; `order` has the index of an arm per transfer, `calls` the system calls per request."""
    first = results[0]
    names = _names(results)
    values = [_values(result.samples) for result in results]
    arms = [
        _arm(arm, result, each, values[0] if index else None, calls[index] if index < len(calls) else None)
        for index, (arm, result, each) in enumerate(zip(names, results, values, strict=True))
    ]
    return Answer(
        id=name,
        question="same-work",
        run=first.run,
        lab_version=__version__,
        backend=first.backend,
        clocks=[first.clock],
        topology=first.topology,
        arms=arms,
        order=[names[index] for index in order],
        rate_clock=first.samples[0].body_clock if first.samples else None,
        ratio=arms[1].interval if len(arms) == 2 else None,
        verdict=_verdict(results, arms),
        started_at=first.started_at,
        ended_at=datetime.now(UTC),
    )


def _names(results: Sequence[CellResult]) -> list[str]:
    """The client, the transfer's treatment of the answers, or both: what the arms differ in."""
    clients = {result.client.name for result in results}
    treatments = {_treatment(result) for result in results}
    if len(treatments) == 1:
        return [result.client.name for result in results]
    if len(clients) == 1:
        return [_treatment(result) for result in results]
    return [f"{result.client.name} {_treatment(result)}" for result in results]


def _treatment(result: CellResult) -> str:
    transfer = result.transfer
    return "no file" if transfer.no_file else "null device" if transfer.discard else "files"


def _values(samples: Sequence[Sample]) -> _Values:
    good = [sample for sample in samples if sample.ok and sample.requests_per_s]
    return _Values(
        [sample.requests_per_s for sample in good if sample.requests_per_s],
        [sample.cpu_user_s + sample.cpu_system_s for sample in good],
    )


def _arm(name: str, result: CellResult, values: _Values, first: _Values | None, calls: float | None) -> Arm:
    figures: dict[str, float] = {}
    if values.rates:
        figures["requests_per_s"] = fmean(values.rates)
        figures["cpu_s_per_1000"] = fmean(values.cpu_s) / result.transfer.files * 1000
    if (memory := FIGURES["memory"].summarise(result)) is not None:
        figures["peak_MB"] = memory / 1e6
    if calls is not None:
        figures["syscalls_per_request"] = calls
    ratio = _ratio(first.rates, values.rates) if first else None
    cost = _ratio(first.cpu_s, values.cpu_s) if first else None
    if cost:
        figures |= {"cpu_ratio": cost.mean, "cpu_ratio_low": cost.low, "cpu_ratio_high": cost.high}
    bytes_per_s = [rate * result.transfer.size.bytes for rate in values.rates]
    return Arm(
        name=name,
        cell=result.id,
        client=result.client,
        verdict=result.verdict.name,
        byte_s=bytes_per_s,
        interval=ratio,
        figures=figures,
    )


def _ratio(first: Sequence[float], own: Sequence[float]) -> Interval | None:
    """Over the rounds that both have; None for fewer than two."""
    rounds = min(len(first), len(own))
    usable = rounds >= 2 and min(*first[:rounds], *own[:rounds]) > 0
    return paired_ratio(first[:rounds], own[:rounds]).interval(_ALPHA) if usable else None


def _verdict(results: Sequence[CellResult], arms: Sequence[Arm]) -> Verdict:
    """PASS with the figures where every request of every arm was answered; else the worst of the cells' verdicts."""
    found = worst([result.verdict.name for result in results if result.verdict.name in ("FAIL", "INVALID")] or ["PASS"])
    if found != "PASS":
        return next(result.verdict for result in results if result.verdict.name == found)
    return Verdict(name="PASS", reason="; ".join(map(_words, arms)))


def _words(arm: Arm) -> str:
    figures, ratio = arm.figures, arm.interval
    if "requests_per_s" not in figures:
        return f"{arm.name}: nothing measured"
    words = f"{arm.name}: {figures['requests_per_s']:.0f} requests/s, {figures['cpu_s_per_1000']:.4f} CPU s per 1000"
    if "syscalls_per_request" in figures:
        words += f", {figures['syscalls_per_request']:.2f} system calls each"
    if ratio and "cpu_ratio" in figures:
        words += (
            f" (rate {ratio.mean:.3f} of the first's, {ratio.low:.3f} to {ratio.high:.3f}; "
            f"CPU {figures['cpu_ratio']:.3f}, {figures['cpu_ratio_low']:.3f} to {figures['cpu_ratio_high']:.3f})"
        )
    return words
