"""The variables that `lab search` can search, each with its unit, and how a value is printed and put into a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

VariableName = Literal["limit", "rtt", "loss"]


@dataclass(frozen=True)
class Variable:
    """One variable. Values are in the unit of `key`, and printed in `unit`, of which `per` stored units make one."""

    name: VariableName
    title: str
    key: str
    """The name of the figure that has the value of a trial, with its unit."""
    unit: str
    per: float
    suffix: str
    """The unit in the name of a topology."""
    step: float = 0.0
    """Values between the ends of a search are multiples of it; 0 for any value."""

    def text(self, value: float) -> str:
        """`12.34 MB/s`."""
        return f"{self.number(value)} {self.unit}"

    def number(self, value: float) -> str:
        """Without the unit and without an exponent, four significant digits."""
        scaled = value / self.per
        return f"{scaled:.0f}" if scaled >= 10_000 else f"{scaled:.4g}" if scaled >= 1e-4 else f"{scaled:.8f}".rstrip("0")


VARIABLES: Mapping[str, Variable] = {
    each.name: each
    for each in (
        Variable("limit", "limit", "limit_byte_s", "MB/s", 1e6, "MBps"),
        # Half of it each way, in microseconds without a fraction: tc of iproute2 6.1 refuses a delay in nanoseconds.
        Variable("rtt", "round trip", "rtt_s", "ms", 1e-3, "ms", step=2e-6),
        Variable("loss", "loss each way", "loss_share", "%", 1e-2, "pct"),
    )
}
