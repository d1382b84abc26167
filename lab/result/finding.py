"""What a study leaves behind that is no cell: how a client met one event, or what a host made of one piece of work.

One closed model for all of them, one file each. Every figure has its unit in its name, as in `lab.result.models`; what is
seen besides is a fact. Certificates, samples and series belong to cells.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lab.result.models import (
    SCHEMA_VERSION,
    ClientIdentity,
    Closed,
    EndedAt,
    LabVersion,
    RunName,
    SchemaVersion,
    StartedAt,
    Verdict,
)
from lab.spec.clock import Clock
from lab.spec.models import Topology, Transfer

FindingKind = Literal["refused", "localhost", "flap", "address", "send-buffers", "platform"]


class FindingRow(Closed):
    """One run of the client, or one summary of several."""

    name: str = Field(description="what it is a run of, or a summary of")
    problem: str = Field(default="", description="what the client did wrong; empty where nothing was")
    figures: dict[str, float] = Field(default_factory=dict, description="by name with unit, e.g. wall_s")
    facts: dict[str, str] = Field(default_factory=dict, description="what the client said, where it was sent, names it asked for")


class Finding(Closed):
    """One question, the rows that answer it, and the verdict."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer--kind")
    kind: FindingKind = Field(description="the question that was asked")
    run: RunName
    lab_version: LabVersion
    backend: str = Field(description="what made the hosts: virtual, namespaces, compose or vagrant")
    clock: Clock = Field(default="real", description="what its times are measured by")
    router: dict[str, object] = Field(description="what shaped the link: its kind, kernel and notes, by name")
    machine: dict[str, object] = Field(description="facts of the machine, as in a cell's snapshot")
    client: ClientIdentity = Field(description="the program under test")
    topology: Topology = Field(description="the network it ran on, as it was then")
    transfer: Transfer = Field(description="what the client was asked to do")
    rows: list[FindingRow] = Field(description="what answers the question, in the order taken")
    verdict: Verdict = Field(description="the answer")
    started_at: StartedAt
    ended_at: EndedAt
