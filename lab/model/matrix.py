"""The content of a table of cells, client by transfer; closed, derived from the runs alone, and never stored with them.

Units and names as in `lab.model.results`.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from lab.model.answer import Answer
from lab.model.clock import Clock
from lab.model.figures import FigureName
from lab.model.results import SCHEMA_VERSION, Closed, DirectionName, Interval, VerdictName
from lab.model.transfer import Expectation


class Spread(Closed):
    """A figure over successful transfers."""

    n: int = Field(ge=1)
    mean: float
    least: float
    greatest: float


class Entry(Closed):
    """One cell: the row's transfer by the column's client."""

    cell: str
    run: str
    verdict: VerdictName
    reason: str
    interval: Interval | None = Field(description="of what the row expects, in its unit; null where nothing could be compared")
    n: int = Field(description="samples behind the interval, else samples taken")
    mean_byte_s: float | None = Field(description="body rate, geometric mean of the successful transfers")
    figures: dict[FigureName, Spread]
    not_in_virtual_time: list[FigureName] = Field(description="figures asked for that mean nothing on its clock")


class Row(Closed):
    """One transfer over one link, with one thing expected of it."""

    link: str
    transfer: str
    clock: Clock
    expectation: Expectation
    cells: dict[str, Entry] = Field(description="by client")
    skipped: dict[str, str] = Field(description="client -> why it was not run")


class Sweep(Closed):
    """The answers on one transfer with several buffer sizes, by client."""

    link: str
    transfer: str
    clock: Clock
    answers: dict[str, Answer] = Field(description="by client")
    skipped: dict[str, str] = Field(description="client -> why it was not run")


class RunHead(Closed):
    run: str
    started_at: datetime
    ended_at: datetime
    lab_versions: list[str]
    git_revision: str | None
    whole: bool = Field(description="false where run.json is missing or says that the run is not complete")


class CalibrationSummary(Closed):
    """Every look at the links that the shown cells rest on; of two attempts at one instant the second."""

    looks: int
    beyond_tolerance: int
    worst_error: dict[DirectionName, float] = Field(description="goodput / ideal - 1, the one furthest from 0")
    worst_rtt_excess_ms: float


class Matrix(Closed):
    schema_version: str = SCHEMA_VERSION
    lab_version: str
    runs: list[RunHead]
    clocks: list[Clock] = Field(description="the clocks of the shown cells and sweeps")
    backends: list[str]
    routers: list[str]
    links: dict[str, list[str]] = Field(description="rate and round trip, in words; more than one where runs differ")
    calibration: CalibrationSummary | None
    clients: dict[str, list[str]] = Field(description="versions by name, in the order of the columns")
    figures: list[FigureName]
    rows: list[Row]
    sweeps: list[Sweep]
    verdicts: dict[VerdictName, int]
    notes: list[str]
