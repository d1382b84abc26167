"""Samples on a watched machine: which its load spoilt, and how it was while nothing ran. `lab.judge.host` has the rule."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from lab.hosts.host import Network
from lab.judge.host import HostLimits, why_disturbed
from lab.model.results import HostLoad, Sample
from lab.net.host_load import HostWatch, no_others, watch_idle
from lab.net.ports import PortSampler
from lab.run.lock import holders

IDLE_S = 0.5
IDLE_ATTEMPTS = 2
"""A second look where the first was disturbed, as for a calibration; never a third."""


@dataclass(frozen=True)
class Watcher:
    """Without limits nothing is watched, and nothing is ever disturbed."""

    limits: HostLimits | None
    roots: Callable[[], Collection[int]] = no_others

    @classmethod
    def on(cls, network: Network, limits: HostLimits | None, *, beside: bool) -> Watcher:
        """`beside`: what other labs run that said so too is not foreign. What containers of theirs run is."""

        def roots() -> Collection[int]:
            others = [pid for pid in holders() if pid != os.getpid()] if beside else []
            return [*network.first_processes, *others]

        return cls(limits, roots)

    def idle(self, network: Network) -> HostLoad | None:
        """The machine's load while the lab only counts. Raises LabFault where the lab cannot count."""
        if self.limits is None:
            return None
        for _ in range(IDLE_ATTEMPTS):
            with PortSampler(network) as ports:
                load = watch_idle(ports, IDLE_S, self.roots)
            if why_disturbed(load, self.limits) is None:
                break
        return load

    def take(self, transfer: Callable[[], Sample], ports: PortSampler) -> tuple[Sample, str | None]:
        """One transfer with the load of the machine meanwhile, and why it is to be set aside."""
        if self.limits is None:
            return transfer(), None
        with HostWatch(ports, self.roots) as watch:
            sample = transfer()
        return sample.model_copy(update={"host": watch.load}), why_disturbed(watch.load, self.limits)
