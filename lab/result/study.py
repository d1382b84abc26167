"""What an interleaved comparison leaves behind; `study.schema.json` is generated from it.

The raw samples, the certificate of the link and the provenance are in the cells' own files; here is what was compared, in which
order it was taken, and what came of it. Units and names as in `lab.result.models`.
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
from lab.spec.units import Ratio


class StudyArm(Closed):
    """One setting of what is varied."""

    setting: str = Field(description="as a person writes it, e.g. 64 KiB")
    cell: str = Field(description="id of the cell that holds its samples, certificate and provenance")
    byte_s: list[float] = Field(
        description="bytes per second of each whole transfer by the study's clock, in the order of the rounds"
    )
    mean_byte_s: float | None = Field(description="geometric mean of byte_s")


class StudyResult(Closed):
    """One comparison of several cells that ran interleaved on one link."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer--what is varied")
    run: RunName
    lab_version: LabVersion
    client: ClientIdentity = Field(description="the program under test")
    topology: Topology = Field(description="the network it ran on, as it was then")
    transfer: Transfer = Field(description="what all cells have in common")
    varied: Literal["buffer_size"] = Field(description="the setting in which the cells differ")
    floor: Ratio = Field(description="what the slowest setting's mean must reach of the fastest's")
    lab_clock: Clock = Field(default="real", description="what the lab's time was while its cells ran: virtual or real")
    clock: Literal["client", "wire", "exit", "total"] | None = Field(
        description="what the rates are over. client, wire: first to last body byte, by its report or by the router's port; "
        "total: the whole time, where the body's is not known of every transfer; null where nothing is known"
    )
    arms: list[StudyArm] = Field(description="one for each setting that the client has")
    order: list[str] = Field(description="the settings in the order in which their transfers ran, one entry per transfer")
    left_out: dict[str, str] = Field(description="settings that the client does not have, and why")
    verdict: Verdict = Field(description="its interval is of the ratio slowest mean / fastest mean; n counts rounds")
    started_at: StartedAt
    ended_at: EndedAt
