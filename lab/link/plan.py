"""Link -> tc commands. Pure: nothing is run here.

One netem per egress does it all: in sch_netem.c a packet is due at max(now + delay, the last one's time) + size / rate, so
propagation comes first and then serialisation, and the packets on their way and those queued share one `limit`. Hence
limit = rate x (one-way delay + jitter) + queue: a packet that draws the longest delay holds up all behind it.
Consequences to know: with a rate, jitter cannot reorder; `reorder`ed packets skip both delay and rate; `duplicate` must never
meet a second netem on the same device, which some kernels refuse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from lab.link.theory import bdp_packets, frame_bytes
from lab.model.errors import UsageProblem
from lab.model.units import BitRate, Duration, Ratio

if TYPE_CHECKING:
    from lab.model.impairments import Distribution, Loss
    from lab.model.link import LinkDirection

Verb = Literal["add", "replace", "change"]

# tc/q_netem.c: the queue length that netem takes by default: 600 ms at 20 Mbit/s, and losses at 1 Gbit/s x 100 ms.
NETEM_DEFAULT_LIMIT = 1000
# RFC 6928: a connection starts with ten segments. Three of them at once must fit even where a BDP is a few packets.
LEAST_QUEUE_PACKETS = 32
# The rate of a fast host where nothing limits it: the delay line must hold the packets that such a host sends meanwhile.
UNLIMITED = BitRate(1_000_000_000)
_BIT_NS_PER_BYTE = 8 * 10**9
# tc's tables of a distribution reach four standard deviations (16-bit numbers in units of 1/8192).
_TABLE_REACH = 4
_PER_BDP = 1000  # a queue's multiple of the BDP comes in thousandths


class LossModel(NamedTuple):
    """Losses in bursts, by tc's name of the model and its probabilities, in tc's order and by the names that tc prints."""

    name: str
    probabilities: tuple[tuple[str, Ratio], ...]

    def words(self) -> list[str]:
        return ["loss", self.name, *(f"{share.percent()}%" for _, share in self.probabilities)]


@dataclass(frozen=True)
class QdiscPlan:
    """The netem of one egress, resolved; `limit_packets` counts those on their way and those queued.

    With a `loss_model`, `loss` is its share in the long run; a loss of 100 % overrules the model.
    """

    limit_packets: int
    delay: Duration
    jitter: Duration
    rate: BitRate | None
    loss: Ratio
    reorder: Ratio
    corrupt: Ratio
    duplicate: Ratio
    seed: int | None
    loss_model: LossModel | None = None
    distribution: Distribution = "uniform"

    @property
    def reach_ns(self) -> int:
        """The largest lateness of a packet beyond the delay."""
        return self.jitter.ns * (1 if self.distribution == "uniform" else _TABLE_REACH)

    @property
    def bursts(self) -> LossModel | None:
        """The loss model, unless everything is lost."""
        return self.loss_model if self.loss.value < 1 else None

    def commands(self, device: str, verb: Verb = "replace") -> list[tuple[str, ...]]:
        """tc argument lists. `change` and `replace` alter a netem in place; a seed given again starts its sequence again."""
        # sch_netem.c leaves reorder, corrupt and rate as they were when a change does not name them (seen on 6.12 with tc 6.15),
        # and `replace` of a netem by a netem is a change. A new qdisc has nothing to reset.
        reset = verb != "add"
        words = ["tc", "qdisc", verb, "dev", device, "root", "netem", "limit", str(self.limit_packets)]
        if self.delay.ns or reset:
            words += ["delay", _tc_time(self.delay)]
            if self.jitter.ns:
                words.append(_tc_time(self.jitter))
                # tc without the word leaves the kernel's table as it is, and the kernel begins without one.
                words += [] if self.distribution == "uniform" else ["distribution", self.distribution]
        if self.bursts:
            words += self.bursts.words()
        for name, share in (
            ("loss", Ratio(0) if self.bursts else self.loss),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
            ("duplicate", self.duplicate),
        ):
            if share.value > 0 or (reset and not (name == "loss" and self.bursts)):
                words += [name, f"{share.percent()}%"]
        if self.rate is not None or reset:
            words += ["rate", f"{self.rate.bit_s if self.rate else 0}bit"]
        if self.seed is not None:
            words += ["seed", str(self.seed)]
        return [tuple(words)]


def plan(
    direction: LinkDirection,
    rtt: Duration,
    *,
    supports_seed: bool,
    own_delay: Duration = Duration(0),
) -> QdiscPlan | None:
    """The netem that the router needs for this direction of a link with that round trip; None if it needs none.

    `own_delay` is the delay that a packet has this way without netem. netem adds the rest, and never less than the jitter,
    because it could not draw the shorter half of the jitter otherwise. The queue stays that of the complete round trip.

    Raises UsageProblem when a seed is asked of a router that knows none.
    """
    if not direction.shaped:
        return None
    check_seed(direction.seed, supports_seed=supports_seed)
    rate = direction.rate or UNLIMITED
    delay = Duration(max(direction.jitter.ns, direction.delay.ns - own_delay.ns))
    found = QdiscPlan(
        limit_packets=0,
        delay=delay,
        jitter=Duration(direction.jitter.ns),
        rate=direction.rate,
        loss=Ratio(direction.loss.value),
        reorder=direction.reorder,
        corrupt=direction.corrupt,
        duplicate=direction.duplicate,
        seed=direction.seed,
        loss_model=loss_model(direction.loss),
        distribution=direction.distribution,
    )
    on_the_way = bdp_packets(rate, Duration(delay.ns + found.reach_ns), direction.mtu)
    return replace(found, limit_packets=on_the_way + queue_packets(direction, rate, rtt))


def loss_model(loss: Loss) -> LossModel | None:
    """tc's words for losses in bursts; None for a share."""
    if isinstance(loss, Ratio):
        return None
    if loss.model == "gilbert-elliott":
        return LossModel("gemodel", (("p", loss.p), ("r", loss.r), ("1-h", loss.bad), ("1-k", loss.good)))
    names = ("p13", "p31", "p32", "p23", "p14")
    return LossModel("state", tuple((name, getattr(loss, name)) for name in names))


def check_seed(seed: int | None, *, supports_seed: bool) -> None:
    """Raises UsageProblem when a seed is asked of a router that knows none."""
    if seed is not None and not supports_seed:
        raise UsageProblem(
            "this router cannot repeat losses: netem's seed needs kernel and iproute2 6.6 or newer",
            remedy="use --router uml (Debian 13's kernel), or leave the seed out",
        )


def queue_packets(direction: LinkDirection, rate: BitRate, rtt: Duration) -> int:
    """The bottleneck's queue. Only a queue given as a multiple of the BDP has a floor; 5 packets stay 5."""
    queue = direction.queue_limit
    if queue.kind == "packets":
        return queue.amount
    if queue.kind == "bytes":
        return max(1, queue.amount // frame_bytes(direction.mtu))
    if queue.kind == "time":
        return max(1, bdp_packets(rate, Duration(queue.amount), direction.mtu))
    exact = Fraction(rate.bit_s * rtt.ns * queue.amount, _BIT_NS_PER_BYTE * frame_bytes(direction.mtu) * _PER_BDP)
    return max(LEAST_QUEUE_PACKETS, math.ceil(exact))


def _tc_time(duration: Duration) -> str:
    """tc refuses times in ns, and cuts fractions of a nanosecond off: 1.001 us would be 1000 ns. So there is a tenth to cut."""
    whole, rest = divmod(duration.ns, 1000)
    return f"{whole}.{rest:03d}1us" if rest else f"{whole}us"
