"""From a direction to a netem: golden commands, and what holds for every link."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.link.plan import LEAST_QUEUE_PACKETS, QdiscPlan, Verb, plan
from lab.link.theory import bdp_packets
from lab.model.errors import UsageProblem
from lab.model.link import Link, LinkDirection
from lab.model.units import BitRate, Duration, Ratio


def planned(name: str = "down", *, supports_seed: bool = True, own_delay: str = "0", **fields: Any) -> QdiscPlan | None:
    link = Link.model_validate(fields)
    direction = link.direction("up" if name == "up" else "down")
    return plan(direction, link.rtt, supports_seed=supports_seed, own_delay=Duration.parse(own_delay))


def certain(**fields: Any) -> QdiscPlan:
    found = planned(**fields)
    assert found is not None
    return found


def command(found: QdiscPlan, verb: Verb) -> str:
    (only,) = found.commands("eth1", verb)
    return " ".join(only)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # 20 Mbit/s x 15 ms = 25 frames on their way, x 30 ms = 50 queued.
        ({"rate": "20 Mbit/s", "rtt": "30 ms"}, "limit 75 delay 15000us rate 20000000bit"),
        ({"rate": "50 Mbit/s", "rtt": "20 ms"}, "limit 125 delay 10000us rate 50000000bit"),
        ({"rate": "1 Gbit/s", "rtt": "100 ms"}, "limit 12386 delay 50000us rate 1000000000bit"),
        ({"rate": "50 Mbit/s", "rtt": "50 ms", "queue": "100 packets"}, "limit 204 delay 25000us rate 50000000bit"),
        ({"rate": "20 Mbit/s", "rtt": "30 ms", "queue": "40 ms"}, "limit 92 delay 15000us rate 20000000bit"),
        ({"rate": "20 Mbit/s", "rtt": "30 ms", "queue": "2 BDP"}, "limit 125 delay 15000us rate 20000000bit"),
        ({"rate": "20 Mbit/s"}, "limit 32 rate 20000000bit"),
        ({"rate": "20 Mbit/s", "queue": "5 packets"}, "limit 5 rate 20000000bit"),
        ({"rtt": "2001 ns", "rate": "1 Gbit/s"}, "limit 33 delay 1.0011us rate 1000000000bit"),
        ({"loss": "0.1 %", "seed": 7}, "limit 32 loss 0.1% seed 7"),
        # Unlimited: sized for 1 Gbit/s.
        ({"rtt": "10 ms", "loss": "1 %"}, "limit 1239 delay 5000us loss 1%"),
        (
            {
                "rate": "50 Mbit/s",
                "rtt": "20 ms",
                "jitter": "2 ms",
                "loss": "1 %",
                "reorder": "0.5 %",
                "corrupt": "0.00001 %",
                "duplicate": "0.25 %",
                "seed": 42,
            },
            # 12 ms on their way: the longest delay a packet may draw.
            "limit 133 delay 10000us 2000us loss 1% reorder 0.5% corrupt 0.00001% duplicate 0.25% rate 50000000bit seed 42",
        ),
    ],
)
def test_the_command_for_a_new_qdisc(fields: dict[str, Any], expected: str) -> None:
    assert command(certain(**fields), "add") == f"tc qdisc add dev eth1 root netem {expected}"


@pytest.mark.parametrize("verb", ["change", "replace"])
def test_altering_in_place_names_everything_because_the_kernel_keeps_what_is_not_named(verb: Verb) -> None:
    assert command(certain(rate="20 Mbit/s", rtt="30 ms"), verb) == (
        f"tc qdisc {verb} dev eth1 root netem limit 75 delay 15000us loss 0% reorder 0% corrupt 0% duplicate 0% rate 20000000bit"
    )
    assert command(certain(loss="1 %", seed=3), verb) == (
        f"tc qdisc {verb} dev eth1 root netem limit 32 delay 0us loss 1% reorder 0% corrupt 0% duplicate 0% rate 0bit seed 3"
    )


@pytest.mark.parametrize(
    ("fields", "own_delay", "expected"),
    [
        # 13.92 ms = 23 frames on their way in netem; what is queued is one BDP of the complete link's 30 ms, as without.
        ({"rate": "20 Mbit/s", "rtt": "30 ms"}, "1080 us", "limit 73 delay 13920us rate 20000000bit"),
        ({"rate": "20 Mbit/s", "rtt": "30 ms", "queue": "40 ms"}, "1080 us", "limit 90 delay 13920us rate 20000000bit"),
        ({"rate": "20 Mbit/s", "rtt": "30 ms", "queue": "9 packets"}, "1080 us", "limit 32 delay 13920us rate 20000000bit"),
        # All of the delay, and more than there is: none of netem's, nothing on its way in it.
        ({"rate": "20 Mbit/s", "rtt": "30 ms"}, "15 ms", "limit 50 rate 20000000bit"),
        ({"rate": "20 Mbit/s", "rtt": "30 ms"}, "1 s", "limit 50 rate 20000000bit"),
        ({"rate": "20 Mbit/s"}, "1 ms", "limit 32 rate 20000000bit"),
        ({"rtt": "2 ms"}, "1 ms", "limit 166"),
        # Jitter is symmetric: with less delay than that its shorter half would be cut.
        ({"rate": "20 Mbit/s", "rtt": "30 ms", "jitter": "14 ms"}, "2 ms", "limit 97 delay 14000us 14000us rate 20000000bit"),
    ],
)
def test_the_hosts_own_delay_is_not_added_again(fields: dict[str, Any], own_delay: str, expected: str) -> None:
    assert command(certain(own_delay=own_delay, **fields), "add") == f"tc qdisc add dev eth1 root netem {expected}"


@given(
    rate=st.none() | st.integers(1000, 10**10),
    delay_ns=st.integers(1, 10**9),
    jitter=st.floats(0, 1),
    own_ns=st.integers(0, 2 * 10**9),
)
def test_own_delay_and_netems_are_the_delay_that_was_asked(rate: int | None, delay_ns: int, jitter: float, own_ns: int) -> None:
    direction = LinkDirection(
        rate=BitRate(rate) if rate else None, delay=Duration(delay_ns), jitter=Duration(int(jitter * delay_ns))
    )
    rtt, own_delay = Duration(2 * delay_ns), Duration(own_ns)
    whole, rest = plan(direction, rtt, supports_seed=True), plan(direction, rtt, supports_seed=True, own_delay=own_delay)
    assert whole is not None
    assert rest is not None
    assert direction.jitter.ns <= rest.delay.ns <= delay_ns
    if own_ns <= delay_ns - direction.jitter.ns:
        assert rest.delay.ns + own_ns == delay_ns
    else:
        assert rest.delay == direction.jitter
    # The limit is less by the packets that are now on their way elsewhere, and its queue is the same.
    line = [bdp_packets(BitRate(rate or 10**9), Duration(each.delay.ns + each.jitter.ns), 1500) for each in (whole, rest)]
    assert whole.limit_packets - rest.limit_packets == line[0] - line[1] >= 0
    same = ("jitter", "rate", "loss", "reorder", "corrupt", "duplicate", "seed")
    assert [getattr(rest, name) for name in same] == [getattr(whole, name) for name in same]


def test_an_unshaped_direction_has_no_qdisc() -> None:
    assert planned(queue="100 packets", mtu=1400, seed=5, supports_seed=False) is None
    assert planned("down", up={"rate": "1 Mbit/s"}) is None
    assert planned(own_delay="1 ms") is None
    assert planned("up", up={"rate": "1 Mbit/s"}) is not None


def test_both_directions_get_their_own_seed() -> None:
    seeds = [getattr(planned(name, loss="1 %", seed=7), "seed", None) for name in ("down", "up")]
    assert seeds == [7, 8]


def test_a_seed_no_router_can_keep_is_refused_with_a_remedy() -> None:
    with pytest.raises(UsageProblem, match="seed") as caught:
        planned(loss="1 %", seed=7, supports_seed=False)
    assert "uml" in caught.value.remedy
    assert planned(loss="1 %", supports_seed=False) is not None


@given(
    rate=st.none() | st.integers(1000, 10**10),
    delay_ns=st.integers(0, 10**9),
    share=st.floats(0, 0.99),
    seed=st.none() | st.integers(0, 2**32 - 2),
    verb=st.sampled_from(["add", "change", "replace"]),
)
def test_every_plan_holds_its_delay_line_and_says_all_that_was_asked(
    rate: int | None, delay_ns: int, share: float, seed: int | None, verb: Verb
) -> None:
    direction = LinkDirection(
        rate=BitRate(rate) if rate else None, delay=Duration(delay_ns), loss=Ratio(share), duplicate=Ratio(share), seed=seed
    )
    rtt = Duration(2 * delay_ns)
    found = plan(direction, rtt, supports_seed=True)
    assert (found is None) == (not direction.shaped)
    if found is None:
        return
    line = bdp_packets(BitRate(rate or 10**9), Duration(delay_ns), 1500)
    bdp = bdp_packets(BitRate(rate or 10**9), rtt, 1500)
    assert found.limit_packets == line + max(LEAST_QUEUE_PACKETS, bdp)
    (words,) = found.commands("dev0", verb)
    assert words[:7] == ("tc", "qdisc", verb, "dev", "dev0", "root", "netem")
    options = dict(zip(words[7::2], words[8::2], strict=True))
    assert options["limit"] == str(found.limit_packets)
    assert options.get("rate", "0bit") == f"{rate or 0}bit"
    # As tc reads it: a fraction of a nanosecond is cut off.
    assert int(float(options.get("delay", "0us").removesuffix("us")) * 1000) == delay_ns
    for name in ("loss", "duplicate"):
        assert Ratio.parse(options.get(name, "0")) == Ratio(share)
    assert options.get("seed") == (None if seed is None else str(seed))
