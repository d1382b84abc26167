"""The connection to a scheduler and a worker's service, with a Dask that is made up."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.model.extras import install_extra
from lab.run.workers.cluster import connected
from lab.run.workers.crew import crew_at
from lab.run.workers.serve import serve

ERRORS = [OSError("refused"), TimeoutError("late"), ValueError("no address"), TypeError("no TLS"), RuntimeError("no TLS")]


class Dask:
    """The module `distributed`; what its classes are made with is in `told`, and `problem` is what comes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[Any] = []
        self.problem: Exception | None = None
        dask = self

        class Client:
            def __init__(self, address: str, **how: Any) -> None:
                dask.told.append((address, how))
                if dask.problem:
                    raise dask.problem

            def close(self, **how: Any) -> None:
                dask.told.append(("close", how))

        class Worker:
            def __init__(self, address: str, **how: Any) -> None:
                dask.told.append((address, how))
                if dask.problem:
                    raise dask.problem

            def __await__(self) -> Any:
                return iter(())

            async def finished(self) -> None:
                """The scheduler is gone at once."""

        module: Any = ModuleType("distributed")
        module.Client, module.Worker = Client, Worker
        settings: Any = ModuleType("dask")
        settings.config = SimpleNamespace(set=self.told.append)
        monkeypatch.setitem(sys.modules, "distributed", module)
        monkeypatch.setitem(sys.modules, "dask", settings)


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> Dask:
    return Dask(monkeypatch)


def test_a_connection_is_closed_whatever_happens(dask: Dask) -> None:
    def interrupted() -> None:
        with connected("tcp://there:1") as cluster:
            assert cluster.address == "tcp://there:1"
            assert dask.told == [("tcp://there:1", {"timeout": 10.0, "set_as_default": False, "direct_to_workers": False})]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert dask.told[-1] == ("close", {"timeout": 2})
    with crew_at("tcp://there:1", ["gpu"], wait_s=5.0) as crew:
        assert crew
        assert (crew.cluster.address, crew.needs, crew.wait_s) == ("tcp://there:1", ("gpu",), 5.0)


@pytest.mark.parametrize("problem", ERRORS)
def test_an_address_without_a_scheduler_is_one_line(dask: Dask, problem: Exception) -> None:
    dask.problem = problem
    with pytest.raises(UsageProblem, match=f"^no Dask scheduler answers at tcp://there:1: {problem}"), connected("tcp://there:1"):
        pass
    assert "close" not in [each[0] for each in dask.told]
    with pytest.raises(UsageProblem, match=f"^no Dask scheduler answers at tcp://there:1: {problem}"):
        serve("tcp://there:1", {})


def test_without_dask_there_are_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageProblem, match="workers are reached by Dask, which is not installed"), connected("tcp://there:1"):
        pass
    with pytest.raises(UsageProblem, match="which is not installed") as caught:
        serve("tcp://there:1", {})
    assert caught.value.remedy == install_extra("distributed")


def test_a_worker_offers_what_it_has_and_ends_with_its_scheduler(dask: Dask) -> None:
    with pytest.raises(LabFault, match=r"^the scheduler at tcp://there:1 is gone"):
        serve("tcp://there:1", {"virtual": 3.0, "real": 1.0}, "me")
    settings, (address, how) = dask.told
    assert settings == {"distributed.worker.profile.enabled": False}
    assert (address, how["nthreads"], how["name"], how["memory_limit"]) == ("tcp://there:1", 4, "me", 0)
    assert how["resources"] == {"virtual": 3.0, "real": 1.0}
    assert "/roughwater-" in how["local_directory"]
