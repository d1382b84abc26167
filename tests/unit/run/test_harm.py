"""Harm on a link that changes: a client is compared with the pieces of the schedule that it has seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.link.schedule import Course
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.net.bystander import Echo
from lab.run import harm
from lab.run.harm import Beside, FlowSeen, HarmTable, harm_table
from lab.run.progress import Silent

MS = 1_000_000
TOPOLOGY = Topology.model_validate({"name": "steps", "description": "A test."})
TRANSFER = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
# 30 ms in the first of two seconds, 60 ms in the second.
SOLO = tuple(Echo(at * MS, 30.0 if at < 1000 else 60.0) for at in range(0, 2000, 20))


def row(wall_s: float, added_ms: float) -> Beside:
    echoes = tuple(Echo(at * MS, (30.0 if at % 2000 < 1000 else 60.0) + added_ms) for at in range(0, round(wall_s * 1000), 20))
    return Beside("it", TRANSFER, 0, "", wall_s, None, None, echoes)


def table(*rows: Beside) -> HarmTable:
    return HarmTable(TOPOLOGY, 1, Course(0, 2000 * MS), SOLO, rows, (), None, {})


def test_a_short_transfer_is_compared_with_the_beginning_of_the_schedule() -> None:
    found = table(row(0.9, 3.0))
    assert found.solo_delay.p95_ms == 60.0
    solo = found.solo_of("it")
    assert solo is not None
    assert (solo.p95_ms, solo.count) == (30.0, 45)
    assert found.added_p95_ms("it") == 3.0


def test_a_long_transfer_counts_each_piece_as_often_as_it_came() -> None:
    # The longer round trip is 50 of 150 packets.
    found = table(row(2.8, 5.0), row(0.2, 5.0))
    solo = found.solo_of("it")
    assert solo is not None
    assert (solo.count, solo.p50_ms, solo.p95_ms) == (150, 30.0, 60.0)
    assert found.added_p95_ms("it") == 5.0


def test_a_transfer_that_failed_counts_for_nothing() -> None:
    lost = row(0.5, 3.0)
    found = table(Beside(lost.client, lost.transfer, 0, "broke off", 0.5, None, None, lost.echoes))
    assert (found.solo_of("it"), found.added_p95_ms("it"), found.harm("it")) == (None, None, None)


def test_a_bystander_that_got_nothing_back_says_nothing_about_harm() -> None:
    deaf = row(0.9, 3.0)
    found = table(Beside(deaf.client, deaf.transfer, 0, "", 0.9, None, None, ()))
    assert found.solo_of("it") is not None
    assert (found.added_p95_ms("it"), found.harm("it")) == (None, None)


def test_transfers_of_one_number_have_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses that differ between two clients would be taken for something that they do."""
    seeds: dict[str, list[int]] = {"one": [], "other": []}
    drawn: list[int] = []
    host = SimpleNamespace()
    network: Any = SimpleNamespace(client=SimpleNamespace(under_test=host), vary=drawn.append, clock=None, close=lambda: None)

    def beside(_network: object, _servers: object, _topology: object, adapter: Any, _transfer: object, **_: object) -> Beside:
        seeds[adapter.name].append(drawn[-1])
        return row(0.9, 3.0)

    def chosen(client: ClientSpec, transfers: Any) -> Any:
        return SimpleNamespace(name=client.name, identify=lambda _: None), transfers[0]

    for name, stand_in in {
        "open_network": lambda **_: network,
        "pin": lambda *_: None,
        "assert_no_bypass": lambda _: None,
        "start_servers": lambda *_, **__: None,
        "shape": lambda *_: None,
        "_alone": lambda *_: ((), FlowSeen(0.0)),
        "_beside": beside,
        "chosen": chosen,
    }.items():
        monkeypatch.setattr(harm, name, stand_in)
    network.random_bytes = None
    clients = [ClientSpec(name=name) for name in seeds]
    harm_table(TOPOLOGY, clients, [TRANSFER], samples=3, seed=7, progress=Silent())
    assert seeds["one"] == seeds["other"]
    assert len({*seeds["one"]}) == 3
