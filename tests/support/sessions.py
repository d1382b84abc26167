"""Cells for tests of a session, in virtual and in real time, and a way to sabotage their link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.hosts.host import Network
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Ratio, Size
from lab.net import shape as shaping
from lab.net.calibrate import Tolerance
from lab.run.options import Options
from lab.run.sample import take_sample
from lab.run.session import Session

FAST = Topology(name="fast", description="-", link=Link(rate=BitRate.parse("100 Mbit/s"), rtt=Duration.parse("4 ms")))
LENIENT = Options(looks=LookPlan(looks=(2, 3)), tolerance=Tolerance(goodput=0.5, rtt_ms=50.0))
"""For real-time tests of everything but the calibration itself, so that a busy machine does not decide them."""
FASTER = Link(rate=BitRate.parse("140 Mbit/s"), rtt=Duration.parse("4 ms"))
"""Faster than FAST, so that a single calibration notices it."""


def cell(program: str = "curl", *, topology: Topology = FAST, limit: str | None = None, size: str = "1 MB") -> Cell:
    """A download over HTTP/1.1, with a limit of ±30 % if `limit` is given."""
    transfer = Transfer(protocol="http1", direction="get", size=Size.parse(size), limit=ByteRate.parse(limit) if limit else None)
    expectation = Expectation(kind="limit" if limit else "none", tolerance=Ratio.parse("30 %"))
    return Cell(client=ClientSpec(name="curl", program=program), topology=topology, transfer=transfer, expectation=expectation)


def give(session: Session, monkeypatch: pytest.MonkeyPatch, **instruments: Callable[..., object]) -> None:
    """Until the test ends, the session's lab has these instruments in place of its own."""
    options = session.lab.options
    changed = replace(options, instruments=replace(options.instruments, **instruments))  # type: ignore[arg-type]
    monkeypatch.setattr(session.lab, "options", changed)


def change_link_after_samples(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the link FASTER after every sample, which only the calibrations can notice."""

    def sabotaging(network: Network, *args: object, **more: object) -> object:
        sample = take_sample(network, *args, **more)  # type: ignore[arg-type]
        shaping.change(network, FASTER)
        return sample

    give(session, monkeypatch, take_sample=sabotaging)
