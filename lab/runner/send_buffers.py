"""The same upload with the send buffer fixed and automatic, a transfer of each per round: time, ratio, speed-up.

Nothing is promised here, so every whole transfer is a PASS; the figures are the result. The rounds are interleaved on one shaped
link, hence the ratio does not need the link's certificate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from statistics import median

from lab.judge.interval import mean_interval
from lab.judge.quirks import verdict_on
from lab.judge.sweep import turn_order
from lab.measure.attempt import Bench
from lab.measure.ports import PortSampler
from lab.measure.sample import take_sample
from lab.measure.send_buffer import fixed_send_buffer
from lab.result.finding import Finding, FindingRow
from lab.result.models import Interval, Verdict
from lab.runner.quirks import Question, investigate
from lab.runner.session import Session
from lab.spec.models import ClientSpec, Topology, Transfer
from lab.spec.units import Size

ARMS = ("fixed", "automatic")
_CONFIDENCE = 0.90


def compare_send_buffers(
    session: Session, client: ClientSpec, topology: Topology, transfer: Transfer, *, fixed: Size, rounds: int
) -> Finding:
    """Run both arms `rounds` times; write and return what they came to. Raises as `Session.run_cell`."""
    return investigate(
        session,
        Question(client, topology, transfer, "send-buffers"),
        lambda bench: _rounds(bench, transfer, fixed, rounds),
        lambda rows: judge(rows, fixed),
    )


def _rounds(bench: Bench, transfer: Transfer, fixed: Size, rounds: int) -> Iterator[FindingRow]:
    """A row per transfer, in the order they ran."""
    client = bench.network.client
    with PortSampler(bench.network) as ports:
        for index in range(rounds):
            for turn in turn_order(len(ARMS), index):
                arm = ARMS[turn]
                with fixed_send_buffer(client, fixed) if arm == "fixed" else nullcontext():
                    sample = take_sample(bench.network, bench.servers, bench.adapter, transfer, index, ports=ports)
                figures = {"round": float(index + 1), "time_s": sample.wall_s}
                if sample.body_byte_s is not None:
                    figures["body_MBps"] = sample.body_byte_s / 1e6
                yield FindingRow(name=arm, problem=sample.problem, figures=figures)
                if sample.problem:
                    return


def times(rows: Sequence[FindingRow], arm: str) -> list[float]:
    """Seconds of every transfer of that arm, in the order of the rounds."""
    return [row.figures["time_s"] for row in rows if row.name == arm]


def speed_up(rows: Sequence[FindingRow]) -> Interval | None:
    """Time with the fixed buffer over time with the automatic one, geometric mean; None for fewer than two rounds."""
    pairs = list(zip(times(rows, "fixed"), times(rows, "automatic"), strict=False))
    if len(pairs) < 2:
        return None
    found = mean_interval([math.log(fixed / automatic) for fixed, automatic in pairs], _CONFIDENCE)
    return found.model_copy(update={name: math.exp(getattr(found, name)) for name in ("mean", "low", "high")})


def judge(rows: list[FindingRow], fixed: Size) -> Verdict:
    """PASS with the speed-up, where every transfer was whole."""
    found = speed_up(rows)
    fine = "one round each: no interval"
    if found is not None:
        slow, quick = (median(times(rows, arm)) for arm in ARMS)
        fine = (
            f"automatic is {found.mean:.2f} times as fast ({found.low:.2f} to {found.high:.2f}, n={found.n}): "
            f"{quick:.2f} s, with a send buffer of {fixed} {slow:.2f} s"
        )
    verdict = verdict_on(rows, fine)
    return verdict.model_copy(update={"interval": found}) if verdict.name == "PASS" else verdict
