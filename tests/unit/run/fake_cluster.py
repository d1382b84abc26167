"""A cluster without Dask: its workers are in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lab.run.instruments import Instruments
from lab.run.workers.cluster import Listed, SchedulerLost
from lab.run.workers.facts import Facts, facts
from lab.run.workers.parcel import Parcel
from lab.run.workers.task import Order

HERE = facts()


@dataclass
class FakeFuture:
    """What came of an order; `outcome` raises where its worker or the scheduler is gone."""

    outcome: Callable[[], Parcel] | None
    cancelled: bool = False

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        if self.outcome is not None:
            call(self)

    def result(self, **_: float) -> Parcel:
        assert self.outcome is not None
        return self.outcome()

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class FakeWorker:
    """`loses` questions: that many orders end it, and it begins again under another address; `silent`: it stops answering."""

    name: str
    loses: int = 0
    silent: bool = False
    facts: Facts = HERE
    offers: dict[str, float] = field(default_factory=lambda: {"virtual": 1, "real": 1})
    seen: int = 0
    births: int = 1

    @property
    def address(self) -> str:
        return f"tcp://{self.name}:{self.births}"


@dataclass
class FakeCluster:
    """Workers in this process. `lost_after` orders the scheduler is gone."""

    workers: Sequence[FakeWorker]
    lost_after: int = 10**6
    address: str = "tcp://test"
    orders: list[Order] = field(default_factory=list)
    instruments: Instruments = field(default_factory=Instruments)
    """Those of the workers' machine."""
    late: FakeWorker | None = None
    """It joins the others once a question has been given out."""

    @property
    def client(self) -> FakeCluster:
        return self

    def look(self) -> dict[str, Listed]:
        if len(self.orders) > self.lost_after:
            raise SchedulerLost("the scheduler at tcp://test is gone")
        if self.orders and self.late:
            self.workers, self.late = [*self.workers, self.late], None
        for worker in self.workers:
            worker.seen += not worker.silent
        return {each.address: Listed(each.address, each.name, dict(each.offers), 0, each.seen) for each in self.workers}

    def probe(self, addresses: Sequence[str], _: object) -> dict[str, Facts | str]:
        return {each.address: each.facts for each in self.workers if each.address in addresses}

    def submit(self, function: Any, order: Order, *, workers: Sequence[str], **more: Any) -> FakeFuture:
        assert (more["pure"], more["retries"], more["allow_other_workers"]) == (False, 0, False)
        self.orders.append(order)
        worker = next(each for each in self.workers if [each.address] == workers)
        if len(self.orders) > self.lost_after:
            return FakeFuture(self._unheard)
        if worker.silent:
            return FakeFuture(None)
        if worker.loses:
            worker.loses -= 1
            worker.births += 1
            return FakeFuture(None)
        return FakeFuture(lambda: function(self._arrived(order)))

    def _arrived(self, order: Order) -> Order:
        found: Order = pickle.loads(pickle.dumps(order))
        return replace(found, options=replace(found.options, instruments=self.instruments))

    def _unheard(self) -> Parcel:
        raise TimeoutError
