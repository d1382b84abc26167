"""From what was watched of a transfer to slices and figures: connections written by hand, times in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import Completed, Ports
from lab.judge.diagnosis import Direction, Flows, Slice
from lab.model.diagnosis import Diagnosis
from lab.model.link import Link
from lab.model.transfer import Transfer
from lab.net.ports import PortCounters, PortReading
from lab.net.sockets import Look
from lab.net.tap import Content, Event, Mark
from lab.net.watch import Dropped, Watched
from lab.run.why import explain, flows_of, limited, of_failed

MS = 1_000_000
CLIENT, SERVER = 40_000, 443
NOTHING = Watched((), ())
TRANSFER: dict[str, Any] = {"protocol": "https1", "direction": "get", "size": "1 MB"}


def look(t_ms: float, port: int = SERVER, peer: int = CLIENT, **more: int) -> Look:
    """A connection at the server that waits for the network, unless `more` says otherwise."""
    known = {"mss": 1000, "unsent": 5000, "port": port, "peer_port": peer, "t_ns": round(t_ms * MS)}
    return Look(**{**dict.fromkeys(Look._fields, 0), **known, **more})


def opened(t_ms: float = 0, connection: int = 0, port: int = CLIENT) -> Mark:
    return Mark(connection, round(t_ms * MS), opened=True, port=port, peer_port=SERVER)


def sent(t_ms: float, position: int, *, began_ms: float | None = None, connection: int = 0, up: bool = False) -> Content:
    return Content(connection, up, round((t_ms if began_ms is None else began_ms) * MS), round(t_ms * MS), position)


def flows(
    looks: Sequence[Look],
    events: Sequence[Any],
    receiver: Watched = NOTHING,
    port: Sequence[tuple[int, int]] = (),
    line: float | None = None,
    *,
    direction: Direction = "get",
    **more: Any,
) -> Flows:
    transfer = Transfer.model_validate({**TRANSFER, **more}) if more else None
    found = flows_of(Watched(looks, events), receiver, direction, port, line, Dropped(7, 3), transfer)
    assert found is not None
    return found


def test_a_download_of_one_second_in_two_looks() -> None:
    looks = [
        look(400, acked=300_000, no_window_us=100_000, no_buffer_us=20_000, window=65_000, send_buffer=87_000, rtt_us=30_000),
        look(1000, acked=1_000_000, no_window_us=400_000, no_buffer_us=70_000, rtt_us=50_000, retransmits=2, cwnd=10),
    ]
    found = flows(looks, [opened(), sent(400, 300_000), sent(1000, 1_000_000)])
    first, second = found.slices
    assert (first.seconds, first.sent, first.window, first.send_buffer) == (0.4, 300_000, 65_000, 87_000)
    assert (first.no_window_s, first.no_buffer_s) == (0.1, 0.02)
    assert (second.seconds, second.sent) == (0.6, 700_000)
    assert [second.no_window_s, second.no_buffer_s] == pytest.approx([0.3, 0.05])
    assert all(each.waits_for_network and not each.line_full and not each.reader_idle for each in found.slices)
    assert (found.direction, found.content, found.seconds, found.connections) == ("get", 1_000_000, 1.0, 1)
    assert (found.dropped, found.policed, found.retransmits, found.segments) == (7, 3, 2, 1000 + 2)
    assert (found.idle_rtt_s, found.loaded_rtt_s) == (0.0, 0.04)
    assert (found.layer, found.request, found.limit_byte_s, found.pace_byte_s, found.line_byte_s) == ("", None, None, None, None)


def test_the_first_slow_start_shows_in_its_slices() -> None:
    looks = [look(400, ssthresh=0x7FFFFFFF), look(1000, ssthresh=10)]
    found = flows(looks, [opened(), sent(400, 300_000), sent(1000, 1_000_000)])
    assert [each.slow_start for each in found.slices] == [True, False]


def test_the_settings_of_a_transfer_are_taken_over() -> None:
    events = [opened(), sent(1000, 1_000_000)]
    one = flows([look(1000)], events, limit="2 MB/s", protocol="h2")
    assert (one.layer, one.limit_byte_s, one.request) == ("h2", 2_000_000, None)
    assert flows([look(1000)], events, files=2).request == 1_000_000
    assert flows([look(1000)], events, files=6, parallel=3).request == 3_000_000


def test_without_a_transfer_only_the_port_of_ssh_says_the_layer() -> None:
    ssh = Mark(0, 0, opened=True, port=CLIENT, peer_port=22)
    assert flows([look(1000, port=22)], [ssh, sent(1000, 9_000)]).layer == "sftp"
    assert flows([look(1000)], [opened(), sent(1000, 9_000)]).layer == ""


@pytest.mark.parametrize(
    ("rtts_us", "idle_s"),
    [((0, 30_000, 20_000), 0.02), ((1, 20_000), 1e-6), ((0, 0xFFFFFFFF), 0.0), ((0xFFFFFFFF, 50_000), 0.05)],
)
def test_the_idle_round_trip_is_the_least_that_a_kernel_knew(rtts_us: tuple[int, ...], idle_s: float) -> None:
    looks = [look(100 * number, min_rtt_us=rtt_us) for number, rtt_us in enumerate(rtts_us, 1)]
    found = flows(looks, [opened(), sent(100 * len(rtts_us), 9_000)])
    assert (found.idle_rtt_s, found.loaded_rtt_s) == (idle_s, 0.0)


def test_the_last_bytes_close_a_connection_and_are_not_awaited() -> None:
    def seconds(before: int, last: int) -> float:
        return flows([look(1000)], [opened(), sent(1000, before), sent(3000, last)]).seconds

    assert (seconds(1_000_000, 1_001_024), seconds(1_000_000, 1_001_025)) == (1.0, 3.0)
    # With little content at most a tenth.
    assert (seconds(4_500, 5_000), seconds(4_499, 5_000)) == (1.0, 3.0)


def test_a_connection_with_a_twentieth_of_the_content_counts_and_one_with_less_does_not() -> None:
    def two(small: int) -> Flows:
        looks = [look(1000, acked=10_000 - small, retransmits=1), look(2000, peer=CLIENT + 1, acked=small, mss=10, retransmits=5)]
        other = opened(500, 1, CLIENT + 1)
        return flows(looks, [opened(), other, sent(1000, 10_000 - small), sent(2000, small, connection=1)])

    both, one = two(500), two(499)
    assert (both.connections, both.content, both.seconds, both.retransmits, both.segments) == (2, 10_000, 2.0, 6, 10 + 1 + 50 + 5)
    assert [each.seconds for each in both.slices] == [1.0, 1.5]
    assert (one.connections, one.content, one.seconds, one.retransmits, one.segments) == (1, 10_000, 1.0, 1, 10 + 1)


def test_a_connection_that_carried_nothing_or_was_not_looked_at_does_not_count() -> None:
    silent, unseen, ended = opened(1, 1, CLIENT + 1), opened(2, 2, CLIENT + 2), Mark(0, 3 * MS, opened=False)
    looks = [look(1000, peer=CLIENT + 1), look(1000)]
    found = flows(looks, [ended, unseen, silent, opened(), sent(900, 50, connection=2), sent(1000, 9_000)])
    assert (found.connections, found.content, found.seconds) == (1, 9_000, 1.0)


def test_an_upload_is_what_the_opener_sent() -> None:
    # What comes back goes the other way, and does not count.
    events = [opened(), sent(1000, 9_000, up=True), sent(2000, 20_000)]
    found = flows([look(1000, port=CLIENT, peer=SERVER)], events, direction="put")
    assert (found.direction, found.content, found.seconds) == ("put", 9_000, 1.0)


def test_content_that_was_noted_out_of_order_counts_in_its_order() -> None:
    found = flows([look(1000)], [opened(), sent(1000, 9_000), sent(400, 4_000)])
    assert (found.content, found.seconds) == (9_000, 1.0)


def test_time_after_the_last_look_is_one_more_slice_and_time_after_the_last_byte_none() -> None:
    events = [opened(100), sent(900, 9_000)]
    looks = [look(100, acked=1), look(300, acked=3000, no_window_us=50_000, window=5)]
    found = flows(looks, events)
    assert [(each.seconds, each.sent, each.no_window_s) for each in found.slices] == [(0.2, 3000, 0.05), (0.6, 0, 0.0)]
    found = flows([look(300), look(1500, acked=9_000), look(1600, acked=9_001)], events)
    assert [(each.seconds, each.sent) for each in found.slices] == [(0.2, 0), (0.6, 9_000)]
    found = flows([look(300), look(900)], events)
    assert [each.seconds for each in found.slices] == [0.2, 0.6]
    assert not flows([look(100)], events).slices, "what was seen at its beginning says nothing about later"


def test_the_kernels_times_belong_to_the_part_in_which_the_program_did_not_pause() -> None:
    """The program pauses from 100 to 150 ms; the look at 200 ms cannot tell the two parts of its time apart."""
    events = [opened(), sent(100, 20_000), sent(150, 40_000), sent(200, 60_000)]
    last = {"acked": 16_000, "no_window_us": 40_000, "no_buffer_us": 10_000}
    looks = [look(120, unsent=0, acked=8_000), look(200, **last)]
    slices = flows(looks, events).slices
    assert [round(each.seconds * 1e3) for each in slices] == [100, 20, 30, 50]
    assert [each.sent for each in slices] == [6_667, 1_333, 3_000, 5_000]
    assert [each.no_window_s for each in slices] == [0, 0, 0, pytest.approx(0.04)]
    assert [each.no_buffer_s for each in slices] == [0, 0, 0, pytest.approx(0.01)]
    assert [each.waits_for_network for each in slices] == [False, False, False, True]


# --- the line ---------------------------------------------------------------------------------------------------------


def line_full(port: Sequence[tuple[int, int]], line: float | None = 1e6) -> bool:
    """For a slice around 100 ms on a link with a delay of 20 ms: the port is looked at around 120 ms."""
    found = flows([look(200, min_rtt_us=40_000)], [opened(), sent(200, 9_000)], port=port, line=line)
    assert found.line_byte_s == line
    return found.slices[0].line_full


def read(at_ms: int, size: int) -> list[tuple[int, int]]:
    """Readings every 10 ms; all of the bytes pass just before one of them."""
    return [(t_ms * MS, size if t_ms >= at_ms else 0) for t_ms in range(0, 300, 10)]


def test_a_line_is_full_by_its_bytes_in_the_tenth_of_a_second_around() -> None:
    # From 60 ms to 170 ms: 0.95 of a megabyte per second are 104,500 bytes.
    assert [line_full(read(at_ms, 104_501)) for at_ms in (60, 70, 170, 180)] == [False, True, True, False]
    assert not line_full(read(70, 104_499))
    assert not line_full(read(70, 104_501), None)


def test_a_line_whose_port_was_read_too_seldom_is_not_known_to_be_full() -> None:
    assert not line_full([])
    assert not line_full([(100 * MS, 9_999_999)])
    assert line_full([(100 * MS, 0), (110 * MS, 9_501)])
    assert not line_full([(100 * MS, 0), (110 * MS, 9_499)])
    assert not line_full([(1000 * MS, 0), (1010 * MS, 9_999_999)]), "later"


# --- the receiving program --------------------------------------------------------------------------------------------


def receiver(*seen: tuple[int, int, int]) -> Watched:
    """Time in ms, bytes received and unread of each look at the client."""
    looks = [look(t_ms, CLIENT, SERVER, received=received, unread=unread) for t_ms, received, unread in seen]
    return Watched([look(1, CLIENT + 5, SERVER, received=77, unread=77), *looks], ())


def test_a_program_that_leaves_content_unread_until_it_reads_again_takes_its_own_time() -> None:
    looks = [look(t_ms) for t_ms in (100, 200, 300, 400, 500)]
    events = [opened(), sent(500, 9_000)]
    # It reads at 300 ms what lay there at 200 ms, and at 400 and 500 ms what has just come.
    found = flows(
        looks, events, receiver((100, 2_000, 0), (200, 4_000, 2_001), (300, 4_000, 0), (400, 6_000, 0), (500, 9_000, 9))
    )
    assert [each.reader_idle for each in found.slices] == [False, True, True, False, False]
    assert [each.unread for each in found.slices] == [0, 2_001, 0, 0, 9]


def test_two_segments_may_lie_unread_by_chance() -> None:
    found = flows([look(100), look(200)], [opened(), sent(200, 9_000)], receiver((100, 4_000, 2_000), (200, 4_000, 0)))
    assert [each.reader_idle for each in found.slices] == [False, False]


def test_after_the_last_look_at_the_receiver_that_look_still_holds() -> None:
    looks = [look(100), look(200), look(300)]
    found = flows(looks, [opened(), sent(300, 9_000)], receiver((100, 9_000, 5_000), (200, 9_000, 400)))
    assert [(each.unread, each.reader_idle) for each in found.slices] == [(5_000, False), (400, True), (400, True)]


def test_a_receiver_without_looks_left_nothing_unread() -> None:
    (found,) = flows([look(100)], [opened(), sent(100, 9_000)], receiver()).slices
    assert (found.unread, found.reader_idle) == (0, False)


def test_the_pace_is_counted_from_the_first_content_to_when_the_receiver_has_taken_it() -> None:
    events = [opened(), sent(150, 1_000, began_ms=100), sent(500, 1_000_000)]
    took = receiver((500, 1_000_000, 400_000), (600, 1_000_000, 0), (700, 1_000_000, 0))
    assert flows([look(500)], events, took).pace_byte_s == pytest.approx(2e6)
    assert flows([look(500)], events, receiver((100, 1_000_000, 0))).pace_byte_s is None
    other = [opened(1, 1, CLIENT + 1), sent(500, 1_000_000, connection=1)]
    assert flows([look(500), look(500, peer=CLIENT + 1)], [*events, *other], took).pace_byte_s is None


# --- connections between two looks ------------------------------------------------------------------------------------

BRIEF: list[Event] = [
    Mark(9, 0, opened=False),
    opened(5),
    sent(16, 200, began_ms=15, up=True),
    sent(20, 5_000),
    sent(35, 9_000),
]


def test_a_transfer_between_two_looks_is_all_opening() -> None:
    assert flows([], BRIEF) == Flows("get", [Slice(0.03, 9_000, answer="opening")], 9_000, 0.03, 0.01, 0.01)
    assert flows([], BRIEF, direction="put") == Flows("put", [Slice(0.011, 200, answer="opening")], 200, 0.011, 0.01, 0.01)
    two = flows([], [*BRIEF, opened(8, 1), sent(35, 600, connection=1)])
    assert (two.content, two.slices[0].sent, two.seconds) == (9_600, 9_600, 0.03)


@pytest.mark.parametrize(
    "events",
    [[*BRIEF, Content(0, False, 0, 35 * MS + 1, 9_001)], BRIEF[2:], BRIEF[:3], []],
    ids=("longer", "not seen to open", "no content", "nothing"),
)
def test_without_a_look_nothing_else_can_be_said(events: Sequence[Event]) -> None:
    assert flows_of(Watched((), events), NOTHING, "get", (), None, Dropped(0, 0), None) is None


# --- explaining -------------------------------------------------------------------------------------------------------


def explained(
    link: Link | None, transfer: Transfer | None, *, full: str = "", size: int = 960_000, empty: bool = False
) -> Diagnosis | None:
    """A second in which the client sends `size` bytes and the server 960,000; the port `full` has them at its other side."""
    got: list[Event] = [opened(), *(sent(t_ms, t_ms * 960) for t_ms in range(100, 1100, 100))]
    given: list[Event] = [opened(), *(sent(t_ms, t_ms * size // 1000, up=True) for t_ms in range(100, 1100, 100))]
    at_client = Watched([look(t_ms, CLIENT, SERVER) for t_ms in range(100, 1100, 100)], [*got, *given[1:]])
    at_server = Watched([look(t_ms) for t_ms in range(100, 1100, 100)], got)
    network: Any = SimpleNamespace(client="client", server="server", wire_ports=Ports(client="c", server="s"))

    def of(host: str, start_ns: int, end_ns: int) -> Watched:
        assert (start_ns, end_ns) == (0, 1000 * MS)
        return NOTHING if empty else {"client": at_client, "server": at_server}[host]

    watch: Any = SimpleNamespace(of=of, dropped=lambda: Dropped(0, 0))
    rows = [
        PortReading(t_ms * MS, {name: PortCounters(0, 0, t_ms * 960 * (name == full), 0) for name in ("c", "s")})
        for t_ms in range(0, 1010, 10)
    ]
    return explain(network, watch, rows, Completed((), 0, b"", b"", 0, 1000 * MS, 0, 0), link, transfer)


def cause(*words: Any, **more: Any) -> str:
    found = explained(*words, **more)
    assert found is not None
    return found.cause


LINK = Link.model_validate({"rate": "8 Mbit/s", "up": {"rate": "4 Mbit/s"}})


def test_the_line_is_that_of_the_contents_way() -> None:
    get = Transfer.model_validate(TRANSFER)
    put = Transfer.model_validate({**TRANSFER, "direction": "put"})
    assert cause(LINK, get, full="c") == "line"
    assert cause(LINK, get, full="s") != "line"
    assert cause(LINK, put, full="s", size=480_000) == "line"
    assert cause(LINK, put, full="c", size=480_000) != "line"
    assert cause(None, get, full="c") != "line"
    assert cause(Link(), get, full="c") != "line"
    assert cause(Link.model_validate({"rate": "8.2 Mbit/s"}), get, full="c") != "line"


def test_without_a_transfer_the_way_is_that_of_more_content() -> None:
    for size, goodput in ((960_001, 960_001), (960_000, 960_000), (10_000, 960_000)):
        found = explained(None, None, size=size)
        assert found is not None
        assert found.goodput_byte_s == goodput
    assert cause(LINK, None, full="c") == "line"
    assert cause(LINK, None, full="s", size=1_000_000) == "line"


def test_a_client_that_keeps_its_limit_needs_no_other_cause() -> None:
    kept = Transfer.model_validate({**TRANSFER, "limit": "1 MB/s"})
    found = explained(None, kept, empty=True)
    assert found is not None
    assert (found.cause, found.goodput_byte_s) == ("limit", 1e6)
    assert explained(None, Transfer.model_validate({**TRANSFER, "limit": "2 MB/s"}), empty=True) is None
    assert explained(None, None, empty=True) is None


def test_a_limit_is_kept_by_goodput_close_to_it() -> None:
    transfer = Transfer.model_validate({**TRANSFER, "limit": "1 MB/s"})
    found = limited(transfer, 1_040_000.0)
    assert found is not None
    assert found.cause == "limit"
    assert found.goodput_byte_s == pytest.approx(1_040_000)
    assert limited(transfer, 1_060_000.0) is None
    assert limited(transfer, None) is None
    assert limited(Transfer.model_validate(TRANSFER), 1e6) is None


@pytest.mark.parametrize(
    ("dropped", "words"),
    [
        ({}, "the router dropped no packet"),
        ({"to-client": 1}, "the router dropped 1 packet: 1 down (queue, loss or outage)"),
        (
            {"to-server": 2, "mtu-down": 14},
            "the router dropped 16 packets: 2 up (queue, loss or outage), 14 down, larger than the 1484 bytes that pass",
        ),
        ({"udp-up": 3, "eth9": 1}, "the router dropped 4 packets: 3 up of UDP, 1 at eth9"),
    ],
)
def test_a_transfer_that_failed_has_the_routers_drops(dropped: dict[str, int], words: str) -> None:
    ports = Ports(client="to-client", server="to-server")
    link = Link.model_validate({"rate": "8 Mbit/s", "hidden_mtu": 1484})
    seen = Diagnosis(cause="short-file", share=0.9, sentence="limited by the file's size", retransmits=7, goodput_byte_s=5.0)
    for found in (None, seen):
        why = of_failed(found, dropped, ports, link)
        assert why.sentence == f"the transfer failed; {words}"
        assert (why.cause, why.share, why.shares, why.goodput_byte_s) == ("not-known", None, {}, None)
        assert why.retransmits == (7 if found else None)
