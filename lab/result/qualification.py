"""What a release's qualification leaves behind: a pair of cells side by side, and the table of them all.

`pair.schema.json` and `qualification.schema.json` are generated from these models. The raw samples, the certificate of the link
and the provenance are in the cells' own files. Units and names as in `lab.result.models`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lab.result.models import (
    SCHEMA_VERSION,
    ClientIdentity,
    Closed,
    EndedAt,
    Interval,
    LabVersion,
    RunName,
    SchemaVersion,
    StartedAt,
    Verdict,
    VerdictName,
)
from lab.spec.clock import Clock
from lab.spec.models import Expectation, Topology, Transfer
from lab.spec.units import Ratio

Side = Literal["candidate", "baseline"]


class PairSide(Closed):
    """One of the two clients."""

    client: ClientIdentity = Field(description="the program")
    cell: str = Field(description="id of the cell that holds its samples, certificate and provenance")
    verdict: VerdictName = Field(description="of that cell, on its own")
    byte_s: list[float] = Field(description="bytes per second of its whole transfers by the pair's clock, in the order taken")


class PairResult(Closed):
    """One transfer by two clients whose samples were interleaved on one link, between one pair of calibrations."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str = Field(description="the candidate's cell, and the baseline it ran beside: CELL--vs-CLIENT")
    run: RunName
    lab_version: LabVersion
    topology: Topology = Field(description="the network both ran on, as it was then")
    transfer: Transfer = Field(description="what both were asked to do")
    expectation: Expectation = Field(description="what each cell's own verdict asserts")
    candidate: PairSide = Field(description="the one that is judged")
    baseline: PairSide = Field(description="the one that it is measured against")
    margin: Ratio = Field(description="by how much the candidate's rate may be below the baseline's")
    lab_clock: Clock = Field(default="real", description="what the lab's time was while its cells ran: virtual or real")
    clock: Literal["client", "wire", "exit", "total"] | None = Field(
        description="what the rates are over, as in a study; null where nothing is known"
    )
    order: list[Side] = Field(description="whose transfers ran in which order, one entry per transfer")
    ratio: Interval | None = Field(description="candidate / baseline, geometric, over the pairs; null for fewer than two")
    verdict: Verdict | None = Field(description="of the ratio against 1 - margin; null where it is told but not judged")
    untold: str = Field("", description="why the ratio is not judged; empty where it is")
    started_at: StartedAt
    ended_at: EndedAt


class QualifiedItem(Closed):
    """One line of the set: what it asked, and what came of it."""

    id: str = Field(description="of the candidate's cell or study")
    why: str = Field(description="why it is in the set")
    verdict: VerdictName = Field(description="of the candidate's cell or study, on its own")
    baseline: VerdictName | None = Field(None, description="the baseline's own verdict; it does not count")
    pair: str | None = Field(None, description="id of the comparison; null where the candidate ran alone")
    regression: VerdictName | None = Field(None, description="of the ratio; null where it is not judged")
    notes: list[str] = Field(default_factory=list, description="what a reader should know of this line, one sentence each")


class SkippedItem(Closed):
    """One line of the set that the candidate cannot do."""

    name: str = Field(description="the cell without its client")
    reason: str = Field(description="why the candidate cannot do it")


class Qualification(Closed):
    """A candidate, the set it was put through, and one verdict."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    run: RunName
    lab_version: LabVersion
    candidate: str = Field(description="the client that is to be released, by name")
    baseline: str | None = Field(description="the client beside it, by name; null where there is none")
    margin: Ratio = Field(description="by how much the candidate's rate may be below the baseline's")
    set: Literal["quick", "full"] = Field(description="which set of cells: the quick one or all of it")
    items: list[QualifiedItem] = Field(description="one for each line of the set that ran")
    skipped: list[SkippedItem] = Field(description="lines of the set that the candidate cannot do")
    headline: str = Field(description="the outcome in one line")
    exit_code: int = Field(description="0 qualified, 1 not, 3 undecided, 4 invalid")
    started_at: StartedAt
    ended_at: EndedAt

    @property
    def verdicts(self) -> list[VerdictName]:
        """All that count."""
        return [name for item in self.items for name in (item.verdict, item.regression) if name is not None]
