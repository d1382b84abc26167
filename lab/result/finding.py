"""What a study leaves behind that is no cell: how a client met one event, or what a host made of one piece of work.

One closed model for all of them, one file each. Every figure has its unit in its name, as in `lab.result.models`; what is
seen besides is a fact. Certificates, samples and series belong to cells.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from lab.result.models import SCHEMA_VERSION, ClientIdentity, Closed, Verdict
from lab.spec.models import Topology, Transfer

FindingKind = Literal["refused", "localhost", "flap", "address", "send-buffers", "platform"]


class FindingRow(Closed):
    """One run of the client, or one summary of several."""

    name: str
    problem: str = Field(default="", description="what the client did wrong; empty where nothing was")
    figures: dict[str, float] = Field(default_factory=dict, description="by name with unit, e.g. wall_s")
    facts: dict[str, str] = Field(default_factory=dict, description="what the client said, where it was sent, names it asked for")


class Finding(Closed):
    """One question, the rows that answer it, and the verdict."""

    schema_version: str = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer--kind")
    kind: FindingKind
    run: str
    lab_version: str
    backend: str
    router: dict[str, object]
    machine: dict[str, object] = Field(description="facts of the machine, as in a cell's snapshot")
    client: ClientIdentity
    topology: Topology
    transfer: Transfer
    rows: list[FindingRow]
    verdict: Verdict
    started_at: datetime
    ended_at: datetime
