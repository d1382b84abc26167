"""How long a link's bottleneck queue is: a time, a number of packets, or a multiple of the bandwidth-delay product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Self

from lab.spec.quantity import Quantity, check_amount, whole
from lab.spec.units import Duration

QueueKind = Literal["time", "packets", "bdp"]
# A multiple of the BDP is kept in thousandths: "1.5 BDP" is a number people write, "1.0005 BDP" is not.
_PER_BDP = 1000
_KINDS: Mapping[str, QueueKind] = {"packets": "packets", "packet": "packets", "BDP": "bdp", "bdp": "bdp"}
_AMOUNT_OF: Mapping[QueueKind, str] = {"time": "nanoseconds", "packets": "packets", "bdp": "thousandths of a BDP"}


@dataclass(frozen=True, slots=True)
class Queue(Quantity):
    """`amount` is nanoseconds at the link's rate (`time`), packets of full size (`packets`), or thousandths of a BDP (`bdp`).

    A queue of nothing is refused: it would pass no packet.
    """

    kind: QueueKind
    amount: int

    WHAT: ClassVar[str] = "a queue"
    UNITS: ClassVar[Mapping[str, Fraction]] = {
        **Duration.UNITS,
        **{unit: Fraction(_PER_BDP if kind == "bdp" else 1) for unit, kind in _KINDS.items()},
    }
    SHOWN_UNITS: ClassVar[Sequence[str]] = ("ms", "packets", "BDP")
    DESCRIPTION: ClassVar[str] = "A time at the link's rate, a number of full-sized packets, or a multiple of rate x RTT (BDP)."
    EXAMPLES: ClassVar[Sequence[str]] = ("1 BDP", "40 ms", "100 packets")

    def __post_init__(self) -> None:
        if self.kind not in _AMOUNT_OF:
            raise ValueError(f"{self.kind!r} is no kind of queue")
        check_amount(self.amount, _AMOUNT_OF[self.kind], least=1)

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:
        kind = _KINDS.get(unit, "time")
        return cls(kind, whole(amount, _AMOUNT_OF[kind]))

    def __str__(self) -> str:
        if self.kind == "time":
            return str(Duration(self.amount))
        if self.kind == "packets":
            return f"{self.amount} packets"
        whole_bdp, thousandths = divmod(self.amount, _PER_BDP)
        return f"{whole_bdp}.{thousandths:03d}".rstrip("0").rstrip(".") + " BDP"


ONE_BDP = Queue("bdp", _PER_BDP)
