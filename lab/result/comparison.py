"""What a comparison of two runs says; closed, derived from the two folders alone, and never stored beside them.

A is the run named first, B the second; every ratio is B over A. Units and names as in `lab.result.models`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from lab.result.models import SCHEMA_VERSION, Closed, Interval, Verdict, VerdictName
from lab.spec.units import Ratio


class RunSide(Closed):
    """One of the two runs."""

    run: str
    path: str
    started_at: datetime = Field(description="of its first cell")
    ended_at: datetime = Field(description="of its last cell")
    whole: bool = Field(description="false where run.json is not there: the run goes on, or it was cut off")


class CellSide(Closed):
    """One cell as one of the runs has it."""

    verdict: VerdictName
    n: int = Field(description="transfers that arrived whole and whose rate is known")
    mean_byte_s: float | None = Field(description="geometric mean of their rates by the comparison's clock")


class CellComparison(Closed):
    """One cell that both runs have."""

    id: str
    shaped: bool = Field(description="false where the machine and not a link sets the rate: the ratio is then told, not judged")
    clock: Literal["client", "wire", "exit", "total"] | None = Field(
        description="what the rates are over, the same on both sides. client, wire: first to last body byte, by the client's "
        "report or the router's port; total: the whole time; null where no rate is known of every transfer"
    )
    a: CellSide
    b: CellSide
    verdict: Verdict = Field(description="its interval and band are of the ratio of geometric means; n is the smaller side's")


class StudySide(Closed):
    """One study as one of the runs has it."""

    verdict: VerdictName
    ratio: Interval | None = Field(description="slowest mean / fastest mean; n counts rounds")


class StudyComparison(Closed):
    """One study that both runs have: do they come to the same verdict?"""

    id: str
    a: StudySide
    b: StudySide
    verdict: Verdict


class Difference(Closed):
    """One circumstance in which the compared cells of the two runs differ; several values where a run's own cells differ."""

    what: str
    a: list[str]
    b: list[str]


class Comparison(Closed):
    """Two runs, cell by cell."""

    schema_version: str = SCHEMA_VERSION
    lab_version: str = Field(description="of the lab that compared")
    a: RunSide
    b: RunSide
    within: Ratio = Field(description="tolerance of the ratio: PASS needs its whole interval inside 1 - within to 1 + within")
    cells: list[CellComparison]
    studies: list[StudyComparison]
    only_in_a: list[str] = Field(description="cells and studies, by id")
    only_in_b: list[str]
    differences: list[Difference]
    notes: list[str] = Field(description="what holds of every ratio here")
    exit_code: int

    @property
    def verdicts(self) -> list[VerdictName]:
        """Of every cell and study."""
        return [*(cell.verdict.name for cell in self.cells), *(study.verdict.name for study in self.studies)]
