"""What tc says of a port against what was planned. Pure: takes the parsed output of `tc -s -j qdisc`.

JSON keys and units as iproute2 6.1 to 6.15 print them (tc/q_netem.c): seconds, fractions, and *bytes* per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lab.link.plan import NETEM_DEFAULT_LIMIT, QdiscPlan

Qdisc = Mapping[str, Any]

# What a port has when nobody shapes it; anything else would delay or drop.
PLAIN_KINDS = frozenset({"noqueue", "pfifo_fast", "pfifo", "mq", "fq_codel"})
# netem holds probabilities in 32 bits and tc prints them through a float; times are exact to the nanosecond but for that print.
_SHARE_TOLERANCE = 1e-6
_TIME_TOLERANCE_S = 2e-6


def compare(plan: QdiscPlan | None, qdiscs: Sequence[Qdisc]) -> list[str]:
    """Every difference in words; empty when the port holds exactly the plan."""
    roots = [qdisc for qdisc in qdiscs if qdisc.get("root", True)]
    if plan is None:
        return [
            f"{qdisc.get('kind')} is on a port that should be plain" for qdisc in roots if qdisc.get("kind") not in PLAIN_KINDS
        ]
    if len(roots) != 1 or roots[0].get("kind") != "netem":
        kinds = ", ".join(str(qdisc.get("kind")) for qdisc in roots) or "nothing"
        return [f"netem is not there (found {kinds})"]
    return _compare_netem(plan, roots[0].get("options", {}))


def _compare_netem(plan: QdiscPlan, options: Mapping[str, Any]) -> list[str]:
    found_limit = options.get("limit")
    problems = []
    if found_limit != plan.limit_packets:
        origin = ", netem's own default" if found_limit == NETEM_DEFAULT_LIMIT else ""
        problems.append(f"limit is {found_limit} packets{origin}, not {plan.limit_packets}")
    delay = options.get("delay", {})
    for name, wanted in (("delay", plan.delay), ("jitter", plan.jitter)):
        found_s = float(delay.get(name, 0.0))
        if not math.isclose(found_s, wanted.s, abs_tol=_TIME_TOLERANCE_S, rel_tol=1e-6):
            problems.append(f"{name} is {found_s * 1e3:g} ms, not {wanted}")
    found_rate = int(options.get("rate", {}).get("rate", 0)) * 8
    wanted_rate = plan.rate.bit_s if plan.rate else 0
    # Held in whole bytes per second.
    if abs(found_rate - wanted_rate) > 8:
        problems.append(f"rate is {found_rate} bit/s, not {wanted_rate}")
    for name, keys, share in (
        ("loss", ("loss-random", "loss"), plan.loss),
        ("reorder", ("reorder", "reorder"), plan.reorder),
        ("corrupt", ("corrupt", "corrupt"), plan.corrupt),
        ("duplicate", ("duplicate", "duplicate"), plan.duplicate),
    ):
        found = float(options.get(keys[0], {}).get(keys[1], 0.0))
        if abs(found - float(share.value)) > _SHARE_TOLERANCE:
            problems.append(f"{name} is {found:.4%}, not {float(share.value):.4%}")
    if plan.seed is not None and options.get("seed") != plan.seed:
        problems.append(f"seed is {options.get('seed')}, not {plan.seed}")
    return problems


def drops(qdiscs: Sequence[Qdisc]) -> int:
    """Packets dropped at the root: random loss and overflow together, as the kernel counts them."""
    return sum(int(qdisc.get("drops", 0)) for qdisc in qdiscs if qdisc.get("root", True))


def backlog(qdiscs: Sequence[Qdisc]) -> tuple[int, int]:
    """(bytes, packets) held at the root now: on their way and queued."""
    roots = [qdisc for qdisc in qdiscs if qdisc.get("root", True)]
    return sum(int(qdisc.get("backlog", 0)) for qdisc in roots), sum(int(qdisc.get("qlen", 0)) for qdisc in roots)
