"""Whose clock times a body where no port is tapped: by counter readings and reports that are made up. No clock is read here."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest

from lab.clients.curl import Curl
from lab.hosts.host import Completed
from lab.model.results import ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from lab.net.ports import INTERVAL_MS
from lab.net.series import Reading
from lab.run.timed import Timed, time_sample

STEP_NS = 10_000_000
FRAME = 1514
SIZE = 40 * 7 * 1448
# A handshake, a silence, forty readings of content, a silence: the port shows where the body is.
SPREAD = [1, 0, 0, *[7] * 40, 0, 0]
# All of it between two readings: the port cannot show how long the body took.
AT_ONCE = [1, 0, 0, 280, *[0] * 41]
CLIENT = ClientNumbers(
    bytes=SIZE,
    total_s=0.5,
    connect_s=0.001,
    tls_s=0.002,
    first_byte_s=0.02,
    http_version="1.1",
    status=200,
    raw={"time_namelookup": "0", "time_connect": "0.001", "time_pretransfer": "0.002"},
)
DONE = Completed((), 0, b"", b"", started_ns=0, ended_ns=460_000_000, user_s=0, system_s=0)


def timed(
    frames: list[int], direction: str = "get", limit: ByteRate | None = None, numbers: ClientNumbers | None = CLIENT
) -> Timed:
    more: dict[str, Any] = {"protocol": "https1", "direction": direction, "size": Size(SIZE), "limit": limit}
    sums = enumerate(accumulate(frames, initial=0))
    readings = [Reading(index * STEP_NS, 1000 + total * FRAME, 5 + total) for index, total in sums]
    return time_sample(Curl(), Transfer.model_validate(more), numbers, None, readings, DONE)


@pytest.mark.parametrize("limit", [None, ByteRate(1_000_000)], ids=["unlimited", "limited"])
@pytest.mark.parametrize("direction", ["get", "put"])
def test_content_that_the_port_shows_is_timed_by_the_wire(direction: str, limit: ByteRate | None) -> None:
    found = timed(SPREAD, direction, limit)
    # A client takes the last bytes of a limited download from its buffer when the wire has long been silent.
    by_exit = direction == "get" and limit is not None
    assert found.clock == ("exit" if by_exit else "wire")
    assert found.start_s == pytest.approx(0.035)
    assert found.body_s == pytest.approx(0.46 - 0.035 if by_exit else 0.39)
    assert found.tail_s == pytest.approx(0 if by_exit else 0.46 - 0.425)
    assert (found.error_s, found.total_s) == (INTERVAL_MS / 1e3, 0.46)


@pytest.mark.parametrize("limit", [None, ByteRate(1_000_000)], ids=["unlimited", "limited"])
def test_content_that_came_at_once_is_timed_by_the_client(limit: ByteRate | None) -> None:
    found = timed(AT_ONCE, limit=limit)
    assert (found.clock, found.error_s, found.total_s) == ("client", None, None)
    assert found.body_s == found.said_s == pytest.approx(0.48)


def test_content_that_came_at_once_has_no_time_where_the_client_says_none() -> None:
    found = timed(AT_ONCE, numbers=None)
    assert (found.clock, found.body_s, found.said_s) == (None, None, None)


@pytest.mark.parametrize(("said_s", "faulty"), [(0.48, False), (0.02, True), (0.9, True)], ids=["honest", "short", "long"])
def test_a_report_is_held_against_the_wire_and_not_against_itself(said_s: float, faulty: bool) -> None:
    numbers = CLIENT.model_copy(update={"total_s": said_s + 0.02})
    assert bool(timed(SPREAD, numbers=numbers).contradiction("curl", None, "real")) == faulty
    assert not timed(AT_ONCE, numbers=numbers).contradiction("curl", None, "real")
