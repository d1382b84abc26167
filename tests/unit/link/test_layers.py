"""A managed queue: the commands that make it, what of it is read back, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lab.link.layers import LayeredPlan, link_plan
from lab.link.readback import compare
from lab.model.errors import UsageProblem
from lab.model.link import Link

LINE = {"rate": "10 Mbit/s", "rtt": "20 ms"}
NETEM = {"kind": "netem", "root": True}


def layers(queue: object, **more: Any) -> LayeredPlan:
    found = link_plan(Link.model_validate({**LINE, "queue": queue, **more}).direction("up"), Link().rtt, supports_seed=True)
    assert isinstance(found, LayeredPlan)
    return found


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("64 kB", "bfifo limit 64000"),
        ({"kind": "fifo", "limit": "100 packets"}, "pfifo limit 100"),
        ({"kind": "fifo", "limit": "80 ms"}, "bfifo limit 100000"),
        (
            {"kind": "fq_codel", "limit": "1000 packets", "target": "5 ms", "interval": "100 ms", "ecn": True},
            "fq_codel limit 1000 target 5000us interval 100000us ecn",
        ),
        ({"kind": "codel", "limit": "50 packets"}, "codel limit 50 noecn"),
        ({"kind": "pie", "limit": "50 packets", "target": "15 ms"}, "pie limit 50 target 15000us noecn"),
        (
            {"kind": "red", "limit": "300 kB", "least": "30 kB", "most": "90 kB", "probability": "10 %"},
            "red limit 300000 min 30000 max 90000 avpkt 1514 burst 34 probability 0.1 bandwidth 10000000bit",
        ),
        ({"kind": "cake"}, "cake bandwidth 10000000bit besteffort flows raw rtt 100000us"),
        ({"kind": "policer", "burst": "100 kB"}, "tbf rate 10000000bit burst 100000 limit 1514"),
    ],
)
def test_the_queue_of_each_kind(queue: object, expected: str) -> None:
    found = layers(queue)
    commands = found.setup("eth1")
    assert " ".join(commands[-1]).partition(" handle ")[2].partition(" ")[2] == expected
    assert [words[words.index("handle") + 2] for words in commands if "handle" in words] == ["netem", *found.below]


@pytest.mark.parametrize("kind", ["fifo", "fq_codel", "codel", "pie", "red", "cake", "policer"])
def test_a_queue_is_read_as_it_was_stored(kind: str) -> None:
    link = Link.model_validate({**LINE, "queue": {"kind": kind, **({"burst": "100 kB"} if kind == "policer" else {})}})
    assert Link.model_validate_json(link.model_dump_json()) == link


def test_netem_has_room_for_what_the_queue_holds() -> None:
    small, large = (layers({"kind": "fq_codel", "limit": f"{packets} packets"}) for packets in (10, 10_000))
    assert large.netem.limit_packets - small.netem.limit_packets == 9_990


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([("htb", {}), ("fq_codel", {"limit": 1000, "target": 4999, "ecn": True})], []),
        ([("htb", {}), ("fq_codel", {"limit": 1000, "target": 9999, "ecn": True})], ["target of fq_codel is 9999, not 5000"]),
        ([("htb", {}), ("fq_codel", {"limit": 1000, "target": 4999})], ["ecn of fq_codel is False, not True"]),
        ([("htb", {}), ("pfifo", {"limit": 1000})], ["below netem is htb > pfifo, not htb > fq_codel"]),
        ([], ["below netem is nothing, not htb > fq_codel"]),
    ],
)
def test_what_the_kernel_holds_below_netem(held: list[tuple[str, dict[str, Any]]], expected: list[str]) -> None:
    plan = layers({"kind": "fq_codel", "limit": "1000 packets", "target": "5 ms", "ecn": True})
    options = {"limit": plan.netem.limit_packets, "delay": {"delay": 0.01}, "rate": {"rate": 12_500_000_000}}
    below = [{"kind": kind, "parent": "1:1", "options": found} for kind, found in held]
    assert compare(plan, [{**NETEM, "options": options}, *below]) == expected


def test_thresholds_of_red_that_do_not_rise_are_refused() -> None:
    with pytest.raises(UsageProblem, match="must rise"):
        layers({"kind": "red", "limit": "100 packets", "least": "90 packets", "most": "30 packets"})


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ({"rtt": "2 ms", "queue": {"kind": "cake"}}, "queue cake needs a rate"),
        ({**LINE, "queue": {"kind": "cake", "target": "5 ms"}}, "cake has no `target`"),
        ({**LINE, "queue": {"kind": "policer"}}, "needs a `burst`"),
        ({**LINE, "queue": {"kind": "policer", "burst": "1 kB"}}, "needs a `burst` of at least a full-sized frame"),
        ({"loss": {"model": "gilbert-elliott", "p": "0 %", "r": "25 %"}}, "needs p and r above 0 %"),
        ({"loss": {"model": "state", "p13": "1 %", "p31": "0 %"}}, "a burst must end"),
        ({"loss": {"model": "state", "p13": "1 %", "p31": "80 %", "p32": "30 %"}}, r"p31 \+ p32 must be at most 100 %"),
        ({"loss": {"model": "other"}}, "gilbert-elliott or state"),
    ],
)
def test_a_link_that_cannot_be_is_refused(link: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Link.model_validate(link)


def test_what_needs_virtual_time_says_so() -> None:
    assert Link.model_validate(LINE).virtual_only == ""
    assert "cake" in Link.model_validate({**LINE, "queue": {"kind": "cake"}}).virtual_only
    assert "pareto" in Link.model_validate({**LINE, "jitter": {"spread": "1 ms", "distribution": "pareto"}}).virtual_only


def test_losses_in_bursts_are_words_of_netem_and_read_back() -> None:
    loss = {"model": "gilbert-elliott", "p": "1 %", "r": "25 %", "bad": "80 %"}
    found = link_plan(Link.model_validate({"loss": loss}).direction("up"), Link().rtt, supports_seed=True)
    assert found is not None
    assert not isinstance(found, LayeredPlan)
    ((*_, last),) = [" ".join(words).partition("netem ")[1:] for words in found.commands("eth1", "change")]
    assert "loss gemodel 1% 25% 80% 0% reorder 0%" in last
    printed: dict[str, Any] = {"limit": found.limit_packets, "loss-gemodel": {"p": 0.01, "r": 0.25, "1-h": 0.8, "1-k": 0}}
    assert compare(found, [{**NETEM, "options": printed}]) == []
    printed["loss-gemodel"]["r"] = 0.2
    assert compare(found, [{**NETEM, "options": printed}]) == ["r of the loss model is 20 %, not 25 %"]
