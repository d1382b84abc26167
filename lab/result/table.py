"""A run as text: what an engineer would put into a mail. Derived from the cells, and disposable.

Works at 100 columns; colour only on a terminal, and never as the only sign. MB/s is 10^6 bytes per second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lab.judge.figures import asked
from lab.judge.host import HOST_BUSY, set_aside_words
from lab.judge.interval import mean_interval
from lab.result.bundle import again
from lab.result.matrix import client_words, link_words, rate_words
from lab.result.meaning import rate_is_real
from lab.result.models import Calibration, CellResult, DirectionCalibration, DirectionName, Interval, Sample, VerdictName
from lab.result.study import StudyResult
from lab.spec.clock import NOT_IN_VIRTUAL_TIME, Clock, clock_words
from lab.spec.models import Expectation, Link
from lab.spec.numbers import percent, percent_interval, signed

NOTHING = "-"
CALIBRATION_CONFIDENCE = 0.90
_STYLES: dict[VerdictName, str] = {
    "PASS": "bold green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "INVALID": "bold magenta",
}
_CLOCKS = {
    "client": "first to last body byte, by the client's report",
    "wire": "first to last body byte, by the router's port: the client does not tell",
    "exit": "first body byte by the router's port to the client's end: it does not tell, and its last bytes wait in its buffer",
    "total": "the whole time, connection set-up included: nothing tells the body's of every transfer",
}


def render_run(
    cells: Sequence[CellResult],
    console: Console,
    path: Path | None = None,
    *,
    studies: Sequence[StudyResult] = (),
    skipped: Mapping[str, str] | None = None,
) -> None:
    """Print a block per cell, a row per cell, a block per study, what was `skipped` (id -> reason), the count of verdicts.

    When given, `path` is where the results are.
    """
    for cell in cells:
        render_cell(cell, console)
    if len(cells) > 1:
        console.print(_overview(cells))
        console.print()
    for study in studies:
        render_study(study, console)
    verdicts = [*(cell.verdict for cell in cells), *(study.verdict for study in studies)]
    for line in skipped_lines(skipped or {}):
        console.print(Text(line), soft_wrap=True)
    console.print(count_line(verdict.name for verdict in verdicts), highlight=False)
    if path is not None:
        # A path broken over two lines cannot be copied.
        console.print(Text(f"results: {path}"), soft_wrap=True)


def render_cell(cell: CellResult, console: Console) -> None:
    """Print one cell: a row per sample, what the wire and the link showed, the verdict with its reason, and how to repeat it."""
    console.print(Text(f"{cell.id}", style="bold"), soft_wrap=True)
    console.print(Text(f"{client_words(cell.client)} over {_link_words(cell)}, {clock_words(cell.clock)}"))
    if cell.samples:
        console.print(_indented(_sample_table(cell)))
    console.print(_indented(_facts(cell)))
    if cell.verdict.name != "PASS":
        # A command broken over two lines cannot be copied.
        console.print(Text(f"  again: {again(cell)}"), soft_wrap=True)
    console.print()


def render_study(study: StudyResult, console: Console) -> None:
    """Print one comparison: a row per setting, and the verdict with its reason."""
    console.print(Text(study.id, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column(study.varied.replace("_", " "))
    for heading in ("rounds", "mean MB/s", "slowest", "fastest", "of the fastest mean"):
        table.add_column(heading, justify="right")
    best = max((arm.mean_byte_s for arm in study.arms if arm.mean_byte_s is not None), default=None)
    for arm in study.arms:
        table.add_row(
            Text(arm.setting),
            str(len(arm.byte_s)),
            _number(arm.mean_byte_s, "{:.3f}", scale=1e-6),
            _number(min(arm.byte_s, default=None), "{:.3f}", scale=1e-6),
            _number(max(arm.byte_s, default=None), "{:.3f}", scale=1e-6),
            _number(arm.mean_byte_s / best if arm.mean_byte_s and best else None, "{:.3f}"),
        )
    for setting in study.left_out:
        table.add_row(Text(setting), "0", *[NOTHING] * 4)
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("time", study.lab_clock)
    if study.clock is not None:
        facts.add_row("clock", _CLOCKS[study.clock])
    for warning in study.verdict.warnings:
        facts.add_row("note", Text(warning))
    facts.add_row("verdict", Text.assemble(verdict_word(study.verdict.name), f": {study.verdict.reason}"))
    console.print(_indented(table))
    console.print(_indented(facts))
    console.print()


def skipped_lines(skipped: Mapping[str, str]) -> list[str]:
    """How many cells and studies were not run, by client and reason; which, is in run.json."""
    if not skipped:
        return []
    counts = Counter((cell_id.partition("--")[0], reason) for cell_id, reason in skipped.items())
    return [
        f"{len(skipped)} skipped, because the client cannot do it:",
        *(f"  {count} of {client}: {reason}" for (client, reason), count in counts.items()),
    ]


def count_line(verdicts: Iterable[VerdictName]) -> str:
    """`3 PASS, 0 FAIL, 1 INCONCLUSIVE, 0 INVALID`: every word, so that a reader can search for it."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in get_args(VerdictName))


def judged_words(expectation: Expectation, interval: Interval) -> tuple[str, str]:
    """The mean and the interval behind a verdict, in the unit of what was expected."""
    if meant := asked(expectation):
        return meant.told(interval.mean), meant.span(interval)
    return percent_interval(interval.mean, interval.low, interval.high)


@dataclass(frozen=True)
class CalibrationRow:
    """One link and every look at it; becomes one line per direction."""

    link: Link
    looks: Sequence[Calibration]


def calibration_table(rows: Sequence[CalibrationRow], console: Console) -> None:
    """Print goodput against the ideal and the round trip against what was asked, each with its 90 % interval over the looks."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rate")
    table.add_column("RTT")
    table.add_column("dir")
    table.add_column("n", justify="right")
    table.add_column("goodput\nMbit/s", justify="right")
    table.add_column("ideal\nMbit/s", justify="right")
    table.add_column("error %\n(90 % interval)", justify="right")
    table.add_column("RTT excess ms\n(90 % interval)", justify="right")
    for row in rows:
        excess = _spread([look.rtt_excess_ms for look in row.looks], scale=1, digits=3)
        for name in get_args(DirectionName):
            sides: list[DirectionCalibration] = [getattr(look, name) for look in row.looks]
            errors = [side.goodput_error for side in sides if side.goodput_error is not None]
            table.add_row(
                rate_words(row.link, name),
                f"{row.link.rtt.ms:g} ms",
                name,
                str(len(row.looks)),
                f"{_mean([side.goodput_bit_s for side in sides]) / 1e6:.3f}" if sides else NOTHING,
                f"{sides[0].ideal_bit_s / 1e6:.3f}" if sides and sides[0].ideal_bit_s is not None else NOTHING,
                _spread(errors, scale=100, digits=3),
                excess,
            )
    console.print(table)


def _sample_table(cell: CellResult) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("limit")
    table.add_column("link")
    meant = asked(cell.expectation)
    for heading in ("time s", "bytes", "MB/s", "deviation", *([cell.expectation.kind] if meant else [])):
        table.add_column(heading, justify="right")
    table.add_column("")
    limit = str(cell.transfer.limit) if cell.transfer.limit is not None else "none"
    timed = rate_is_real(cell)
    for sample in cell.samples:
        table.add_row(
            str(sample.index + 1),
            Text(limit),
            Text(cell.topology.name),
            _number(sample.body_s if timed else None, "{:.3f}"),
            str(sample.client.bytes) if sample.client and sample.client.bytes is not None else NOTHING,
            _number(sample.body_byte_s if timed else None, "{:.3f}", scale=1e-6),
            NOTHING if sample.deviation is None else percent(sample.deviation),
            *([NOTHING if (value := meant.figure.of(sample)) is None else meant.figure.tell(value)] if meant else []),
            Text("" if sample.ok else f"failed: {sample.problem or f'exit code {sample.exit_code}'}", style=_STYLES["FAIL"]),
        )
    return table


def _facts(cell: CellResult) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    if (seen := _wire_words(cell)) is not None:
        table.add_row("wire", seen)
    if cell.certificate is not None:
        for when, looks in (("before", cell.certificate.before), ("after", cell.certificate.after)):
            if looks:
                table.add_row(f"link {when}", Text(_calibration_words(looks, cell.clock)))
    for line in _host_lines(cell):
        table.add_row("host", Text(line))
    for warning in cell.verdict.warnings:
        # Host problems are already listed above.
        if not warning.startswith(HOST_BUSY):
            table.add_row("note", Text(warning))
    table.add_row("verdict", Text.assemble(verdict_word(cell.verdict.name), f": {cell.verdict.reason}"))
    return table


def _host_lines(cell: CellResult) -> list[str]:
    """What the machine did that it should not have, a line each; empty where it was quiet."""
    told = [*(cell.host.problems if cell.host else ()), *([set_aside_words(cell.set_aside)] if cell.set_aside else ())]
    return list(dict.fromkeys(told))


def _overview(cells: Sequence[CellResult]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("cell", overflow="fold")
    for heading in ("mean", "interval", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    mixed = len({cell.clock for cell in cells}) > 1
    for cell in cells:
        interval = cell.verdict.interval
        table.add_row(
            Text(f"{cell.id}, {clock_words(cell.clock)}" if mixed else cell.id),
            *(judged_words(cell.expectation, interval) if interval else (NOTHING, NOTHING)),
            str(interval.n if interval else len(cell.samples)),
            verdict_word(cell.verdict.name),
        )
    return table


def _wire_words(cell: CellResult) -> str | None:
    """The worst of all samples: a mean can hide a burst or a stall."""
    series = [sample.series for sample in cell.samples if sample.series is not None]
    if not series:
        return None
    gap = f"longest gap {max(each.longest_gap_ms for each in series):.0f} ms"
    fastest = max((each.worst_window_byte_s for each in series if each.worst_window_byte_s is not None), default=None)
    if fastest is None:
        return gap
    limit = cell.transfer.limit_byte_s
    if not rate_is_real(cell):
        return gap
    if limit is None:
        return f"worst 100 ms window {fastest / 1e6:.3f} MB/s, {gap}"
    ratio = fastest / limit
    return f"worst 100 ms window {fastest / 1e6:.3f} MB/s ({ratio:.2f} x limit), {gap}{_retransmits(cell.samples)}"


def _retransmits(samples: Sequence[Sample]) -> str:
    counted = [sample.wire.retransmits for sample in samples if sample.wire is not None]
    return f", {sum(counted)} retransmits" if any(counted) else ""


def _calibration_words(looks: Sequence[Calibration], clock: Clock) -> str:
    last = looks[-1]
    sides = ", ".join(f"{side.direction} {_goodput_words(side, clock)}" for side in (last.down, last.up))
    words = f"goodput {sides}; RTT {signed(last.rtt_excess_ms)} ms of {last.rtt_asked_ms:g} ms asked"
    if len(looks) > 1:
        words += f"; attempt {len(looks)}"
    return words if last.ok else f"{words}; beyond tolerance: {'; '.join(last.problems)}"


def _goodput_words(side: DirectionCalibration, clock: Clock) -> str:
    if side.goodput_error is None and clock == "virtual":
        return f"{NOT_IN_VIRTUAL_TIME} (unshaped)"
    if side.goodput_error is None:
        return f"{side.goodput_bit_s / 1e6:.0f} Mbit/s (unshaped)"
    return f"{percent(side.goodput_error)} of ideal"


def _link_words(cell: CellResult) -> str:
    return f"{cell.topology.name} ({link_words(cell.topology)})"


def verdict_word(name: VerdictName) -> Text:
    return Text(name, style=_STYLES[name])


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def _number(value: float | None, form: str, *, scale: float = 1.0) -> str:
    return NOTHING if value is None else form.format(value * scale)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _spread(values: Sequence[float], *, scale: float, digits: int) -> str:
    """`+0.012 (-0.003 to +0.027)`; a single value has no interval."""
    if not values:
        return NOTHING
    if len(values) == 1:
        return f"{values[0] * scale:+z.{digits}f}"
    found: Interval = mean_interval(values, CALIBRATION_CONFIDENCE)
    return f"{found.mean * scale:+z.{digits}f} ({found.low * scale:+z.{digits}f} to {found.high * scale:+z.{digits}f})"
