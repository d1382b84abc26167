"""Networks by the names that other tools publish: rates, delays and loss as their source has them, the rest stated.

A file of `topologies/presets/` has the presets of one publisher. No publisher says how long a queue is. Here each direction
queues 50 packets, the default of dummynet, with which several of them are shaped (ipfw(8), `queue`).
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from lab.model.base import Model, Slug
from lab.model.impairments import Loss
from lab.model.link import Link, LinkOverride
from lab.model.topology import Topology
from lab.model.units import BitRate, Duration, Queue, Ratio

QUEUE = Queue.parse("50 packets")
_SEED = 42


class Preset(Model):
    """One network as its publisher states it. Delays are one way; without any of them packets are not delayed."""

    called: str = Field(min_length=1, description="the publisher's name for it")
    down: BitRate = Field(description="bits per second on the wire from server to client")
    up: BitRate = Field(description="bits per second on the wire from client to server")
    rtt: Duration | None = Field(None, description="round-trip time, half of it in each direction")
    down_delay: Duration = Field(Duration(0), description="one-way delay from server to client, where the source has one")
    up_delay: Duration = Field(Duration(0), description="one-way delay from client to server, where the source has one")
    up_jitter: Duration = Field(Duration(0), description="uniform variation of `up_delay`, plus or minus")
    loss: Ratio | None = Field(None, description="share of packets lost at random in each direction")

    @model_validator(mode="after")
    def _delayed_once(self) -> Self:
        if self.rtt is not None and (self.down_delay.ns or self.up_delay.ns):
            raise ValueError("rtt and one-way delays contradict each other (give one of them)")
        return self

    def link(self) -> Link:
        """The shaped hop. A loss is repeatable: it has the seed of the shipped topologies."""
        up = LinkOverride(rate=self.up)
        if self.up_delay.ns or self.down_delay.ns:
            up = LinkOverride(rate=self.up, delay=self.up_delay, jitter=self.up_jitter if self.up_jitter.ns else None)
        rtt = self.rtt or Duration(self.up_delay.ns + self.down_delay.ns)
        loss: dict[str, Loss | int] = {"loss": self.loss, "seed": _SEED} if self.loss else {}
        return Link.model_validate({"rate": self.down, "rtt": rtt, "queue": QUEUE, "up": up, **loss})


class Publisher(Model):
    """The presets of one publisher, and where they were read."""

    publisher: str = Field(min_length=1, description="who publishes them")
    source: str = Field(min_length=1, description="where its figures stand")
    seen: str = Field(min_length=1, description="the day on which they were read, and of what, if not of the source")
    silent: str = Field(min_length=1, description="what the source does not say, and what is taken here")
    presets: dict[Slug, Preset] = Field(min_length=1, description="the presets by the names that commands take")

    def topology(self, name: str) -> Topology:
        """The network of the preset with that name. Raises KeyError."""
        preset = self.presets[name]
        return Topology(
            name=name,
            description=f"{preset.called} as {self.publisher} publishes it. Its source has no queue: {QUEUE} here.",
            link=preset.link(),
        )
