"""A trend: one figure of one cell over many runs, and its steps. Closed, derived, never stored.

Names and units as in `lab.model.results`. The change of a step is after / before - 1, a fraction (-0.05 is 5 % down). For
figures where zero is ordinary (deviations, counts) it is the difference, in the series' unit.
"""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from lab.model.clock import Clock
from lab.model.comparison import Difference
from lab.model.figures import FigureName
from lab.model.results import SCHEMA_VERSION, Closed, SchemaVersion, VerdictName


class TrendPoint(Closed):
    """One run's value of the figure."""

    run: str = Field(description="name of the run's folder")
    at: AwareDatetime = Field(description="when its cell started")
    n: int = Field(ge=1, description="successful transfers that have the figure")
    mean: float = Field(description="in the series' unit: geometric, but arithmetic for deviations and counts")
    low: float | None = Field(description="of the 95 % Student interval of that mean; null for one transfer")
    high: float | None
    verdict: VerdictName = Field(description="of the cell in that run")


class TrendStep(Closed):
    """A change of level that is significant and larger than `TrendReport.least`."""

    index: int = Field(ge=1, description="of the first point after it in `points`")
    before_run: str = Field(description="the last run of the level before")
    after_run: str = Field(description="the first run of the level after")
    at: AwareDatetime = Field(description="when that first run's cell started")
    change: float = Field(description="of the level, after against before (see above)")
    low: float = Field(description="of the Welch interval of that change, Bonferroni over the steps looked at in this series")
    high: float
    confidence: float = Field(gt=0, lt=1, description="of that interval, two-sided")
    better: bool | None = Field(
        description="true for faster or cheaper, with a limit for nearer to it; null where that is not known"
    )
    changed: list[Difference] = Field(description="circumstances in which the two runs differ; a: before, b: after")


class Trend(Closed):
    """One series and its steps."""

    cell: str = Field(description="id of the cell")
    clock: Clock = Field(description="what its runs ran by; the two clocks are two series")
    figure: FigureName
    unit: str = Field(description="B/s, CPU s/GB, B, or 1 of a deviation from the limit")
    points: list[TrendPoint] = Field(description="in time order; runs of verdict INVALID are left out and counted in notes")
    steps: list[TrendStep]
    noise: float | None = Field(
        description="spread from run to run, from first differences (relative; in the unit for a deviation); null below 3 points"
    )
    notes: list[str] = Field(description="what a reader must know of this series, e.g. too few runs to see a step")


class TrendReport(Closed):
    """Every series that was asked for; what `lab trend --json` prints."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    lab_version: str = Field(description="of the lab that looked")
    source: str = Field(description="the folder or address of the runs")
    least: float = Field(description="no smaller step is reported, e.g. 0.01")
    trends: list[Trend]
    problems: list[str] = Field(description="one line for each run or file that could not be read")
    notes: list[str] = Field(default_factory=list)
    exit_code: int = Field(description="1 where a series' last step is a regression, else 0")
