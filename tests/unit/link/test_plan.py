"""From a direction to a netem: golden commands, and what holds for every link."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import UsageProblem
from lab.link.plan import LEAST_QUEUE_PACKETS, QdiscPlan, Verb, plan
from lab.link.theory import bdp_packets
from lab.spec.models import Link, LinkDirection
from lab.spec.units import BitRate, Duration, Ratio


def planned(name: str = "down", *, supports_seed: bool = True, **fields: Any) -> QdiscPlan | None:
    link = Link.model_validate(fields)
    return plan(link.direction("up" if name == "up" else "down"), link.rtt, supports_seed=supports_seed)


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
        ({"rtt": "2001 ns", "rate": "1 Gbit/s"}, "limit 33 delay 1001ns rate 1000000000bit"),
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


def test_an_unshaped_direction_has_no_qdisc() -> None:
    assert planned(queue="100 packets", mtu=1400, seed=5, supports_seed=False) is None
    assert planned("down", up={"rate": "1 Mbit/s"}) is None
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
    assert Duration.parse(options.get("delay", "0")) == Duration(delay_ns)
    for name in ("loss", "duplicate"):
        assert Ratio.parse(options.get(name, "0")) == Ratio(share)
    assert options.get("seed") == (None if seed is None else str(seed))
