"""Schedules: which states they have, which commands they become, and what holds for every one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.link.schedule import Course, carried_bytes, course, plan_changes, plan_state, slowest_goodput_bit_s
from lab.link.theory import ideal_goodput_bit_s
from lab.model.link import DirectionName
from lab.model.topology import Topology
from lab.model.units import BitRate, Duration

PORTS: dict[DirectionName, str] = {"up": "eth1", "down": "eth0"}
LINK = {"rate": "20 Mbit/s", "rtt": "40 ms"}


def topology(*steps: dict[str, Any], link: dict[str, Any] | None = None, **schedule: Any) -> Topology:
    return Topology.model_validate(
        {"name": "alive", "description": "A test.", "link": link or LINK, "schedule": {"steps": steps, **schedule}}
    )


def changes(found: Topology) -> dict[int, list[str]]:
    assert found.schedule is not None
    return {
        change.at_ns // 1_000_000: [" ".join(command[1:]) for command in change.commands]
        for change in plan_changes(found.link, found.schedule, PORTS)
    }


def test_a_step_changes_only_what_it_names() -> None:
    found = topology({"at": "1 s", "up": {"rate": "5 Mbit/s"}}, link={**LINK, "queue": "50 packets"})
    words = "class change dev eth1 parent 2: classid 2:1 htb rate 5000000bit ceil 5000000bit burst 2 cburst 2 quantum 1514"
    assert changes(found) == {1000: [words]}


def test_an_outage_loses_everything_and_then_nothing() -> None:
    found = changes(topology({"at": "1 s", "outage": "200 ms"}))
    assert [*found] == [1000, 1200]
    assert all("loss 100%" in line for line in found[1000])
    assert all("loss 0%" in line for line in found[1200])


def test_a_handover_has_its_new_round_trip_after_the_outage() -> None:
    found = topology({"at": "1 s", "outage": "200 ms", "rtt": "80 ms"})
    assert found.schedule is not None
    assert [(state.at_ns // 1_000_000, state.link.rtt.ms, state.passing) for state in found.schedule.states(found.link)] == [
        (0, 40, True),
        (1000, 80, False),
        (1200, 80, True),
    ]


def test_a_ramp_goes_in_pieces_of_10_ms_to_its_end() -> None:
    found = topology({"at": "1 s", "over": "100 ms", "rate": "10 Mbit/s", "rtt": "60 ms"})
    assert found.schedule is not None
    states = found.schedule.states(found.link)[1:]
    assert [state.at_ns // 1_000_000 for state in states] == [*range(1000, 1101, 10)]
    rates = [state.link.rate.bit_s for state in states if state.link.rate]
    assert rates == [*range(19_500_000, 10_000_000, -1_000_000), 10_000_000]
    assert states[-1].link.rtt == Duration.parse("60 ms")


def test_a_schedule_that_repeats_sets_everything_at_its_beginning() -> None:
    found = changes(topology({"at": "1 s", "rate": "5 Mbit/s"}, repeat="2 s"))
    assert [*found] == [0, 1000]
    assert [line.split()[1] for line in found[0]] == ["change"] * 6


def test_each_netem_that_is_changed_has_a_seed_of_its_own() -> None:
    found = topology({"at": "1 s", "loss": "2 %"}, {"at": "2 s", "loss": "1 %"}, link={**LINK, "loss": "1 %", "seed": 7})
    seeds = [line.split("seed ")[1] for lines in changes(found).values() for line in lines]
    assert len({*seeds, "7", "8"}) == 6


def test_a_limit_is_held_against_the_worst_state() -> None:
    found = topology({"at": "1 s", "rate": "5 Mbit/s"}, {"at": "2 s", "rate": "50 Mbit/s"})
    assert found.schedule is not None
    slow = found.schedule.states(found.link)[1].link.direction("down")
    assert slowest_goodput_bit_s(found.link, found.schedule, "down") == ideal_goodput_bit_s(slow)
    broken = topology({"at": "1 s", "outage": "1 s"})
    assert broken.schedule is not None
    assert slowest_goodput_bit_s(broken.link, broken.schedule, "down") == 0.0


@pytest.mark.parametrize(
    ("steps", "schedule", "wrong"),
    [
        ([], {}, "at least 1 item"),
        ([{"at": "1 s"}], {}, "a setting to change, or an outage"),
        ([{"at": "1 s", "over": "1 s", "outage": "1 s", "rate": "1 Mbit/s"}], {}, "either `over` or `outage`"),
        ([{"at": "1 s", "over": "1 s", "loss": "1 %"}], {}, "changes `rate` and `rtt` only"),
        ([{"at": "1 s", "outage": "2 s"}, {"at": "2 s", "rate": "1 Mbit/s"}], {}, "before the one at 1 s is complete"),
        ([{"at": "2 s", "rate": "1 Mbit/s"}, {"at": "2 s", "loss": "1 %"}], {}, "before the one at 2 s is complete"),
        ([{"at": "1 s", "rate": "1 Mbit/s"}], {"repeat": "1 s"}, "later than the end of the last step"),
        ([{"at": "1 s", "rate": "10 bit/s"}], {}, "too low"),
        ([{"at": "1 s", "jitter": "1 s"}], {}, "more than the one-way delay"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(steps: list[dict[str, Any]], schedule: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        topology(*steps, **schedule)


@pytest.mark.parametrize("link", [{"rtt": "40 ms"}, {"rtt": "40 ms", "up": {"rate": "1 Mbit/s"}}])
def test_a_schedule_needs_a_rate_in_both_directions(link: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs a link with a rate in both directions"):
        topology({"at": "1 s", "loss": "1 %"}, link=link)


@given(
    times=st.lists(st.integers(1, 10**6), min_size=1, max_size=6, unique=True).map(sorted),
    rates=st.lists(st.integers(1000, 10**10), min_size=6, max_size=6),
    loss=st.integers(0, 50),
)
def test_commands_bring_every_state_about(times: list[int], rates: list[int], loss: int) -> None:
    """Whatever changes: what the commands say, one after the other, is what the state asks for."""
    steps = [{"at": f"{at} us", "rate": f"{rate} bit/s", "loss": f"{loss} %"} for at, rate in zip(times, rates, strict=False)]
    found = topology(*steps)
    assert found.schedule is not None
    held = {"rate": "20000000bit", "loss": "0%"}
    said = {change.at_ns: change.commands for change in plan_changes(found.link, found.schedule, {"down": "eth0"})}
    for state in found.schedule.states(found.link):
        for command in said.get(state.at_ns, ()):
            name = "rate" if "htb" in command else "loss" if "netem" in command else ""
            if name:
                held[name] = command[command.index(name) + 1]
        wanted = plan_state(state, "down")
        assert held == {"rate": f"{wanted.rate.bit_s}bit", "loss": f"{wanted.netem.loss.percent()}%"}
    assert wanted.rate == BitRate(rates[len(times) - 1])


PAYLOAD = 1448 / 1514
"""The part of a frame that is TCP payload."""


def carried(found: Topology, from_s: float, to_s: float) -> float:
    assert found.schedule is not None
    return carried_bytes(found.link, found.schedule, "down", round(from_s * 1e9), round(to_s * 1e9))


def test_a_link_carries_what_its_states_do_and_nothing_in_an_outage() -> None:
    steps = ({"at": "1 s", "rate": "8 Mbit/s"}, {"at": "2 s", "outage": "500 ms"})
    once, again = topology(*steps), topology(*steps, repeat="4 s")
    round_bytes = (2.5e6 + 1e6 + 1.5 * 1e6) * PAYLOAD
    assert carried(once, 0, 4) == pytest.approx(round_bytes)
    assert carried(once, 2.0, 2.5) == 0
    assert carried(once, 4, 6) == pytest.approx(2e6 * PAYLOAD)
    assert carried(again, 0, 8.5) == pytest.approx(2 * round_bytes + 1.25e6 * PAYLOAD)
    assert carried(again, 4.5, 5.0) == pytest.approx(1.25e6 * PAYLOAD)


def test_a_course_says_how_often_the_link_was_as_at_a_time() -> None:
    once = topology({"at": "1 s", "rate": "8 Mbit/s"})
    assert course(None, once.link, 5) == Course(0, 5)
    assert course(once.schedule, once.link, 5_000_000_000) == Course(1_000_000_000, 5_000_000_000)
    again = topology({"at": "1 s", "rate": "8 Mbit/s"}, repeat="4 s")
    assert course(again.schedule, again.link, 5) == Course(0, 4_000_000_000)
    found = Course(10, 4)
    assert [found.visits(at, 20) for at in (0, 9, 10, 11, 12, 13)] == [1, 1, 3, 3, 2, 2]
    assert [found.visits(at, 10) for at in (0, 9, 10)] == [1, 1, 0]
