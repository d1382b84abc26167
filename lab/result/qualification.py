"""What a release's qualification leaves behind: a pair of cells side by side, and the table of them all.

`pair.schema.json` and `qualification.schema.json` are generated from these models. The raw samples, the certificate of the link
and the provenance are in the cells' own files. Units and names as in `lab.result.models`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from lab.result.models import SCHEMA_VERSION, ClientIdentity, Closed, Interval, Verdict, VerdictName
from lab.spec.models import Expectation, Topology, Transfer
from lab.spec.units import Ratio

Side = Literal["candidate", "baseline"]


class PairSide(Closed):
    """One of the two clients."""

    client: ClientIdentity
    cell: str = Field(description="id of the cell that holds its samples, certificate and provenance")
    verdict: VerdictName = Field(description="of that cell, on its own")
    byte_s: list[float] = Field(description="bytes per second of its whole transfers by the pair's clock, in the order taken")


class PairResult(Closed):
    """One transfer by two clients whose samples were interleaved on one link, between one pair of calibrations."""

    schema_version: str = SCHEMA_VERSION
    id: str = Field(description="the candidate's cell, and the baseline it ran beside: CELL--vs-CLIENT")
    run: str
    lab_version: str
    topology: Topology
    transfer: Transfer
    expectation: Expectation
    candidate: PairSide
    baseline: PairSide
    margin: Ratio = Field(description="by how much the candidate's rate may be below the baseline's")
    clock: Literal["client", "wire", "exit", "total"] | None = Field(
        description="what the rates are over, as in a study; null where nothing is known"
    )
    order: list[Side] = Field(description="whose transfers ran in which order, one entry per transfer")
    ratio: Interval | None = Field(description="candidate / baseline, geometric, over the pairs; null for fewer than two")
    verdict: Verdict | None = Field(description="of the ratio against 1 - margin; null where it is told but not judged")
    untold: str = Field("", description="why the ratio is not judged; empty where it is")
    started_at: datetime
    ended_at: datetime


class QualifiedItem(Closed):
    """One line of the set: what it asked, and what came of it."""

    id: str = Field(description="of the candidate's cell or study")
    why: str = Field(description="why it is in the set")
    verdict: VerdictName
    baseline: VerdictName | None = Field(None, description="the baseline's own verdict; it does not count")
    pair: str | None = Field(None, description="id of the comparison; null where the candidate ran alone")
    regression: VerdictName | None = Field(None, description="of the ratio; null where it is not judged")
    notes: list[str] = Field(default_factory=list)


class SkippedItem(Closed):
    """One line of the set that the candidate cannot do."""

    name: str = Field(description="the cell without its client")
    reason: str


class Qualification(Closed):
    """A candidate, the set it was put through, and one verdict."""

    schema_version: str = SCHEMA_VERSION
    run: str
    lab_version: str
    candidate: str
    baseline: str | None
    margin: Ratio
    set: Literal["quick", "full"]
    items: list[QualifiedItem]
    skipped: list[SkippedItem]
    headline: str
    exit_code: int
    started_at: datetime
    ended_at: datetime

    @property
    def verdicts(self) -> list[VerdictName]:
        """All that count."""
        return [name for item in self.items for name in (item.verdict, item.regression) if name is not None]
