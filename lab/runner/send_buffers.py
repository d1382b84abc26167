"""The same upload with the send buffer fixed and automatic, a transfer of each per round: time, ratio, speed-up.

It is fixed for all of the client's host (`lab.measure.send_buffer`), or by ferry's own switch, `--sndbuf off` and `auto`,
which is the question of Windows' ideal send backlog; each row then has what ferry says of its socket.

Nothing is promised here, so every whole transfer is a PASS; the figures are the result. The rounds are interleaved on one shaped
link, hence the ratio does not need the link's certificate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from statistics import median
from typing import Literal

from lab.client.adapter import ClientAdapter
from lab.client.ferry import Ferry
from lab.client.registry import resolve
from lab.errors import NotSupported
from lab.judge.interval import mean_interval
from lab.judge.quirks import verdict_on
from lab.judge.sweep import turn_order
from lab.measure.attempt import Bench
from lab.measure.ports import PortSampler
from lab.measure.sample import take_sample
from lab.measure.send_buffer import fixed_send_buffer
from lab.result.finding import Finding, FindingRow
from lab.result.models import Interval, Sample, Verdict
from lab.runner.quirks import Question, investigate
from lab.runner.session import Session
from lab.spec.models import ClientSpec, Topology, Transfer
from lab.spec.units import Size

ARMS = ("fixed", "automatic")
Off = Literal["off"]
"""In the place of a size: fixed by the client's own switch."""
_SWITCH = {"fixed": "off", "automatic": "auto"}
_CONFIDENCE = 0.90


def compare_send_buffers(
    session: Session, client: ClientSpec, topology: Topology, transfer: Transfer, *, fixed: Size | Off, rounds: int
) -> Finding:
    """Run both arms `rounds` times; write and return what they came to.

    Raises as `Session.run_cell`; NotSupported for `fixed="off"` of a client without such a switch.
    """
    by_switch = not isinstance(fixed, Size)
    question = Question(client, topology, transfer, "send-buffers", "off" if by_switch else "")
    if by_switch and not isinstance(resolve(client), Ferry):
        raise NotSupported(f"{client.name} cannot do {question.id}: only ferry has a switch for its send buffer (--sndbuf)")
    return investigate(
        session,
        question,
        lambda bench: _rounds(bench, transfer, fixed, rounds),
        lambda rows: judge(rows, fixed),
    )


def _rounds(bench: Bench, transfer: Transfer, fixed: Size | Off, rounds: int) -> Iterator[FindingRow]:
    """A row per transfer, in the order they ran."""
    with PortSampler(bench.network) as ports:
        for index in range(rounds):
            for turn in turn_order(len(ARMS), index):
                arm = ARMS[turn]
                adapter, host_is_set = _arm(bench, arm, fixed)
                with host_is_set:
                    sample = take_sample(bench.network, bench.servers, adapter, transfer, index, ports=ports)
                figures = {"round": float(index + 1), "time_s": sample.wall_s}
                if sample.body_byte_s is not None:
                    figures["body_MBps"] = sample.body_byte_s / 1e6
                yield FindingRow(name=arm, problem=sample.problem, figures=figures, facts=_told(sample))
                if sample.problem:
                    return


def _arm(bench: Bench, arm: str, fixed: Size | Off) -> tuple[ClientAdapter, AbstractContextManager[None]]:
    """The client as it is run in that arm, and its host while it is."""
    if isinstance(fixed, Size):
        return bench.adapter, fixed_send_buffer(bench.network.client, fixed) if arm == "fixed" else nullcontext()
    assert isinstance(bench.adapter, Ferry)
    return replace(bench.adapter, sndbuf=_SWITCH[arm]), nullcontext()


def _told(sample: Sample) -> dict[str, str]:
    """What the client says of its send buffer: the system's answer to the ideal backlog, or its refusal."""
    told = sample.client.raw.get("sndbuf") if sample.client else None
    return {"sndbuf": json.dumps(told, sort_keys=True)} if told else {}


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


def judge(rows: list[FindingRow], fixed: Size | Off) -> Verdict:
    """PASS with the speed-up, where every transfer was whole."""
    found = speed_up(rows)
    fine = "one round each: no interval"
    if found is not None:
        slow, quick = (median(times(rows, arm)) for arm in ARMS)
        otherwise = f"with a send buffer of {fixed}" if isinstance(fixed, Size) else "with --sndbuf off"
        fine = (
            f"automatic is {found.mean:.2f} times as fast ({found.low:.2f} to {found.high:.2f}, n={found.n}): "
            f"{quick:.2f} s, {otherwise} {slow:.2f} s"
        )
    verdict = verdict_on(rows, fine)
    return verdict.model_copy(update={"interval": found}) if verdict.name == "PASS" else verdict
