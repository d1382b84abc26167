"""The same upload with the send buffer fixed and automatic, a transfer of each per round: time, ratio, speed-up.

The buffer is fixed for the client's complete host (`lab.run.events.send_buffer`), or with ferry's switch `--sndbuf off` and
`auto`, which asks about Windows' ideal send backlog; each row then has what ferry reports about its socket.

The ratio is not judged, so a transfer that arrives is a PASS; the figures are the result. The rounds are interleaved on one
shaped link, so the ratio does not need the link's certificate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from statistics import median
from typing import Literal

from lab.clients.adapter import ClientAdapter
from lab.clients.ferry import Ferry
from lab.clients.registry import resolve
from lab.judge.decide import scaled
from lab.judge.interval import mean_interval
from lab.judge.quirks import verdict_on
from lab.judge.sweep import turn_order
from lab.model.answer import Answer, Observation
from lab.model.errors import NotSupported
from lab.model.results import Interval, Sample, Verdict
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.net.ports import PortSampler
from lab.run.events.client_run import Bench
from lab.run.events.quirks import Request, investigate
from lab.run.events.send_buffer import fixed_send_buffer
from lab.run.sample import take_sample
from lab.run.session import Session

ARMS = ("fixed", "automatic")
Off = Literal["off"]
"""In place of a size: the client's own switch fixes it."""
_SWITCH = {"fixed": "off", "automatic": "auto"}
_CONFIDENCE = 0.90


def compare_send_buffers(
    session: Session, client: ClientSpec, topology: Topology, transfer: Transfer, *, fixed: Size | Off, rounds: int
) -> Answer:
    """Run both arms `rounds` times; write and return the answer.

    Raises as `Session.run_cell`; NotSupported for `fixed="off"` of a client without such a switch.
    """
    by_switch = not isinstance(fixed, Size)
    request = Request(client, topology, transfer, "send-buffers", "off" if by_switch else "")
    if by_switch and not isinstance(resolve(client), Ferry):
        raise NotSupported(f"{client.name} cannot do {request.id}: only ferry has a switch for its send buffer (--sndbuf)")
    return investigate(
        session,
        request,
        lambda bench: _rounds(bench, transfer, fixed, rounds),
        lambda rows: judge(rows, fixed),
    )


def _rounds(bench: Bench, transfer: Transfer, fixed: Size | Off, rounds: int) -> Iterator[Observation]:
    """An observation per transfer, in the order they ran."""
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
                yield Observation(name=arm, problem=sample.problem, figures=figures, facts=_told(sample))
                if sample.problem:
                    return


def _arm(bench: Bench, arm: str, fixed: Size | Off) -> tuple[ClientAdapter, AbstractContextManager[None]]:
    """The client of that arm, and the state of its host meanwhile."""
    if isinstance(fixed, Size):
        return bench.adapter, fixed_send_buffer(bench.network.client, fixed) if arm == "fixed" else nullcontext()
    assert isinstance(bench.adapter, Ferry)
    return replace(bench.adapter, sndbuf=_SWITCH[arm]), nullcontext()


def _told(sample: Sample) -> dict[str, str]:
    """The client's report on its send buffer: the system's figure of an ideal backlog, or the system's refusal."""
    told = sample.client.raw.get("sndbuf") if sample.client else None
    return {"sndbuf": json.dumps(told, sort_keys=True)} if told else {}


def times(rows: Sequence[Observation], arm: str) -> list[float]:
    """Seconds of every transfer of that arm, in the order of the rounds."""
    return [row.figures["time_s"] for row in rows if row.name == arm]


def speed_up(rows: Sequence[Observation]) -> Interval | None:
    """Time with the fixed buffer over time with the automatic one, geometric mean; None for fewer than two rounds."""
    pairs = list(zip(times(rows, "fixed"), times(rows, "automatic"), strict=False))
    if len(pairs) < 2:
        return None
    return scaled(mean_interval([math.log(fixed / automatic) for fixed, automatic in pairs], _CONFIDENCE), math.exp)


def judge(rows: list[Observation], fixed: Size | Off) -> Verdict:
    """PASS with the speed-up where every transfer arrived."""
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
