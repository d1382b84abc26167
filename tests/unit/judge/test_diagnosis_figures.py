"""The figures of a diagnosis: each sentence, each share and each limit of a rule, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.judge.diagnosis import FULL, LEAST_SHARE, Flows, Slice, diagnose, reader, unexplained, window_of, writer

PLAIN = Flows("get", (), content=2_000_000, seconds=4.0, idle_rtt_s=0.05, loaded_rtt_s=0.1)
SLICE = Slice(1.0, 1000)
NETWORK = replace(SLICE, waits_for_network=True)
PUT = replace(PLAIN, direction="put")


def told(flows: Flows, *slices: Slice) -> str:
    return diagnose(replace(flows, slices=slices)).sentence


def cause(flows: Flows, *slices: Slice) -> str:
    return diagnose(replace(flows, slices=slices)).cause


# --- sentences ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flows", "piece", "sentence"),
    [
        (PLAIN, replace(SLICE, line_full=True), "limited by the line: 0.5 MB/s, with it full for 100 % of the time"),
        (replace(PLAIN, limit_byte_s=510_000), SLICE, "limited by the client's limit: 0.5 MB/s of 0.51 MB/s"),
        (
            replace(PLAIN, connections=3),
            replace(SLICE, no_window_s=1.0, window=1 << 20),
            "limited by the receiver: window 1.0 MiB each RTT of 100 ms = 31.5 MB/s for 100 % of the time",
        ),
        (
            replace(PLAIN, loaded_rtt_s=0.0),
            replace(SLICE, no_window_s=1.0, window=1023),
            "limited by the receiver: window 1023 B each RTT of 0 ms = - for 100 % of the time",
        ),
        (
            PLAIN,
            replace(SLICE, no_buffer_s=1.0, send_buffer=16 << 10),
            "limited by the sender: send buffer of 16.0 KiB at an RTT of 50 ms, 0.5 MB/s for 100 % of the time",
        ),
        (
            PLAIN,
            replace(SLICE, reader_idle=True, unread=1536),
            "limited by the client: it does not read for 100 % of the time, up to 1.5 KiB unread",
        ),
        (PUT, SLICE, "limited by the client: it does not write for 100 % of the time"),
        (PLAIN, SLICE, "limited by the server: it does not send for 100 % of the time"),
        (PUT, replace(SLICE, reader_idle=True), "limited by the server: it does not read for 100 % of the time"),
        (
            PLAIN,
            NETWORK,
            "limited by the congestion window: 24.4 KiB each RTT of 50 ms for 100 % of the time, nothing lost",
        ),
        (
            replace(PLAIN, retransmits=7, segments=900),
            NETWORK,
            "limited by loss: 7 of 900 segments sent again at an RTT of 50 ms, for 100 % of the time",
        ),
        (
            replace(PLAIN, retransmits=7, dropped=7, policed=6),
            NETWORK,
            "limited by a policer: it dropped 6 packets, 0.5 MB/s for 100 % of the time",
        ),
        (
            replace(PLAIN, layer="sftp"),
            replace(SLICE, answer="at once"),
            "limited by SSH: its window or SFTP's requests allow 24.4 KiB each RTT of 50 ms for 100 % of the time",
        ),
        (
            replace(PLAIN, layer="h2"),
            replace(SLICE, answer="at once"),
            "limited by HTTP/2: the window of the stream or of the connection allows 24.4 KiB each RTT of 50 ms "
            "for 100 % of the time",
        ),
        (
            replace(PLAIN, layer="http1"),
            replace(SLICE, answer="at once"),
            "limited by the client's requests, one after the other: 24.4 KiB each RTT of 50 ms for 100 % of the time",
        ),
        (
            PLAIN,
            replace(SLICE, answer="at once"),
            "limited by the protocol: the sender waits for the receiver's messages, 24.4 KiB each RTT of 50 ms "
            "for 100 % of the time",
        ),
        (
            PLAIN,
            replace(SLICE, answer="opening"),
            "limited by the file's size: 1.9 MiB in 80.0 RTTs of 50 ms, for 100 % of the time opening and slow start",
        ),
        (
            replace(PLAIN, idle_rtt_s=0.0),
            replace(SLICE, answer="opening"),
            "limited by the file's size: 1.9 MiB in - RTTs of 0 ms, for 100 % of the time opening and slow start",
        ),
    ],
)
def test_a_sentence_has_its_figures(flows: Flows, piece: Slice, sentence: str) -> None:
    assert told(flows, piece) == sentence


def test_without_a_cause_every_share_is_given_the_largest_first() -> None:
    pieces = [SLICE, *[NETWORK] * 2, *[replace(SLICE, line_full=True)] * 2]
    assert told(PLAIN, *pieces) == "not known: congestion window 40 %, full line 40 %, server 20 %"
    assert told(PLAIN, SLICE, *[replace(SLICE, line_full=True)] * 2) == "not known: full line 67 %, server 33 %"
    assert told(PLAIN) == "not known: no content"


def test_a_size_that_was_not_measured_is_zero() -> None:
    assert told(PLAIN, replace(SLICE, no_window_s=1.0)).startswith("limited by the receiver: window 0 B each RTT")
    assert told(PLAIN, replace(SLICE, no_buffer_s=1.0)).startswith("limited by the sender: send buffer of 0 B at")
    assert told(PLAIN, replace(SLICE, reader_idle=True)).endswith("up to 0 B unread")


def test_most_of_a_time_and_most_of_a_line_are_more_than_half() -> None:
    assert 0.5 < LEAST_SHARE < FULL < 1


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), ((1 << 20) - 1, "1024.0 KiB"), (1 << 20, "1.0 MiB")]
)
def test_a_size_is_in_the_largest_unit_that_it_fills(size: int, words: str) -> None:
    found = told(PLAIN, replace(SLICE, reader_idle=True, unread=size), replace(SLICE, reader_idle=True))
    assert found == f"limited by the client: it does not read for 100 % of the time, up to {words} unread"


def test_a_window_is_the_median_where_it_was_the_cause() -> None:
    def window(*sizes: int) -> str:
        pieces = [replace(SLICE, no_window_s=1.0, window=size) for size in sizes]
        found = told(PLAIN, replace(SLICE, window=1), *pieces, replace(SLICE, line_full=True, no_window_s=1.0, window=9))
        return found.partition(": window ")[2].partition(" each")[0]

    assert window(*[500] * 3, *[100] * 4, *[900] * 4) == "500 B"
    assert window(*[100] * 5, *[900] * 5) == "900 B"


# --- shares -------------------------------------------------------------------------------------------------------------------


def test_a_cause_is_named_from_seven_tenths_of_the_time_on() -> None:
    line = replace(SLICE, line_full=True)
    found = diagnose(replace(PLAIN, slices=[*[line] * 7, *[SLICE] * 3]))
    assert (found.cause, found.share, found.shares) == ("line", 0.7, {"line": 0.7, "slow-server": 0.3})
    found = diagnose(replace(PLAIN, slices=[*[line] * 69, *[SLICE] * 31]))
    assert (found.cause, found.share, found.shares) == ("not-known", None, {"line": 0.69, "slow-server": 0.31})


def test_a_share_is_shown_from_one_in_a_hundred_on_with_four_digits() -> None:
    line = replace(SLICE, line_full=True)
    found = diagnose(replace(PLAIN, slices=[*[line] * 98, SLICE, replace(NETWORK, seconds=0.9), replace(SLICE, seconds=0.1)]))
    assert found.shares == {"line": 0.98, "slow-server": 0.011}
    assert list(diagnose(replace(PLAIN, slices=[SLICE, line, line])).shares.items()) == [
        ("line", 0.6667),
        ("slow-server", 0.3333),
    ]
    assert diagnose(replace(PLAIN, slices=[*[line] * 99, NETWORK])).shares == {"line": 0.99, "congestion-window": 0.01}


def test_a_slice_is_divided_among_its_waits() -> None:
    def shares(**waits: float) -> dict[Any, float]:
        return diagnose(replace(PLAIN, slices=[replace(SLICE, **waits)])).shares

    assert shares(no_window_s=0.5, no_buffer_s=0.25) == {"receive-window": 0.5, "send-buffer": 0.25, "slow-server": 0.25}
    assert shares(no_window_s=0.75, no_buffer_s=0.75) == {"receive-window": 0.75, "send-buffer": 0.25}
    assert shares(no_window_s=3.0, no_buffer_s=3.0) == {"receive-window": 1.0}
    assert shares(no_buffer_s=0.5) == {"send-buffer": 0.5, "slow-server": 0.5}


def test_both_ways_to_wait_for_the_send_buffer_count_together() -> None:
    piece = replace(SLICE, no_window_s=0.25, no_buffer_s=0.25, answer="room")
    assert diagnose(replace(PLAIN, slices=[piece])).shares == {"send-buffer": 0.75, "receive-window": 0.25}


def test_a_full_line_goes_before_an_idle_reader_and_that_before_every_wait() -> None:
    every = replace(NETWORK, no_window_s=1.0, no_buffer_s=1.0, reader_idle=True, line_full=True)
    assert cause(PLAIN, every) == "line"
    assert cause(PLAIN, replace(every, line_full=False)) == "slow-reader"
    assert cause(PLAIN, replace(every, line_full=False, reader_idle=False)) == "receive-window"


# --- the limits of rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pace", "kept"), [(0.949, False), (0.951, True), (1.0, True), (1.049, True), (1.051, False)])
def test_a_limit_is_kept_within_a_twentieth(pace: float, kept: bool) -> None:
    limited = replace(PLAIN, limit_byte_s=500_000 / pace)
    assert (cause(limited, SLICE) == "limit") == kept
    limited = replace(PLAIN, limit_byte_s=1e6, pace_byte_s=1e6 * pace)
    assert (cause(limited, SLICE) == "limit") == kept
    found = diagnose(replace(PLAIN, limit_byte_s=500_000, slices=[SLICE]))
    assert (found.share, found.shares) == (1.0, {"slow-server": 1.0})


@pytest.mark.parametrize(
    ("dropped", "policed", "name"), [(0, 0, "loss"), (10, 5, "loss"), (10, 6, "policer"), (11, 6, "policer")]
)
def test_a_policer_dropped_more_than_half(dropped: int, policed: int, name: str) -> None:
    assert cause(replace(PLAIN, retransmits=1, dropped=dropped, policed=policed), NETWORK) == name


def test_slow_start_explains_a_wait_for_the_network_whatever_was_lost() -> None:
    assert cause(replace(PLAIN, retransmits=1), replace(NETWORK, slow_start=True)) == "short-file"


@pytest.mark.parametrize(
    ("request_bytes", "name"), [(24_999, "h2-window"), (25_000, "requests"), (25_001, "requests"), (None, "h2-window")]
)
def test_at_most_one_file_in_a_round_trip_waits_for_requests(request_bytes: int | None, name: str) -> None:
    assert window_of(replace(PLAIN, layer="h2", request=request_bytes)) == name


@pytest.mark.parametrize(
    ("layer", "name"),
    [("sftp", "ssh-window"), ("h2", "h2-window"), ("http1", "requests"), ("https1", "requests"), ("", "peer-messages")],
)
def test_the_protocol_names_its_window(layer: str, name: str) -> None:
    assert window_of(replace(PLAIN, layer=layer)) == name


def test_a_program_is_the_clients_or_the_servers() -> None:
    assert [reader("get"), reader("put"), writer("get"), writer("put")] == [
        "slow-reader",
        "slow-server",
        "slow-server",
        "slow-writer",
    ]
    assert cause(PLAIN, replace(SLICE, answer="late")) == "slow-reader"
    assert cause(PUT, replace(SLICE, answer="late")) == "slow-server"


# --- the other figures --------------------------------------------------------------------------------------------------------


def test_round_trips_are_in_milliseconds_and_what_was_not_measured_is_null() -> None:
    found = diagnose(replace(PLAIN, retransmits=3, slices=[SLICE]))
    assert (found.goodput_byte_s, found.retransmits, found.idle_rtt_ms, found.loaded_rtt_ms) == (500_000, 3, 50.0, 100.0)
    bare = diagnose(Flows("get", (), 0, 4.0, 0.0, 0.0))
    assert (bare.goodput_byte_s, bare.retransmits, bare.idle_rtt_ms, bare.loaded_rtt_ms) == (None, 0, None, None)
    assert (Flows("get", (), 5, 0.0, 0.0, 0.0).goodput, Flows("get", (), 5, 2.0, 0.0, 0.0).goodput) == (0, 2.5)


def test_where_the_rules_do_not_hold_only_figures_are_left() -> None:
    found = diagnose(replace(PLAIN, slices=[SLICE]))
    bare = unexplained(found, "two senders")
    assert (bare.cause, bare.share, bare.shares, bare.sentence) == ("not-known", None, {}, "not known: two senders")
    assert bare.goodput_byte_s == found.goodput_byte_s


def test_what_is_not_counted_is_nothing() -> None:
    flows = Flows(direction="get", slices=(), content=1, seconds=1.0, idle_rtt_s=0.1, loaded_rtt_s=0.1)
    assert (flows.retransmits, flows.segments, flows.dropped, flows.policed, flows.connections) == (0, 0, 0, 0, 1)
