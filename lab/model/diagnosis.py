"""The diagnosis of a transfer's speed, as a sample stores it."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from lab.model.base import Model

Cause = Literal[
    "line",
    "limit",
    "receive-window",
    "send-buffer",
    "slow-reader",
    "slow-writer",
    "slow-server",
    "congestion-window",
    "loss",
    "policer",
    "ssh-window",
    "h2-window",
    "requests",
    "peer-messages",
    "short-file",
    "not-known",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)


class Diagnosis(Model):
    """The cause that held a transfer back, by TCP's own accounting at both ends and by the router's counters."""

    cause: Cause = Field(description="what held it back for most of the time; not-known where nothing did so for long enough")
    share: float | None = Field(ge=0, le=1, description="share of the time in which it did, 0 to 1; null where not known")
    sentence: str = Field(description="the cause with its figures; for not-known what was seen")
    shares: dict[str, float] = Field(
        default_factory=dict, description="share of the time by cause, 0 to 1, those of 1 % and more, the largest first"
    )
    goodput_byte_s: float | None = Field(
        default=None, description="content per second, from the first connection to the last byte"
    )
    retransmits: int | None = Field(default=None, description="segments that the sender sent again")
    idle_rtt_ms: float | None = Field(default=None, description="least round trip that the sender's TCP saw")
    loaded_rtt_ms: float | None = Field(default=None, description="mean round trip (tcpi_rtt) that it saw during the transfer")
