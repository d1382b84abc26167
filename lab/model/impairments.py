"""Models of a link's loss, delay and queues that a share or a length alone does not describe."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from lab.model.base import Model
from lab.model.units import ONE_BDP, BitRate, Duration, Queue, Ratio, Size

_NONE, _ALL = Ratio(0), Ratio(1)
Distribution = Literal["uniform", "normal", "pareto", "paretonormal"]
Discipline = Literal["fifo", "fq_codel", "codel", "pie", "red", "cake", "policer"]


class GilbertElliott(Model):
    """Losses in bursts: a good and a bad state, each with a loss of its own (tc-netem(8), `loss gemodel`)."""

    model: Literal["gilbert-elliott"] = Field(description="the model's name")
    p: Ratio = Field(description="probability, per packet, of going from the good state to the bad one")
    r: Ratio = Field(description="probability, per packet, of going back; bursts are 1/r packets long if `bad` is 100 %")
    bad: Ratio = Field(_ALL, description="share of packets lost in the bad state (tc's 1-h)")
    good: Ratio = Field(_NONE, description="share of packets lost in the good state (tc's 1-k)")

    @property
    def value(self) -> float:
        """The share of packets lost in the long run."""
        in_bad = self.p.value / (self.p.value + self.r.value)
        return in_bad * self.bad.value + (1 - in_bad) * self.good.value

    def __str__(self) -> str:
        return f"{self.value * 100:.3g} % in bursts"

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.p.value <= 0 or self.r.value <= 0:
            raise ValueError("gilbert-elliott needs p and r above 0 % (otherwise it never leaves a state: write `loss: 1 %`)")
        if self.value >= 1:
            raise ValueError("loss must be below 100 %: no packet would arrive")
        return self


class StateLoss(Model):
    """Losses in bursts and gaps (tc-netem(8), `loss state`).

    The states: 1 received, 2 received in a burst, 3 lost in a burst, 4 lost alone.
    """

    model: Literal["state"] = Field(description="the model's name")
    p13: Ratio = Field(description="probability, per packet, of a burst's beginning")
    p31: Ratio = Field(description="probability, per packet lost in a burst, of the burst's end")
    p32: Ratio = Field(
        _NONE, description="probability, per packet lost in a burst, that the next one arrives and the burst goes on"
    )
    p23: Ratio = Field(_ALL, description="probability, per packet received in a burst, that the next one is lost")
    p14: Ratio = Field(_NONE, description="probability, per packet, of one lost alone")

    def chain(self) -> tuple[tuple[float, ...], ...]:
        """Probabilities from each of the four states to each, as sch_netem.c's loss_4state takes them."""
        p13, p31, p32, p23, p14 = (each.value for each in (self.p13, self.p31, self.p32, self.p23, self.p14))
        return (
            (1 - p13 - p14, 0.0, p13, p14),
            (0.0, 1 - p23, p23, 0.0),
            (p31, p32, 1 - p31 - p32, 0.0),
            (1.0, 0.0, 0.0, 0.0),
        )

    @property
    def value(self) -> float:
        """The share of packets lost in the long run."""
        p13, p31, p32, p23, p14 = (each.value for each in (self.p13, self.p31, self.p32, self.p23, self.p14))
        # Balance of the chain with state 1 at weight 1.
        burst = p13 / p31
        received, alone = (burst * p32 / p23 if p32 else 0.0), p14
        return (burst + alone) / (1 + received + burst + alone)

    def __str__(self) -> str:
        return f"{self.value * 100:.3g} % in bursts"

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.p31.value <= 0 or (self.p32.value > 0 and self.p23.value <= 0):
            raise ValueError("a burst must end: p31 must be above 0 %, and p23 too where p32 is")
        for names, total in (("p13 + p14", self.p13.value + self.p14.value), ("p31 + p32", self.p31.value + self.p32.value)):
            if total > 1:
                raise ValueError(f"{names} must be at most 100 %")
        if self.value >= 1:
            raise ValueError("loss must be below 100 %: no packet would arrive")
        return self


class Jitter(Model):
    """A variation of the delay that is not uniform."""

    spread: Duration = Field(
        description="tc's jitter: the standard deviation for `normal`, 1.2 of them for the pareto ones, the most for `uniform`"
    )
    distribution: Distribution = Field(description="tc's tables; `pareto` and `paretonormal` have a long tail of late packets")

    @property
    def ns(self) -> int:
        """The spread in nanoseconds."""
        return self.spread.ns

    def __str__(self) -> str:
        return f"{self.spread} ({self.distribution})"

    @property
    def ms(self) -> float:
        """The spread in milliseconds."""
        return self.spread.ms


class ManagedQueue(Model):
    """A queue by its discipline. Each takes its own of the settings; what is left out has the kernel's default."""

    kind: Discipline = Field(description="`policer` drops at once what exceeds the link's rate and its `burst`; the others queue")
    limit: Queue = Field(
        ONE_BDP, description="the most it holds; `red` and `fifo` hold bytes, the others full-sized packets; cake none of it"
    )
    target: Duration | None = Field(None, description="fq_codel, codel, pie: the delay that it aims at")
    interval: Duration | None = Field(None, description="fq_codel, codel: the time over which the delay must exceed the target")
    ecn: bool = Field(False, description="fq_codel, codel, pie, red: mark packets of connections that can ECN; cake always does")
    least: Queue | None = Field(
        None, description="red: the average queue from which packets are dropped; default: a tenth of the limit"
    )
    most: Queue | None = Field(
        None, description="red: the average queue at which `probability` is reached; default: three tenths"
    )
    probability: Ratio | None = Field(None, description="red: the share that is dropped or marked at `most`; default: 2 %")
    rtt: Duration | None = Field(None, description="cake: the round trip that it is set to; default: 100 ms")
    burst: Size | None = Field(None, description="policer: the bucket, bytes that pass at once after a pause")

    def __str__(self) -> str:
        return self.kind if self.kind in ("cake", "policer") else f"{self.kind} {self.limit}"

    @model_validator(mode="after")
    def _sane(self) -> Self:
        for name, field in type(self).model_fields.items():
            # A stored queue has every field.
            if name not in ("kind", *_SETTINGS[self.kind]) and getattr(self, name) != field.default:
                raise ValueError(f"{self.kind} has no `{name}` (it takes {', '.join(_SETTINGS[self.kind]) or 'nothing'})")
        if self.kind == "policer" and (self.burst is None or self.burst.bytes < _LEAST_BURST):
            raise ValueError(f"a policer needs a `burst` of at least a full-sized frame ({_LEAST_BURST} B)")
        return self


_SETTINGS: dict[Discipline, tuple[str, ...]] = {
    "fifo": ("limit",),
    "fq_codel": ("limit", "target", "interval", "ecn"),
    "codel": ("limit", "target", "interval", "ecn"),
    "pie": ("limit", "target", "ecn"),
    "red": ("limit", "least", "most", "probability", "ecn"),
    "cake": ("rtt",),
    "policer": ("burst",),
}
# A frame at MTU 1500.
_LEAST_BURST = 1514


class PolicedUdp(Model):
    """A policer that only UDP meets; everything else passes it by."""

    policed: BitRate = Field(description="bits per second of UDP that pass, Ethernet headers included; the rest is lost at once")
    burst: Size = Field(description="the bucket, bytes that pass at once after a pause")

    def __str__(self) -> str:
        return f"policed to {self.policed}"

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.burst.bytes < _LEAST_BURST:
            raise ValueError(f"policed UDP needs a `burst` of at least a full-sized frame ({_LEAST_BURST} B)")
        return self


def form_of(value: Any) -> str:
    """The form in which a field was written: a text, or a mapping by its `model`."""
    if isinstance(value, dict):
        return f"<{value.get('model', 'mapping')}>"
    return f"<{getattr(value, 'model', 'mapping')}>" if isinstance(value, Model) else "<text>"


Loss = Annotated[
    Annotated[Ratio, Tag("<text>")] | Annotated[GilbertElliott, Tag("<gilbert-elliott>")] | Annotated[StateLoss, Tag("<state>")],
    Discriminator(
        form_of,
        custom_error_type="loss_model",
        custom_error_message="loss needs a share (1 %), or a `model`: gilbert-elliott or state",
    ),
]
Variation = Annotated[Annotated[Duration, Tag("<text>")] | Annotated[Jitter, Tag("<mapping>")], Discriminator(form_of)]
AnyQueue = Annotated[Annotated[Queue, Tag("<text>")] | Annotated[ManagedQueue, Tag("<mapping>")], Discriminator(form_of)]
Udp = Annotated[
    Annotated[Literal["open", "blocked"], Tag("<text>")] | Annotated[PolicedUdp, Tag("<mapping>")],
    Discriminator(form_of),
]
