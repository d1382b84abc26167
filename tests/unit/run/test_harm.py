"""Harm on a link that changes: a client is compared with the pieces of the schedule that it has seen."""

from __future__ import annotations

from lab.link.schedule import Course
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.net.bystander import Echo
from lab.run.harm import Beside, HarmTable

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
