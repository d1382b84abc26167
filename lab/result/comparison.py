"""What a comparison of two runs says; closed, derived from the two folders alone, and never stored beside them.

A is the run named first, B the second; every ratio is B over A. Units and names as in `lab.result.models`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from lab.result.models import SCHEMA_VERSION, Closed, Interval, SchemaVersion, Verdict, VerdictName
from lab.spec.clock import Clock
from lab.spec.units import Ratio


class RunSide(Closed):
    """One of the two runs."""

    run: str = Field(description="the run's name")
    path: str = Field(description="of its folder")
    started_at: AwareDatetime = Field(description="of its first cell")
    ended_at: AwareDatetime = Field(description="of its last cell")
    whole: bool = Field(description="false where run.json is not there: the run goes on, or it was cut off")


class CellSide(Closed):
    """One cell as one of the runs has it."""

    verdict: VerdictName = Field(description="of the cell, on its own")
    n: int = Field(description="number of transfers that arrived whole and whose rate is known")
    mean_byte_s: float | None = Field(description="geometric mean of their rates by the comparison's clock")
    cell: str = Field(default="", description="its id in its run; empty in a comparison of an older lab")
    value: str = Field(default="", description="what it has of the key compared by; empty without one")
    lab_clock: Clock = Field(default="real", description="what the cell ran by: virtual or real")
    cpu_s_per_gb: float | None = Field(default=None, description="CPU seconds per GB, mean over whole transfers")
    cpu_score_mbps: float | None = Field(
        default=None, description="of the client's host, 10^6 bytes of SHA-256 per CPU second; null where it was not measured"
    )

    @property
    def hashed_mb_per_gb(self) -> float | None:
        """CPU seconds per GB x score: what it cost, whatever the processor."""
        known = self.cpu_s_per_gb is not None and self.cpu_score_mbps is not None
        return (self.cpu_s_per_gb or 0.0) * (self.cpu_score_mbps or 0.0) if known else None


class CellComparison(Closed):
    """One cell that both sides have."""

    id: str = Field(description="of the cell; of a comparison by a key what both have in common, e.g. without the client")
    shaped: bool = Field(description="false where the machine and not a link sets the rate: the ratio is then told, not judged")
    clock: Literal["client", "wire", "exit", "total"] | None = Field(
        description="what the rates are over, the same on both sides. client, wire: first to last body byte, by the client's "
        "report or the router's port; total: the whole time; null where no rate is known of every transfer"
    )
    a: CellSide = Field(description="the cell as the first run has it")
    b: CellSide = Field(description="the cell as the second run has it")
    cost: Interval | None = Field(default=None, description="CPU seconds per GB, B over A; null where it is not known of both")
    p_outside: float | None = Field(
        default=None, description="p value of the ratio being outside the tolerance, before Holm; null where it is not judged"
    )
    verdict: Verdict = Field(description="its interval and band are of the ratio of geometric means; n is the smaller side's")


class StudySide(Closed):
    """One study as one of the runs has it."""

    verdict: VerdictName = Field(description="of the study, on its own")
    ratio: Interval | None = Field(description="slowest mean / fastest mean; n counts rounds")


class StudyComparison(Closed):
    """One study that both runs have: do they come to the same verdict?"""

    id: str = Field(description="of the study")
    a: StudySide = Field(description="the study as the first run has it")
    b: StudySide = Field(description="the study as the second run has it")
    verdict: Verdict = Field(description="whether both come to the same")


class Difference(Closed):
    """One circumstance in which the compared cells of the two runs differ; several values where a run's own cells differ."""

    what: str = Field(description="the circumstance, e.g. the kernel")
    a: list[str] = Field(description="its values in the first run's cells")
    b: list[str] = Field(description="its values in the second run's cells")


class Comparison(Closed):
    """Two runs, or the cells of one, cell by cell."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    lab_version: str = Field(description="of the lab that compared")
    a: RunSide = Field(description="the run named first")
    b: RunSide = Field(description="the run named second; ratios are B over A")
    within: Ratio = Field(description="tolerance of the ratio: PASS needs its whole interval inside 1 - within to 1 + within")
    by: Literal["client", "version", "os", "backend", "topology", "clock"] | None = Field(
        default=None, description="the key in which the compared cells differ; null where cells of one id are compared"
    )
    cells: list[CellComparison] = Field(description="of every cell that both runs have; by a key, of every two that match")
    studies: list[StudyComparison] = Field(description="of every study that both runs have")
    only_in_a: list[str] = Field(description="cells and studies, by id")
    only_in_b: list[str] = Field(description="cells and studies, by id")
    differences: list[Difference] = Field(description="circumstances other than the clients in which the two differ")
    notes: list[str] = Field(description="what holds of every ratio here")
    problems: list[str] = Field(default_factory=list, description="one line for each file that could not be read")
    exit_code: int = Field(description="0 the same, 1 different, 3 not decided, 4 invalid")

    @property
    def verdicts(self) -> list[VerdictName]:
        """Of every cell and study."""
        return [*(cell.verdict.name for cell in self.cells), *(study.verdict.name for study in self.studies)]
