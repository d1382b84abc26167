"""The qdiscs of a port, as tc prints them, against the plan. Pure: takes the parsed output of `tc -s -j qdisc`.

JSON keys and units as iproute2 6.1 to 6.15 print them (tc/q_netem.c): seconds, fractions, and *bytes* per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lab.link.layers import LayeredPlan, QueuePlan
from lab.link.plan import NETEM_DEFAULT_LIMIT, QdiscPlan
from lab.model.units import Duration, Ratio

Qdisc = Mapping[str, Any]

# The qdiscs of an unshaped port; any other would delay or drop.
PLAIN_KINDS = frozenset({"noqueue", "pfifo_fast", "pfifo", "mq", "fq_codel"})
# tc prints numbers with six significant digits ("%g"), and netem holds a probability in 32 bits.
_PRINT_TOLERANCE = 6e-6
_SHARE_STEP = 2.0**-32
# Older tc hands times over in ticks of 64 ns (/proc/net/psched).
_TICK_NS = 64
_TIME_STEP_S = _TICK_NS * 1e-9
# The lab never asks for these; with any of them the link would differ from its plan.
_NEVER_ASKED = ("slot", "ecn")
_LOSS_MODELS = ("gemodel", "state")
_IMPAIRMENTS = (("loss-random", "loss"), ("reorder", "reorder"), ("corrupt", "corrupt"), ("duplicate", "duplicate"))
_OVERHEADS = ("packetoverhead", "cellsize", "celloverhead")


def compare(plan: QdiscPlan | LayeredPlan | None, qdiscs: Sequence[Qdisc]) -> list[str]:
    """Every difference in words; empty when the port holds exactly the plan. `qdiscs` are all of one port, children too."""
    if plan is None:
        found = [str(qdisc.get("kind")) for qdisc in qdiscs]
        return [f"{kind} is on a port that should be plain" for kind in found if kind not in PLAIN_KINDS]
    roots = [qdisc for qdisc in qdiscs if _is_root(qdisc)]
    if len(roots) != 1 or roots[0].get("kind") != "netem":
        kinds = ", ".join(str(qdisc.get("kind")) for qdisc in roots) or "nothing"
        return [f"netem is not there (found {kinds})"]
    below = [qdisc for qdisc in qdiscs if not _is_root(qdisc)]
    if isinstance(plan, LayeredPlan):
        return _compare_netem(plan.netem, roots[0].get("options", {})) + _compare_layers(plan, below)
    extra = [f"{qdisc.get('kind')} sits below netem" for qdisc in below]
    return _compare_netem(plan, roots[0].get("options", {})) + extra


def _compare_layers(plan: LayeredPlan, below: Sequence[Qdisc]) -> list[str]:
    """The qdiscs below netem. tc prints neither the rate of an htb among them nor the probability of a red."""
    wanted, found = plan.below, tuple(str(qdisc.get("kind")) for qdisc in below)
    if found != wanted:
        return [f"below netem is {' > '.join(found) or 'nothing'}, not {' > '.join(wanted)}"]
    return compare_options(plan.queue, below[-1].get("options", {}))


def compare_options(queue: QueuePlan, options: Mapping[str, Any]) -> list[str]:
    """The options of a queue as tc prints them."""
    problems = []
    for name, value in queue.options:
        # A switch that is off is not printed.
        held = options.get(name, False if isinstance(value, bool) else None)
        # Times come back a microsecond short, cut to ticks of 64 ns.
        allowed = 1 if name in ("target", "interval") else 0
        if not isinstance(held, int) or abs(held - value) > allowed:
            problems.append(f"{name} of {queue.kind} is {held}, not {value}")
    return problems


def drops(qdiscs: Sequence[Qdisc]) -> int:
    """Packets dropped at the root: random loss and overflow together, as the kernel counts them."""
    return sum(int(qdisc.get("drops", 0)) for qdisc in qdiscs if _is_root(qdisc))


def backlog(qdiscs: Sequence[Qdisc]) -> tuple[int, int]:
    """(bytes, packets) held at the root now: on their way and queued."""
    roots = [qdisc for qdisc in qdiscs if _is_root(qdisc)]
    return sum(int(qdisc.get("backlog", 0)) for qdisc in roots), sum(int(qdisc.get("qlen", 0)) for qdisc in roots)


def _is_root(qdisc: Qdisc) -> bool:
    """tc says `root: true` or names the parent."""
    return bool(qdisc.get("root", "parent" not in qdisc))


def _compare_netem(plan: QdiscPlan, options: Mapping[str, Any]) -> list[str]:
    problems = []
    found_limit = options.get("limit")
    if found_limit != plan.limit_packets:
        origin = ", netem's own default" if found_limit == NETEM_DEFAULT_LIMIT else ""
        problems.append(f"limit is {found_limit} packets{origin}, not {plan.limit_packets}")
    delay = options.get("delay", {})
    for name, wanted in (("delay", plan.delay), ("jitter", plan.jitter)):
        found_s = float(delay.get(name, 0.0))
        printed = (wanted.s, _as_older_tc_prints(wanted))
        if not any(math.isclose(found_s, each, abs_tol=_TIME_STEP_S, rel_tol=_PRINT_TOLERANCE) for each in printed):
            problems.append(f"{name} is {found_s * 1e3:g} ms, not {wanted}")
    problems += _compare_rate(plan, options.get("rate", {}))
    random = Ratio(0) if plan.bursts else plan.loss
    for (group, name), share in zip(_IMPAIRMENTS, (random, plan.reorder, plan.corrupt, plan.duplicate), strict=True):
        found = float(options.get(group, {}).get(name, 0.0))
        if not math.isclose(found, share.value, abs_tol=_SHARE_STEP, rel_tol=_PRINT_TOLERANCE):
            problems.append(f"{name} is {found * 100:.6g} %, not {share}")
    if plan.seed is not None and options.get("seed") != plan.seed:
        problems.append(f"seed is {options.get('seed')}, not {plan.seed}")
    groups = ("delay", *(group for group, _ in _IMPAIRMENTS))
    problems += [f"{group} is correlated, which was not asked" for group in groups if options.get(group, {}).get("correlation")]
    problems += [f"{name} is set, which was not asked" for name in _NEVER_ASKED if options.get(name)]
    problems += _compare_loss_model(plan, options)
    # tc sets a gap of 1 with every reorder; any other makes reordering regular instead of random.
    if options.get("gap", 0) not in ((0, 1) if plan.reorder.value > 0 else (0,)):
        problems.append(f"gap is {options['gap']}, which was not asked")
    return problems


def _compare_loss_model(plan: QdiscPlan, options: Mapping[str, Any]) -> list[str]:
    """tc prints each model under a name of its own. A model that loses nothing is printed too."""
    problems = []
    for name in _LOSS_MODELS:
        held = options.get(f"loss-{name}")
        if plan.bursts is None or plan.bursts.name != name:
            problems += [f"loss-{name} is set, which was not asked"] if held else []
            continue
        for key, share in plan.bursts.probabilities:
            found = float((held or {}).get(key, math.nan))
            if not math.isclose(found, share.value, abs_tol=_SHARE_STEP, rel_tol=_PRINT_TOLERANCE):
                problems.append(f"{key} of the loss model is {found * 100:.6g} %, not {share}")
    return problems


def _as_older_tc_prints(wanted: Duration) -> float:
    """Seconds: it cuts a time to ticks on the way to the kernel, and to microseconds on the way back (18.5 ms: 18.499 ms)."""
    ticks = wanted.ns // 1000 * 1000 // _TICK_NS
    return ticks * _TICK_NS // 1000 / 1e6


def _compare_rate(plan: QdiscPlan, found: Mapping[str, Any]) -> list[str]:
    """netem holds integer bytes per second; tc rounds bits down to them."""
    wanted_byte_s = plan.rate.bit_s // 8 if plan.rate else 0
    found_byte_s = int(found.get("rate", 0))
    problems = [f"rate has a {name} of {found[name]}, which was not asked" for name in _OVERHEADS if found.get(name)]
    if found_byte_s != wanted_byte_s:
        wanted = f"{plan.rate.bit_s} bit/s" if plan.rate else "unlimited"
        problems.append(f"rate is {f'{found_byte_s * 8} bit/s' if found_byte_s else 'unlimited'}, not {wanted}")
    return problems
