"""What ended a sender's pause, from what its port and its kernel saw: one connection written by hand for each rule."""

from __future__ import annotations

import pytest

from lab.net.sockets import Look
from lab.net.tap import Content
from lab.run.pauses import Connection, Part, Pauses, chosen

MS = 1_000_000
RTT_MS = 100
FIXED, OWN = 100_000, 46_080
"""A size that SO_SNDBUF set, and one that the kernel chose."""
START = 1 << 20
"""Content before what is looked at: the opening is over."""


def look(t_ms: float, *, buffered: int = 0, send_buffer: int = FIXED, unsent: int = 0) -> Look:
    zeros = dict.fromkeys(Look._fields, 0)
    known = {"mss": 1448, "cwnd": 1000, "unacked": 10, "rtt_us": RTT_MS * 1000}
    return Look(
        **{**zeros, **known, "t_ns": round(t_ms * MS), "buffered": buffered, "send_buffer": send_buffer, "unsent": unsent}
    )


def content(t_ms: float, position: int) -> Content:
    return Content(0, from_opener=False, t0_ns=round(t_ms * MS), t_ns=round(t_ms * MS), position=START + position)


def pauses(
    out: list[Content], looks: list[Look], *, back: tuple[Content, ...] = (), acks: tuple[tuple[float, int], ...] = ()
) -> Pauses:
    acked = [(round(t_ms * MS), START + position) for t_ms, position in acks]
    return Pauses(Connection(0, 10_000 * MS, looks, [content(-1, 0), *out], back, [(0, START), *acked]), RTT_MS * 1000)


def answer(found: Pauses, t_ms: float) -> str:
    (part,) = found.cut(round(t_ms * MS), round(t_ms * MS) + 1, waits_for_network=False)
    return part.answer


def full(*, woken_ms: float, acked: int, before: int, send_buffer: int = FIXED, later: int | None = None) -> Pauses:
    """91,000 bytes leave at 10 ms and take 100,100 of memory; more leaves at `woken_ms`, just after `acked` are acknowledged."""
    looks = [look(20, buffered=100_100, send_buffer=send_buffer), look(120, buffered=96_910, send_buffer=later or send_buffer)]
    out = [content(10, 91_000), content(woken_ms, 120_000)]
    return pauses(out, looks, acks=((109, before), (110, acked)))


def test_a_full_buffer_that_comes_down_to_two_thirds() -> None:
    assert answer(full(woken_ms=110.01, before=29_000, acked=31_900), 60) == "room"


def test_what_the_kernel_has_not_sent_yet_is_in_the_buffer_too() -> None:
    looks = [look(20, buffered=122_100, unsent=20_000), look(120, buffered=96_910)]
    found = pauses([content(10, 91_000), content(110.01, 120_000)], looks, acks=((109, 29_000), (110, 31_900)))
    assert answer(found, 60) == "room"


@pytest.mark.parametrize(
    "found",
    [
        full(woken_ms=110.01, before=2_900, acked=5_800),
        full(woken_ms=110.01, before=61_000, acked=63_900),
        full(woken_ms=112, before=29_000, acked=31_900),
        full(woken_ms=110.01, before=29_000, acked=31_900, send_buffer=200_000),
        full(woken_ms=110.01, before=29_000, acked=31_900, send_buffer=92_160),
    ],
    ids=("still full", "had room before", "not at once", "never full", "would have grown"),
)
def test_a_program_that_writes_for_its_own_reasons(found: Pauses) -> None:
    assert answer(found, 60) == "none"


def test_a_buffer_of_the_kernels_own_grows_where_a_program_waits() -> None:
    assert answer(full(woken_ms=110.01, before=29_000, acked=31_900, send_buffer=92_160, later=184_320), 60) == "room"


def test_which_sizes_the_kernel_chooses() -> None:
    assert chosen(OWN, 1448)
    assert chosen(2 * OWN, 1348)
    assert not chosen(2 * 65_536, 1448)
    assert not chosen(4 << 20, 1448), "the most that tcp_wmem allows"
    # With its headers the longest segment that fits into 2 KiB, and one byte more.
    assert chosen(20 * (2048 + 256), 1524)
    assert chosen(20 * (4096 + 256), 1525)


def test_a_message_answers_content_of_a_round_trip_before_or_comes_late() -> None:
    asked = content(110.1, 0)._replace(from_opener=True)
    for sent_ms, expected in ((10, "at once"), (60, "late")):
        found = pauses([content(sent_ms, 1_000), content(110.2, 2_000)], [look(80)], back=(asked,))
        assert answer(found, 100) == expected


def test_what_tcp_sends_while_its_program_pauses_is_the_programs_time() -> None:
    out = [content(10, 14_480), content(110, 60_000), content(500, 75_000)]
    looks = [look(t, unsent=60_000 - 14_480 if t < 110 else 0) for t in range(20, 510, 10)]
    parts = pauses(out, looks).cut(10 * MS, 500 * MS, waits_for_network=True)
    assert [(part.start_ns // MS, part.end_ns // MS, part.idle) for part in parts] == [(10, 20, False), (20, 500, True)]


def test_less_than_a_segment_that_tcp_held_back_was_not_written_then() -> None:
    out = [content(10, 14_480), content(500, 14_980)]
    looks = [look(t, unsent=500) for t in range(20, 500, 10)]
    assert not any(part.idle for part in pauses(out, looks).cut(10 * MS, 500 * MS, waits_for_network=True))


# --- the opening ------------------------------------------------------------------------------------------------------


def opening(sizes: tuple[tuple[float, int], ...], came_ms: float | None = None) -> str:
    """The answer before the last of that content (time, position) on a round trip of 100 ms, the peer's message at `came_ms`."""
    out = [Content(0, False, round(t_ms * MS), round(t_ms * MS), position) for t_ms, position in sizes]
    back = [] if came_ms is None else [Content(0, True, round(came_ms * MS), round(came_ms * MS), 9)]
    found = Pauses(Connection(0, 10_000 * MS, [], out, back), RTT_MS * 1000)
    return answer(found, sizes[-1][0] - 0.001)


def test_the_first_16_kib_open_a_connection_unless_a_pause_is_longer_than_that_takes() -> None:
    # Two and a half round trips, each 5 ms shorter than the idle one, and 50 ms.
    assert opening(((10, 16_383), (297.5, 20_000))) == "opening"
    assert opening(((10, 16_383), (297.501, 20_000))) == "none"
    assert opening(((10, 16_384), (297.5, 20_000))) == "none"
    assert opening(((287.5, 20_000),)) == "opening"
    assert opening(((287.501, 20_000),)) == "none"


def test_a_pause_of_the_opening_counts_from_the_peers_last_message() -> None:
    assert opening(((10, 9), (900, 20_000)), came_ms=612.5) == "opening"
    assert opening(((10, 9), (900, 20_000)), came_ms=612.499) == "none"
    assert opening(((10, 9), (900, 20_000)), came_ms=899.9) == "opening"
    assert opening(((899, 9), (900, 20_000)), came_ms=5) == "opening"
    assert opening(((900, 20_000),), came_ms=700) == "opening"


# --- the peer's messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("came_ms", "expected"),
    [(499.5, "at once"), (499.499, "none"), (500, "at once"), (500.000_001, "none")],
)
def test_a_message_is_answered_within_half_a_millisecond(came_ms: float, expected: str) -> None:
    asked = content(came_ms, 0)._replace(from_opener=True)
    found = pauses([content(400, 1_000), content(500, 2_000)], [look(80)], back=(asked,))
    assert answer(found, 450) == expected


def test_of_several_messages_the_last_before_the_content_is_answered() -> None:
    asked = tuple(content(t_ms, 0)._replace(from_opener=True) for t_ms in (300, 499.9, 700))
    found = pauses([content(400, 1_000), content(500, 2_000), content(600, 3_000)], [look(80)], back=asked)
    assert (answer(found, 450), answer(found, 550)) == ("at once", "none")


@pytest.mark.parametrize(
    ("sent_ms", "rtts_ms", "expected"),
    [
        (394, (100,), "at once"),
        (393.999_999, (100,), "late"),
        (405, (100,), "at once"),
        (405.000_001, (100,), "late"),
        (394, (), "at once"),
        (393.999_999, (), "late"),
        (394, (0,), "at once"),
        (289, (100, 200, 50), "at once"),
        (288.999_999, (100, 200, 50), "late"),
    ],
)
def test_a_round_trip_is_the_idle_one_to_the_longest_that_a_look_saw(
    sent_ms: float, rtts_ms: tuple[int, ...], expected: str
) -> None:
    """From 5 % below the idle one to 5 % and a millisecond above the longest."""
    asked = content(500, 0)._replace(from_opener=True)
    looks = [look(10 * number)._replace(rtt_us=rtt_ms * 1000) for number, rtt_ms in enumerate(rtts_ms)]
    found = pauses([content(sent_ms, 1_000), content(500, 2_000)], looks, back=(asked,))
    assert answer(found, 450) == expected


# --- the send buffer --------------------------------------------------------------------------------------------------


def room(sent: int, before: int, after: int, *, acked_ms: float = 110, woken_ms: float = 110.05, more: int = 0) -> str:
    """`sent` bytes leave; 100 us before more leaves `before` of them are not acknowledged, and `after` from `acked_ms` on."""
    out = [content(10, sent), content(woken_ms, sent + 30_000)]
    looks = [look(20 + 10 * number) for number in range(1 + more)]
    return answer(pauses(out, looks, acks=((100, sent - before), (acked_ms, sent - after))), 60)


def test_a_buffer_was_full_and_came_down_to_two_thirds_by_shares_of_its_size() -> None:
    # Shares of 100,000 bytes; without a look at what is in it, content takes a tenth more memory than it has bytes.
    assert room(91_000, 62_000, 60_000) == "room"
    assert (room(77_273, 62_000, 60_000), room(77_272, 62_000, 60_000)) == ("room", "none")
    assert (room(91_000, 54_546, 54_000), room(91_000, 54_545, 54_000)) == ("room", "none")
    assert (room(91_000, 70_000, 65_454), room(91_000, 70_000, 65_455)) == ("room", "none")
    assert room(91_000, 62_000, 60_000, more=1) == "room"


def test_room_is_used_within_a_tenth_of_a_millisecond() -> None:
    assert room(91_000, 62_000, 60_000, woken_ms=110.1) == "room"
    assert room(91_000, 62_000, 60_000, woken_ms=110.100_001) == "none"


def test_without_a_look_or_an_acknowledgement_no_room_is_known() -> None:
    out = [content(10, 91_000), content(110.05, 120_000)]
    assert answer(pauses(out, [], acks=((109, 29_000), (110, 31_000))), 60) == "none"
    assert answer(Pauses(Connection(0, 10_000 * MS, [look(20)], out, (), ()), RTT_MS * 1000), 60) == "none"


def measured(sent: int, *, second: int, left: int | None = None, before: int = 55_000, after: int = 50_000) -> str:
    """The look before shows as much memory as content, and that after it `second` bytes of memory."""
    out = [content(10, sent), content(110.05, sent + 30_000)]
    acks = [(109.0, sent - before), (110.0, sent - after)]
    if left is not None:
        acks.append((115.0, sent + 30_000 - left))
    return answer(pauses(out, [look(20, buffered=sent), look(120, buffered=second)], acks=tuple(acks)), 60)


def test_the_memory_of_content_is_what_the_looks_around_show_on_average() -> None:
    # 1.0 before and 1.4 after: 80,000 bytes are in the buffer then.
    assert (measured(70_834, second=112_000), measured(70_833, second=112_000)) == ("room", "none")


def test_a_look_at_no_more_than_a_segment_shows_nothing_about_memory() -> None:
    assert measured(85_000, second=10_000_000, left=1448, before=65_000, after=64_000) == "room", "by the first look alone"
    assert measured(85_000, second=10_000_000, left=1449, before=65_000, after=64_000) == "none"


def test_the_looks_around_the_end_of_the_pause_count_and_no_others() -> None:
    out = [content(10, 91_000), content(110.05, 120_000)]
    other = look(5, send_buffer=200_000), look(30), look(105), look(400, send_buffer=200_000)
    assert answer(pauses(out, list(other[:3]), acks=((100, 29_000), (110, 31_000))), 60) == "room"
    assert answer(pauses(out, list(other), acks=((100, 29_000), (110, 31_000))), 60) == "none"
    # All looks came before: the last two are.
    assert answer(pauses(out, [look(30, send_buffer=200_000), look(105)], acks=((100, 29_000), (110, 31_000))), 60) == "none"
    # The first look came late: it is the only one around.
    assert answer(pauses(out, [look(300), other[3]], acks=((100, 29_000), (110, 31_000))), 60) == "room"


def test_whether_the_kernel_chose_a_size_is_asked_with_the_segments_of_then() -> None:
    out = [content(10, 91_000), content(110.05, 120_000)]
    for before, then, expected in ((8_000, 1_448, "none"), (1_448, 8_000, "room")):
        looks = [look(t_ms, send_buffer=92_160)._replace(mss=mss) for t_ms, mss in ((20, before), (120, then))]
        assert answer(pauses(out, looks, acks=((100, 35_000), (110, 36_000))), 60) == expected


def test_a_part_has_its_length_and_its_middle_and_a_connection_its_content() -> None:
    part = Part(1_000_000_000, 3_500_000_000, "none", idle=False)
    assert (part.seconds, part.middle_ns) == (2.5, 2_250_000_000)
    assert Connection(0, 1, (), [content(1, 5), content(2, 9), content(3, 10)], ()).content == START + 10


# --- parts ------------------------------------------------------------------------------------------------------------


def parts(found: Pauses, start_ms: float, end_ms: float, *, waits: bool) -> list[tuple[float, float, str, bool]]:
    cut = found.cut(round(start_ms * MS), round(end_ms * MS), waits_for_network=waits)
    return [(part.start_ns / MS, part.end_ns / MS, part.answer, part.idle) for part in cut]


def two_pauses() -> Pauses:
    """The program pauses from 100 to 200 ms and from 300 to 400 ms, and answers a message at 250 ms."""
    out = [content(t_ms, 10_000 * number) for number, t_ms in enumerate((100, 200, 250, 300, 400), 1)]
    asked = content(250, 0)._replace(from_opener=True)
    return pauses(out, [look(150), look(350)], back=(asked,))


def test_a_time_is_cut_where_pauses_begin_and_end() -> None:
    found = two_pauses()
    assert parts(found, 50, 450, waits=False) == [
        (50, 100, "none", False),
        (100, 200, "none", True),
        (200, 250, "late", False),
        (250, 300, "none", False),
        (300, 400, "none", True),
        (400, 450, "none", False),
    ]
    assert parts(found, 50, 450, waits=True) == [
        (50, 100, "none", False),
        (100, 200, "none", True),
        (200, 300, "none", False),
        (300, 400, "none", True),
        (400, 450, "none", False),
    ]
    for waits in (False, True):
        assert parts(found, 120, 180, waits=waits) == [(120, 180, "none", True)]
        assert parts(found, 60, 90, waits=waits) == [(60, 90, "none", False)]
        assert parts(found, 500, 500, waits=waits) == []


def test_a_look_at_the_beginning_of_a_pause_is_in_it_and_one_at_its_end_is_not() -> None:
    out = [content(100, 10_000), content(200, 20_000)]
    assert parts(pauses(out, [look(100)]), 100, 200, waits=True) == [(100, 200, "none", True)]
    assert parts(pauses(out, [look(200)]), 100, 200, waits=True) == [(100, 200, "none", False)]
    assert parts(pauses(out, [look(99), look(201)]), 100, 200, waits=True) == [(100, 200, "none", False)]


def test_while_tcp_waits_for_the_network_at_every_look_its_program_does_not_pause() -> None:
    out = [content(100, 10_000), content(200, 20_000)]
    busy = [look(t_ms)._replace(unacked=1000) for t_ms in (120, 150)]
    assert parts(pauses(out, busy), 100, 200, waits=True) == [(100, 200, "none", False)]
    assert parts(pauses(out, [*busy, look(180)]), 100, 200, waits=True) == [(100, 200, "none", True)]


def test_a_pause_begins_where_all_that_was_sent_before_it_had_been_written() -> None:
    out = [content(100, 10_000), content(200, 20_000), content(300, 40_000)]
    for unsent, begins_ms in ((20_000, 50), (19_999, 110)):
        found = pauses(out, [look(50, unsent=unsent), look(110, unsent=10_000), look(250)])
        assert parts(found, 0, 300, waits=True) == [(0, begins_ms, "none", False), (begins_ms, 300, "none", True)]
