"""The effects of a transfer on others on its link: harm and share (ADR 0035). Pure functions of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.judge.quantile import quantile


@dataclass(frozen=True)
class Delay:
    """Round trips of a bystander, in milliseconds, and the part of the datagrams that were lost."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    loss: float
    count: int


def delay(rtts_ms: Sequence[float | None]) -> Delay | None:
    """The percentiles of what came back; None where nothing did."""
    came = [rtt for rtt in rtts_ms if rtt is not None]
    p50, p95, p99 = (quantile(came, share) for share in (0.50, 0.95, 0.99))
    if p50 is None or p95 is None or p99 is None:
        return None
    return Delay(p50, p95, p99, 1 - len(came) / len(rtts_ms), len(rtts_ms))


def harm_of_delay(solo: float, beside: float) -> float:
    """0 if the delay stays as it was alone, towards 1 as it grows: (with - solo) / with (Ware et al. 2019)."""
    return max(0.0, (beside - solo) / beside) if beside > 0 else 0.0


def harm_of_goodput(solo: float, beside: float) -> float:
    """0 if a flow keeps what it has alone, 1 if it gets nothing: (solo - with) / solo (Ware et al. 2019)."""
    return max(0.0, (solo - beside) / solo) if solo > 0 else 0.0
