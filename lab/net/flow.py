"""Flows that compete for a link and are not judged: bulk TCP, a constant rate, web pages (ADR 0035)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab.hosts.host import Completed, Network
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import DirectionName
from lab.model.units import ByteRate
from lab.net.flow_script import SLOT_NS

_SCRIPT = Path(__file__).with_name("flow_script.py")
_PORT = 4748
_READY = b"ready\n"
_START_S, _PATIENCE_S = 0.5, 30.0
# A queue of a second is full by then, and slow start over.
LEAD_S = 3.0
KINDS = "bulk, bulk:CONTROL, cbr:RATE or web"


@dataclass(frozen=True)
class Flow:
    """`control` is of bulk only, `rate` of cbr only."""

    kind: Literal["bulk", "cbr", "web"]
    control: str = "cubic"
    rate: ByteRate | None = None

    @classmethod
    def parse(cls, text: str) -> Flow:
        """From `bulk:bbr`, `cbr:1MB/s` or `web`. Raises UsageProblem."""
        kind, _, detail = text.partition(":")
        try:
            if kind == "bulk" and detail.isidentifier() | (not detail):
                return cls("bulk", detail or "cubic")
            if kind == "cbr":
                return cls("cbr", rate=ByteRate.parse(detail))
            if kind == "web" and not detail:
                return cls("web")
        except ValueError as error:
            raise UsageProblem(f"--flow {text}: {error}", remedy=KINDS) from None
        raise UsageProblem(f"unknown --flow {text!r}", remedy=KINDS)

    def words(self, address: str, direction: DirectionName, seed: int) -> list[str]:
        place = [address, f"{_PORT}"]
        if self.kind == "web":
            return ["web", *place, f"{seed}"]
        detail = f"{self.rate.byte_s}" if self.rate else self.control
        return [self.kind, *place, direction, detail]

    def __str__(self) -> str:
        if self.kind == "bulk":
            return f"bulk {self.control}"
        return f"cbr {self.rate}" if self.rate else self.kind


class RunningFlow:
    """A flow next to whatever else runs. Its figures are there once it has been stopped."""

    def __init__(self) -> None:
        self.received: list[tuple[int, int]] = []
        self.pages: list[tuple[int, float]] = []

    def byte_s(self, from_ns: int, to_ns: int) -> float:
        """The bytes received per second, by complete tenths of a second."""
        slots = [count for at, count in self.received if from_ns <= at and at + SLOT_NS <= to_ns]
        first, last = -(-from_ns // SLOT_NS), to_ns // SLOT_NS
        return math.fsum(slots) / ((last - first) * SLOT_NS / 1e9) if last > first else 0.0

    def page_s(self, from_ns: int, to_ns: int) -> list[float]:
        """Seconds for each web page that was begun in that time."""
        return [seconds for at, seconds in self.pages if from_ns <= at < to_ns]


@contextmanager
def flowing(network: Network, flow: Flow | None, direction: DirectionName, seed: int) -> Iterator[RunningFlow]:
    """The flow while the block runs; it has been going for three seconds when the block begins. None: nothing flows."""
    running = RunningFlow()
    if flow is None:
        yield running
        return
    client, server = network.client, network.server
    far = server.start(script_command(server, _SCRIPT, "serve", f"{_PORT}"))
    network.clock.sleep(_START_S)
    near = client.start(script_command(client, _SCRIPT, *flow.words(server.address, direction, seed)))
    try:
        network.clock.sleep(_START_S + LEAD_S)
        yield running
    finally:
        ended = [process.stop(grace_s=_PATIENCE_S) for process in (near, far)]
    found = [_document(done, flow) for done in ended]
    # Web pages are received by the client, whatever the direction of the transfer.
    receiver = found[0] if direction == "down" or flow.kind == "web" else found[1]
    running.received = [(at, count) for at, count in receiver["received"]]
    running.pages = [(at, seconds) for at, seconds in found[0]["pages"]]


def _document(done: Completed, flow: Flow) -> dict[str, Any]:
    text = done.stdout.removeprefix(_READY)
    try:
        found = json.loads(text)
    except ValueError:
        raise LabFault(f"the flow {flow} ended early: {done.error_text}") from None
    assert isinstance(found, dict)
    return found
