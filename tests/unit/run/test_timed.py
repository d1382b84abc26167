"""Whose clock times a body where no port is tapped: by counter readings and reports that are made up. No clock is read here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients.curl import Curl
from lab.hosts.host import Completed
from lab.model.clock import Clock
from lab.model.link import Link
from lab.model.results import ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from lab.net.datagrams import Datagram
from lab.net.ports import INTERVAL_MS
from lab.net.series import Reading
from lab.net.tap import Content, Event, Mark
from lab.run.timed import Timed, tap_for, time_sample

MS = 1_000_000
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


# --- a report against the wire ----------------------------------------------------------------------------------------


def agrees(said_s: float, *, clock: Clock = "virtual", link: Link | None = None, **more: Any) -> bool:
    timed = Timed(**{"body_s": 1.0, "clock": "wire", "said_s": said_s, **more})
    return not timed.contradiction("it", link.direction("down") if link else None, clock)


@pytest.mark.parametrize(
    ("clock", "body_s", "allowed_s"),
    [("virtual", 1.0, 0.1), ("virtual", 10.0, 0.2), ("real", 1.0, 0.3), ("real", 10.0, 1.0)],
)
def test_a_report_may_differ_by_a_share_of_the_body_and_at_least_by_a_moment(
    clock: Clock, body_s: float, allowed_s: float
) -> None:
    for sign in (-1, 1):
        assert agrees(body_s + sign * (allowed_s - 0.001), clock=clock, body_s=body_s)
        assert not agrees(body_s + sign * (allowed_s + 0.001), clock=clock, body_s=body_s)


def test_what_the_wire_may_be_wrong_by_and_what_a_client_keeps_is_allowed_too() -> None:
    assert agrees(1.349, error_s=0.25)
    assert not agrees(1.351, error_s=0.25)
    assert not agrees(0.649, error_s=0.25)
    assert agrees(1.599, tail_s=0.5)
    assert not agrees(1.601, tail_s=0.5)
    assert not agrees(0.899, tail_s=0.5), "nobody takes content before it came"


@pytest.mark.parametrize(
    ("link", "allowed_s"),
    [
        # Two round trips of 50 ms.
        ({"rtt": "50 ms"}, 0.1 + 0.1),
        ({"rtt": "50 ms", "rate": "1 Mbit/s", "queue": "1 packets"}, 0.1 + 0.1),
        # One round trip, and a queue of 50 frames with their Ethernet headers at a megabit per second.
        ({"rtt": "50 ms", "rate": "1 Mbit/s", "queue": "50 packets"}, 0.1 + 0.05 + 50 * 1514 * 8 / 1e6),
        # A queue of one BDP is another round trip.
        ({"rtt": "400 ms", "rate": "100 Mbit/s"}, 0.1 + 2 * 0.4),
    ],
)
def test_a_report_may_differ_by_what_a_byte_takes_on_its_way(link: dict[str, str], allowed_s: float) -> None:
    made = Link.model_validate(link)
    assert agrees(1.0 + allowed_s - 0.002, link=made)
    assert not agrees(1.0 + allowed_s + 0.002, link=made)


def test_a_contradiction_names_both_and_what_is_allowed() -> None:
    timed = Timed(body_s=1.0, clock="wire", said_s=2.5, error_s=0.25)
    assert timed.contradiction("curl", None, "virtual") == (
        "curl says 2.500 s, the wire says 1.000 s (they may differ by 0.350 s)"
    )


@pytest.mark.parametrize("less", [{"clock": None}, {"clock": "client"}, {"body_s": None}, {"said_s": None}])
def test_what_is_not_known_contradicts_nothing(less: dict[str, Any]) -> None:
    known: dict[str, Any] = {"body_s": 1.0, "clock": "wire", "said_s": 9.0}
    assert Timed(**known).contradiction("it", None, "virtual")
    assert not Timed(**(known | less)).contradiction("it", None, "virtual")


# --- a receiver that is tapped ----------------------------------------------------------------------------------------


def transfer(**more: Any) -> Transfer:
    return Transfer.model_validate({"protocol": "https1", "direction": "get", "size": Size(SIZE), **more})


def tap(wanted: Transfer) -> Any:
    sampler: Any = SimpleNamespace(tap=lambda host: ("tap", host), datagrams=lambda host, port: ("datagrams", host, port))
    receiver: Any = "receiver"
    endpoints: Any = SimpleNamespace(port=lambda _: 4433)
    return tap_for(sampler, wanted, receiver, endpoints)


def test_requests_have_no_tap_and_quic_has_one_of_datagrams() -> None:
    assert tap(transfer()) == ("tap", "receiver")
    assert tap(transfer(files=2)) == ("tap", "receiver")
    assert tap(transfer(protocol="h3")) == ("datagrams", "receiver", 4433)
    assert tap(transfer(protocol="h3", files=9, discard=True)) is None


TAPPED = Completed((), 0, b"", b"", started_ns=50 * MS, ended_ns=900 * MS, user_s=0, system_s=0)


def tapped(wanted: Transfer, events: Sequence[Event] | Sequence[Datagram], numbers: ClientNumbers | None = CLIENT) -> Timed:
    readings = [Reading(50 * MS + at * STEP_NS, at * 7 * FRAME, at * 7) for at in range(43)]
    return time_sample(Curl(), wanted, numbers, events, readings, TAPPED)


def upload(position: int, began_ms: int = 200) -> list[Event]:
    return [
        Mark(0, 100 * MS, opened=True),
        Content(0, from_opener=True, t0_ns=began_ms * MS, t_ns=600 * MS, position=position),
    ]


def test_a_tapped_receiver_times_the_body_exactly() -> None:
    found = tapped(transfer(direction="put", limit=ByteRate(1_000_000)), upload(SIZE + 5_000))
    assert (found.clock, found.error_s) == ("wire", 0.0)
    assert [found.start_s, found.body_s, found.total_s, found.tail_s, found.said_s] == pytest.approx([0.15, 0.4, 0.8, 0.3, 0.497])


def test_a_body_without_a_length_has_no_time_and_never_begins_before_the_client() -> None:
    found = tapped(transfer(direction="put"), upload(SIZE + 5_000, began_ms=600))
    assert (found.body_s, found.total_s) == (None, 0.8)
    assert tapped(transfer(direction="put"), upload(SIZE + 5_000, began_ms=10)).start_s == 0.0


@pytest.mark.parametrize("events", [upload(SIZE - 1), []])
def test_where_the_tap_saw_too_little_the_counters_judge(events: list[Event]) -> None:
    found = tapped(transfer(direction="put"), events)
    assert (found.clock, found.error_s, found.total_s) == ("wire", INTERVAL_MS / 1e3, 0.85)


def datagrams(up: bool) -> list[Datagram]:
    """A handshake at 100 ms, content from 200 to 600 ms, and the client's goodbye at 800 ms."""
    count = SIZE // 1200 + 1
    content = [Datagram(up, 200 * MS + 400 * MS * at // (count - 1), 1200, 0x41) for at in range(count)]
    return [Datagram(True, 100 * MS, 1200, 0xC3), *content, Datagram(True, 800 * MS, 44, 0x41)]


@pytest.mark.parametrize(
    ("direction", "limit", "clock", "body_s"),
    [
        ("get", ByteRate(1_000_000), "exit", 0.6),
        ("get", None, "wire", 0.4),
        ("put", ByteRate(1_000_000), "wire", 0.4),
        ("put", None, "wire", 0.4),
    ],
)
def test_over_quic_a_limited_download_ends_with_its_clients_goodbye(
    direction: str, limit: ByteRate | None, clock: str, body_s: float
) -> None:
    found = tapped(transfer(protocol="h3", direction=direction, limit=limit), datagrams(up=direction == "put"))
    assert found.clock == clock
    assert [found.start_s, found.body_s, found.total_s, found.tail_s] == pytest.approx([0.15, body_s, 0.8, 0.7 - body_s])


def test_of_files_that_all_moved_at_once_the_slowest_is_the_claim() -> None:
    numbers = CLIENT.model_copy(update={"stream_byte_s": [SIZE / 0.2, SIZE / 0.4]})

    def said(**more: Any) -> float | None:
        return time_sample(Curl(), transfer(**more), numbers, None, [], TAPPED).said_s

    limit = ByteRate(1_000_000)
    assert said(files=2, parallel=2, limit=limit) == pytest.approx(0.4)
    assert said(files=2, parallel=3, limit=limit) == pytest.approx(0.4)
    assert said(files=3, parallel=2, limit=limit) != pytest.approx(0.4)
    assert said(files=2, parallel=2) != pytest.approx(0.4)
    assert time_sample(Curl(), transfer(files=2, parallel=2, limit=limit), CLIENT, None, [], TAPPED).said_s != pytest.approx(0.4)


def test_an_upload_to_a_server_of_two_families_makes_no_claim() -> None:
    def said(direction: str, ip: Any) -> float | None:
        return time_sample(Curl(), transfer(direction=direction), CLIENT, None, [], TAPPED, ip=ip).said_s

    assert said("put", 4) is not None
    assert said("put", 6) is not None
    assert said("put", "both") is None, "the handshake from which it follows may have a failed attempt in it"
    assert said("get", "both") is not None
