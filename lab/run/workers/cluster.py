"""The connection to a Dask scheduler, and the workers behind it. `distributed` is an extra: it is imported when needed."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from lab.model.errors import LabFault, UsageProblem
from lab.model.extras import install_extra
from lab.model.transfer import ClientSpec
from lab.run.workers.facts import Facts
from lab.run.workers.task import probe

if TYPE_CHECKING:
    from distributed import Client

FIRST_WORKER_S = 10.0
_CONNECT_S = 10.0
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Listed:
    """A worker as its scheduler knows it."""

    address: str
    name: str
    offers: Mapping[str, float]
    busy: int
    last_seen: float
    """By the scheduler's clock, in seconds."""


class SchedulerLost(LabFault):
    """The scheduler does not answer any more."""


class Cluster:
    """A scheduler that answers."""

    def __init__(self, client: Client, address: str) -> None:
        self.client, self.address = client, address

    @property
    def dashboard(self) -> str:
        """The address of Dask's own page of the cluster; empty where it has none. The page needs the package bokeh there."""
        port = self._identity()["services"].get("dashboard")
        return f"http://{urlsplit(self.address).hostname}:{port}/status" if port else ""

    def look(self) -> dict[str, Listed]:
        """The workers, by address. Raises SchedulerLost."""
        found = self._identity()["workers"]
        return {
            address: Listed(
                address,
                str(each["name"]),
                dict(each["resources"]),
                int(each["metrics"].get("executing", 0)),
                float(each["last_seen"]),
            )
            for address, each in found.items()
        }

    def probe(self, addresses: Collection[str], clients: Sequence[ClientSpec] = ()) -> dict[str, Facts | str]:
        """The facts of workers by address, or one line that says why there are none. Raises SchedulerLost."""
        names = [(client.name, client.program) for client in clients]
        try:
            found: dict[str, Any] = self.client.run(probe, names, workers=list(addresses), on_error="return")
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        return {address: _facts(told) for address, told in found.items()}

    def _identity(self) -> dict[str, Any]:
        if self.client.status != "running":
            raise self._lost()
        try:
            scheduler: Any = self.client.scheduler
            return dict(self.client.sync(scheduler.identity, callback_timeout=_PATIENCE_S))
        except (OSError, TimeoutError) as error:
            raise self._lost() from error

    def _lost(self) -> SchedulerLost:
        return SchedulerLost(f"the scheduler at {self.address} is gone")


def quieten() -> None:
    """The lab says in one line what Dask says in forty. After Dask's import, which gives its loggers levels of their own."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(os.environ.get("ROUGHWATER_DASK_LOG", "CRITICAL"))


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster of the scheduler at `address`, as in `tcp://10.0.0.1:8786`. Raises UsageProblem where nothing answers there."""
    client = _client(address)
    try:
        yield Cluster(client, address)
    finally:
        client.close(timeout=2)


def _client(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError:
        raise UsageProblem("workers are reached by Dask, which is not installed", remedy=install_extra("distributed")) from None
    quieten()

    class Quiet(Client):
        def __del__(self) -> None:
            """Dask's own waits 20 s to say goodbye to a scheduler that has never answered; `connected` closes what has."""

    try:
        make: Callable[..., Client] = Quiet
        return make(address, timeout=_CONNECT_S, set_as_default=False, direct_to_workers=False)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:  # the last two: TLS on one side only
        raise no_scheduler(address, error) from error


def no_scheduler(address: str, error: BaseException) -> UsageProblem:
    """The error for an address that cannot be used, with the first reason that Dask gives."""
    while isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return UsageProblem(
        f"no Dask scheduler answers at {address}: {why}", remedy="start one: dask scheduler; TLS: docs/how-to/many-machines.md"
    )


def _facts(told: object) -> Facts | str:
    if isinstance(told, Exception):
        return f"it has no lab that can be asked: {type(told).__name__}: {' '.join(str(told).split())[:120]}"
    try:
        return Facts.model_validate(told)
    except ValidationError:
        return "it has another version of the lab"
