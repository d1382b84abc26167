"""A run as text, as an engineer would put it into a mail.

Works at 100 columns; colour only on a terminal, and never as the only sign. MB/s is 10^6 bytes per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.judge.host import set_aside_words
from lab.judge.interval import mean_interval
from lab.model.answer import Answer, answer_of
from lab.model.clock import NOT_IN_VIRTUAL_TIME, Clock, clock_words
from lab.model.figures import FIGURES, Figure
from lab.model.link import Link
from lab.model.numbers import percent, signed
from lab.model.results import (
    Calibration,
    CellResult,
    DirectionCalibration,
    DirectionName,
    Interval,
    Sample,
    count_line,
)
from lab.store.bundle import again
from reports.answer_text import indented, print_line, render_answers, skipped_lines, verdict_word
from reports.answers import NOTHING, judged_words
from reports.matrix import client_words, link_words, rate_words
from reports.words import why_words

CALIBRATION_CONFIDENCE = 0.90
DIGEST_DIGITS = 12


def render_run(
    cells: Sequence[CellResult],
    console: Console,
    path: Path | None = None,
    *,
    answers: Sequence[Answer] = (),
    skipped: Mapping[str, str] | None = None,
) -> None:
    """Print a block per cell, a row per cell, the answers, what was `skipped` (id -> reason), the count of verdicts.

    When given, `path` is where the results are.
    """
    for cell in cells:
        render_cell(cell, console)
    if len(cells) > 1:
        console.print(_overview(cells))
        console.print()
    render_answers(answers, console, {each.id: each for each in (*map(answer_of, cells), *answers)})
    for line in skipped_lines(skipped or {}):
        print_line(console, line)
    verdicts = [cell.verdict.name for cell in cells]
    verdicts += [answer.verdict.name for answer in answers if answer.verdict and answer.counts]
    console.print(count_line(verdicts), highlight=False)
    if path is not None:
        print_line(console, f"results: {path}")


def render_cell(cell: CellResult, console: Console) -> None:
    """Print one cell: a row per sample, facts of wire and link, the verdict with its reason, and how to repeat the cell."""
    print_line(console, cell.id, bold=True)
    console.print(Text(f"{client_words(cell.client)} over {_link_words(cell)}, {clock_words(cell.clock)}"))
    if cell.samples:
        _print_samples(cell, console)
    console.print(indented(_facts(cell)))
    if cell.verdict.name != "PASS":
        print_line(console, f"  again: {again(cell)}")
    console.print()


def figure_number(figure: Figure, cell: CellResult, sample: Sample) -> str:
    """A sample's figure without its unit; a dash if the figure has no meaning on the cell's clock."""
    value = figure.value(cell, sample)
    return NOTHING if value is None else figure.number(value)


def figure_text(figure: Figure, cell: CellResult, sample: Sample) -> str:
    """The same with its unit."""
    value = figure.value(cell, sample)
    return NOTHING if value is None else figure.text(value)


@dataclass(frozen=True)
class CalibrationRow:
    """A link and its calibrations; one line per direction."""

    link: Link
    looks: Sequence[Calibration]


def calibration_table(rows: Sequence[CalibrationRow], console: Console) -> None:
    """Print goodput against the ideal and round trip against the asked one, each with its 90 % interval."""
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


def _print_samples(cell: CellResult, console: Console) -> None:
    """A table where it fits; else without the columns that are the same in every row; else in words. No number is cut."""
    for alike in (True, False):
        table = _sample_table(cell, alike=alike)
        if table_width(table) + 2 <= console.width:
            console.print(indented(table))
            return
    headings = [str(column.header) for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        told = [f"{heading} {shown}".strip() for heading, shown in zip(headings, row, strict=True) if str(shown)]
        print_line(console, f"  {', '.join(told)}")


def _bytes(sample: Sample) -> str:
    """The bytes that the client reports; for a client without a report, those that the lab found to have arrived if all did.

    An incomplete transfer's problem says how much of it arrived.
    """
    if sample.client is not None and sample.client.bytes is not None:
        return str(sample.client.bytes)
    return str(sample.expected_bytes) if sample.ok else NOTHING


def table_width(table: Table) -> int:
    """Columns in which no line of the table has to be broken."""
    return Console(width=100_000).measure(table).maximum


def _sample_table(cell: CellResult, *, alike: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    if alike:
        table.add_column("limit")
        table.add_column("link")
    bounded = [cell.expectation.figure] if cell.expectation.bounded else []
    for heading in ("time s", "bytes", "MB/s", "deviation", *(figure.name for figure in bounded)):
        table.add_column(heading, justify="right")
    table.add_column("")
    limit = str(cell.transfer.limit) if cell.transfer.limit is not None else "none"
    for sample in cell.samples:
        table.add_row(
            str(sample.index + 1),
            *((Text(limit), Text(cell.topology.name)) if alike else ()),
            figure_number(FIGURES["body"], cell, sample),
            _bytes(sample),
            figure_number(FIGURES["rate"], cell, sample),
            figure_text(FIGURES["deviation"], cell, sample),
            *(figure_text(figure, cell, sample) for figure in bounded),
            Text("" if sample.ok else f"failed: {sample.problem or f'exit code {sample.exit_code}'}", style="bold red"),
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
        for what, look in cell.certificate.path.looks.items() if cell.certificate.path else ():
            table.add_row(what, Text(_calibration_words([look], cell.clock)))
    if why := why_words(cell.samples):
        table.add_row("why", Text(why))
    for line in _host_lines(cell):
        table.add_row("host", Text(line))
    for warning in cell.verdict.warnings:
        table.add_row("note", Text(warning))
    if cell.virtual and cell.virtual.digest:
        table.add_row(
            "digest", Text(f"{cell.virtual.digest[:DIGEST_DIGITS]} of all that counts: {', '.join(cell.virtual.counts)}")
        )
    table.add_row("verdict", Text.assemble(verdict_word(cell.verdict.name), f": {cell.verdict.reason}"))
    return table


def _host_lines(cell: CellResult) -> list[str]:
    """Each way in which the host was disturbed; empty where it was quiet."""
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
    gap, peak = (_worst(FIGURES[name], cell) for name in ("silence", "peak"))
    if gap is None:
        return None
    told = f"longest gap {FIGURES['silence'].text(gap)}"
    if peak is None:
        return told
    limit = cell.limit_byte_s
    ratio = f" ({peak / limit:.2f} x limit)" if limit else ""
    return f"worst 100 ms window {FIGURES['peak'].text(peak)}{ratio}, {told}{_retransmits(cell.samples) if limit else ''}"


def _worst(figure: Figure, cell: CellResult) -> float | None:
    """Over all samples, failed ones too."""
    return max((value for sample in cell.samples if (value := figure.value(cell, sample)) is not None), default=None)


def _retransmits(samples: Sequence[Sample]) -> str:
    counted = [sample.wire.retransmits for sample in samples if sample.wire is not None and sample.wire.retransmits is not None]
    return f", {sum(counted)} retransmits" if any(counted) else ""


def _calibration_words(looks: Sequence[Calibration], clock: Clock) -> str:
    last = looks[-1]
    sides = ", ".join(f"{side.direction} {_goodput_words(side, clock)}" for side in (last.down, last.up))
    words = f"goodput {sides}; RTT {signed(last.rtt_excess_ms)} ms of {last.rtt_asked_ms:g} ms asked"
    if last.trace:
        worst = max((last.trace.down, last.trace.up), key=lambda side: abs(side.worst_slot_frames))
        words += f"; each {last.trace.slot_ms} ms within {round(abs(worst.worst_slot_frames), 2):g} frames of the trace"
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
