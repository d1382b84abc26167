"""The comparison of a plan with what the kernel holds.

tc-6.15.json is what tc 6.15 printed inside the UML router (kernel 6.12), keyed by the netem command before it; from the `slot`
sample a leftover reorder, corrupt and rate were taken out, and `tbf` is from tc 6.1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.link.plan import QdiscPlan
from lab.link.readback import backlog, compare, drops
from lab.model.units import BitRate, Duration, Ratio

SAMPLES: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("tc-6.15.json").read_text(encoding="utf-8"))
NOTHING: dict[str, Any] = {
    "limit_packets": 137,
    "delay": Duration(0),
    "jitter": Duration(0),
    "rate": None,
    "loss": Ratio(0),
    "reorder": Ratio(0),
    "corrupt": Ratio(0),
    "duplicate": Ratio(0),
    "seed": None,
}


def planned(**fields: Any) -> QdiscPlan:
    return QdiscPlan(**(NOTHING | fields))


SIMPLE = planned(delay=Duration.parse("10 ms"), rate=BitRate.parse("50 Mbit/s"), loss=Ratio(0.01), seed=42)
EVERYTHING = planned(
    delay=Duration.parse("10 ms"),
    jitter=Duration.parse("2 ms"),
    rate=BitRate.parse("50 Mbit/s"),
    loss=Ratio(0.001),
    reorder=Ratio(0.01),
    corrupt=Ratio(0.005),
    duplicate=Ratio(0.0025),
)


@pytest.mark.parametrize(
    ("command", "plan"),
    [
        ("limit 137 delay 10ms rate 50mbit loss 1% seed 42", SIMPLE),
        ("limit 137 delay 10ms 2ms rate 50mbit reorder 1% corrupt 0.5% duplicate 0.25% loss 0.1%", EVERYTHING),
        (
            "limit 137 delay 10000300ns 1234567ns rate 1234567bit",
            planned(delay=Duration(10_000_300), jitter=Duration(1_234_567), rate=BitRate(1_234_567)),
        ),
        ("limit 1000 delay 0ns loss 0.0001% seed 0", planned(limit_packets=1000, loss=Ratio(0.000001), seed=0)),
        (
            "limit 1000 rate 100000000000bit delay 300ms",
            planned(limit_packets=1000, delay=Duration.parse("300 ms"), rate=BitRate(10**11)),
        ),
    ],
)
def test_what_tc_prints_of_a_plan_is_that_plan(command: str, plan: QdiscPlan) -> None:
    assert compare(plan, SAMPLES[command]) == []


@pytest.mark.parametrize(
    ("asked", "printed_s", "is_it"),
    [
        ("18500 us", 0.018499, True),  # 6.1: 289062 ticks of 64 ns, integer microseconds of which are printed
        ("18500 us", 0.0185, True),
        ("18500 us", 0.018498, False),
        ("18500 us", 0.018501, False),
        ("10 ms", 0.009999, False),
    ],
)
def test_a_delay_as_older_tc_prints_it(asked: str, printed_s: float, is_it: bool) -> None:
    held = {"kind": "netem", "root": True, "options": {"limit": 137, "delay": {"delay": printed_s}}}
    assert (compare(planned(delay=Duration.parse(asked)), [held]) == []) is is_it


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"limit_packets": 138}, ["limit is 137 packets, not 138"]),
        ({"delay": Duration.parse("11 ms")}, ["delay is 10 ms, not 11 ms"]),
        ({"delay": Duration.parse("10002 us")}, ["delay is 10 ms, not 10002 us"]),
        ({"jitter": Duration.parse("1 ms")}, ["jitter is 0 ms, not 1 ms"]),
        ({"rate": BitRate.parse("20 Mbit/s")}, ["rate is 50000000 bit/s, not 20000000 bit/s"]),
        ({"rate": BitRate(50_000_008)}, ["rate is 50000000 bit/s, not 50000008 bit/s"]),
        ({"rate": None}, ["rate is 50000000 bit/s, not unlimited"]),
        ({"loss": Ratio(0.02)}, ["loss is 1 %, not 2 %"]),
        ({"loss": Ratio(0.01001)}, ["loss is 1 %, not 1.001 %"]),
        ({"reorder": Ratio(0.01)}, ["reorder is 0 %, not 1 %"]),
        ({"corrupt": Ratio(0.01)}, ["corrupt is 0 %, not 1 %"]),
        ({"duplicate": Ratio(0.01)}, ["duplicate is 0 %, not 1 %"]),
        ({"seed": 43}, ["seed is 42, not 43"]),
        ({"seed": None}, []),
        ({"limit_packets": 1, "seed": 1}, ["limit is 137 packets, not 1", "seed is 42, not 1"]),
    ],
)
def test_every_difference_is_named(change: dict[str, Any], expected: list[str]) -> None:
    other = QdiscPlan(**(vars(SIMPLE) | change))
    assert compare(other, SAMPLES["limit 137 delay 10ms rate 50mbit loss 1% seed 42"]) == expected


def test_a_default_queue_is_called_by_its_name() -> None:
    assert compare(planned(delay=Duration.parse("10 ms")), SAMPLES["delay 10ms"]) == [
        "limit is 1000 packets, netem's own default, not 137"
    ]


def test_what_a_change_left_behind_is_found() -> None:
    """A `change` that does not name reorder and corrupt: the kernel keeps them."""
    asked = planned(delay=Duration.parse("10 ms"), rate=BitRate.parse("50 Mbit/s"))
    assert compare(asked, SAMPLES["change: limit 137 delay 10ms rate 50mbit, after reorder and corrupt"]) == [
        "reorder is 1 %, not 0 %",
        "corrupt is 0.5 %, not 0 %",
    ]


def test_what_the_lab_never_asks_for_is_found() -> None:
    found = compare(planned(delay=Duration.parse("10 ms")), SAMPLES["limit 137 delay 10ms slot 1ms 2ms ecn loss gemodel 1% 10%"])
    assert found == [f"{name} is set, which was not asked" for name in ("slot", "ecn", "loss-gemodel")]


@pytest.mark.parametrize(
    ("group", "value", "expected"),
    [
        ("delay", {"delay": 0.01, "jitter": 0.002, "correlation": 0.25}, "delay is correlated"),
        ("loss-random", {"loss": 0.001, "correlation": 0.25}, "loss-random is correlated"),
        ("rate", {"rate": 6250000, "packetoverhead": -14}, "rate has a packetoverhead of -14"),
        ("gap", 5, "gap is 5"),
    ],
)
def test_an_unplanned_variation_is_found(group: str, value: object, expected: str) -> None:
    (qdisc,) = SAMPLES["limit 137 delay 10ms 2ms rate 50mbit reorder 1% corrupt 0.5% duplicate 0.25% loss 0.1%"]
    changed = qdisc | {"options": qdisc["options"] | {group: value}}
    assert compare(EVERYTHING, [changed]) == [f"{expected}, which was not asked"]


def test_a_port_without_a_plan_must_be_plain() -> None:
    assert compare(None, SAMPLES["noqueue"]) == []
    assert compare(None, []) == []
    assert compare(None, SAMPLES["pfifo_fast"]) == []
    assert compare(None, SAMPLES["tbf"]) == ["tbf is on a port that should be plain"]
    assert compare(None, SAMPLES["delay 10ms"]) == ["netem is on a port that should be plain"]
    below: list[dict[str, Any]] = [{"kind": "mq", "root": True}, {"kind": "netem", "parent": "1:1"}]
    assert compare(None, below) == ["netem is on a port that should be plain"]


def test_a_plan_needs_exactly_one_netem_and_nothing_below_it() -> None:
    assert compare(SIMPLE, []) == ["netem is not there (found nothing)"]
    assert compare(SIMPLE, SAMPLES["tbf"]) == ["netem is not there (found tbf)"]
    held = SAMPLES["limit 137 delay 10ms rate 50mbit loss 1% seed 42"]
    below: dict[str, Any] = {"kind": "tbf", "parent": "8001:1"}
    assert compare(SIMPLE, [*held, below]) == ["tbf sits below netem"]


def test_counts_are_those_of_the_root() -> None:
    root = {"kind": "mq", "root": True, "drops": 3, "backlog": 3028, "qlen": 2}
    child = {"kind": "pfifo", "parent": ":1", "drops": 3, "backlog": 3028, "qlen": 2}
    assert drops([root, child]) == 3
    assert backlog([root, child]) == (3028, 2)
    assert (drops([]), backlog([])) == (0, (0, 0))


@given(
    st.builds(
        QdiscPlan,
        limit_packets=st.integers(1, 10**6),
        delay=st.builds(Duration, st.integers(1, 60 * 10**9)),
        jitter=st.builds(Duration, st.integers(0, 10**9)),
        rate=st.none() | st.builds(BitRate, st.integers(1000, 10**11)),
        loss=st.builds(Ratio, st.floats(0, 0.99)),
        reorder=st.builds(Ratio, st.floats(0, 0.99)),
        corrupt=st.builds(Ratio, st.floats(0, 0.99)),
        duplicate=st.builds(Ratio, st.floats(0, 0.99)),
        seed=st.none() | st.integers(0, 2**32),
    )
)
def test_any_plan_printed_as_tc_prints_it_compares_equal(plan: QdiscPlan) -> None:
    assert compare(plan, json.loads(json.dumps([_as_tc_prints(plan)]))) == []


def _as_tc_prints(plan: QdiscPlan) -> dict[str, Any]:
    """tc's rounding: "%g", probabilities in steps of 2^-32, integer bytes per second, groups left out when they are nothing."""

    def g(value: float) -> float:
        return float(f"{value:g}")

    def share(ratio: Ratio) -> float:
        return g(round(ratio.value * (2**32 - 1)) / (2**32 - 1))

    options: dict[str, Any] = {
        "limit": plan.limit_packets,
        "delay": {"delay": g(plan.delay.s), "jitter": g(plan.jitter.s), "correlation": 0},
    }
    for group, name, ratio in (
        ("loss-random", "loss", plan.loss),
        ("reorder", "reorder", plan.reorder),
        ("corrupt", "corrupt", plan.corrupt),
        ("duplicate", "duplicate", plan.duplicate),
    ):
        if share(ratio):
            options[group] = {name: share(ratio), "correlation": 0}
    if plan.rate:
        options["rate"] = {"rate": plan.rate.bit_s // 8, "packetoverhead": 0, "cellsize": 0, "celloverhead": 0}
    options |= {"seed": 4711 if plan.seed is None else plan.seed, "ecn": False, "gap": int(plan.reorder.value > 0)}
    return {"kind": "netem", "root": True, "options": options, "drops": 0}
