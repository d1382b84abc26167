"""From the looks at a link to its certificate, and what is wrong with it. Looks at results, and measures nothing."""

from __future__ import annotations

from lab.network.calibrate import Tolerance
from lab.network.shape import Shaped
from lab.result.models import Calibration, Certificate
from lab.spec.models import Cell


def too_slow(cell: Cell, calibration: Calibration) -> str:
    """A limit can only be judged on a link that carries more than it."""
    needed = cell.needed_byte_s
    if needed is None:
        return ""
    side = calibration.down if cell.transfer.direction == "get" else calibration.up
    if side.goodput_bit_s >= needed * 8:
        return ""
    limit_bit_s = (cell.transfer.limit_byte_s or 0) * 8
    return (
        f"the link carries {side.goodput_bit_s / 1e6:.2f} Mbit/s, too little to judge a limit of {limit_bit_s / 1e6:.2f} Mbit/s"
    )


def lab_problems(cell: Cell, certificate: Certificate) -> list[str]:
    """Why the lab was not what it claims; empty when it was."""
    problems = [f"before: {problem}" for problem in certificate.before[-1].problems]
    if certificate.after:
        problems += [f"after: {problem}" for problem in certificate.after[-1].problems]
    if slow := too_slow(cell, certificate.before[-1]):
        problems.append(slow)
    return problems


def begin_certificate(cell: Cell, shaped: Shaped, before: list[Calibration], tolerance: Tolerance) -> Certificate:
    """Without what comes after the samples."""
    return Certificate(
        link=cell.topology.link,
        congestion_control=cell.topology.congestion_control,
        goodput_tolerance=tolerance.goodput,
        rtt_tolerance_ms=tolerance.rtt_ms,
        before=before,
        after=[],
        qdisc_commands=list(shaped.commands),
        qdisc_readback={},
    )
