"""The quantities of the lab as types. Each is frozen, ordered, hashable, and round-trips through its text without loss.

Prefixes k, M, G are powers of 1000 and Ki, Mi, Gi powers of 1024, in rates and sizes alike. `b` is a bit and `B` a byte; unlike
tc's, our `Mbps` is megabits (tc reads it as megabytes), which is why the lab speaks to tc in `bit` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import ClassVar, Self

from lab.spec.quantity import Quantity, check_amount, spell, whole

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
# Lower-case m and g too: a bit rate cannot be milli, and tc users write "50mbit".
_BIT_PREFIXES = {**_DECIMAL, "m": 10**6, "g": 10**9, "t": 10**12}


def _table(prefixes: Mapping[str, int], suffixes: Sequence[str], scale: Fraction = Fraction(1)) -> dict[str, Fraction]:
    return {prefix + suffix: factor * scale for (prefix, factor), suffix in product(prefixes.items(), suffixes)}


_BIT_SUFFIXES = ("bit/s", "bit", "bps")


@dataclass(frozen=True, order=True, slots=True)
class BitRate(Quantity):
    """Bits per second on the wire, at least 1: what a link carries."""

    bit_s: int

    WHAT: ClassVar[str] = "a bit rate"
    UNITS: ClassVar[Mapping[str, Fraction]] = _table(_BIT_PREFIXES, _BIT_SUFFIXES)
    SHOWN_UNITS: ClassVar[Sequence[str]] = ("bit/s", "kbit/s", "Mbit/s", "Gbit/s")
    DESCRIPTION: ClassVar[str] = "Bits per second, decimal prefixes: bit/s, kbit/s, Mbit/s, Gbit/s."
    EXAMPLES: ClassVar[Sequence[str]] = ("50 Mbit/s", "500 kbit/s", "1 Gbit/s")

    def __post_init__(self) -> None:
        check_amount(self.bit_s, "bit/s", least=1)

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        return cls(whole(amount, "bit/s"))

    @property
    def byte_s(self) -> float:
        """Bytes per second."""
        return self.bit_s / 8

    def __str__(self) -> str:
        return spell(self.bit_s, (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1)))


@dataclass(frozen=True, order=True, slots=True)
class ByteRate(Quantity):
    """Bytes per second of content, at least 1: what a client is limited to. Bits per second are read too, and not remembered."""

    byte_s: int

    WHAT: ClassVar[str] = "a byte rate"
    UNITS: ClassVar[Mapping[str, Fraction]] = {
        **_table({**_DECIMAL, **_BINARY}, ("B/s", "Bps")),
        **_table(_BIT_PREFIXES, _BIT_SUFFIXES, Fraction(1, 8)),
    }
    SHOWN_UNITS: ClassVar[Sequence[str]] = (
        "B/s",
        "kB/s",
        "MB/s",
        "GB/s",
        "KiB/s",
        "MiB/s",
        "GiB/s",
        "kbit/s",
        "Mbit/s",
        "Gbit/s",
    )
    DESCRIPTION: ClassVar[str] = (
        "Bytes per second (kB/s, MB/s, KiB/s, MiB/s), or bits per second that make whole bytes (8 Mbit/s = 1 MB/s)."
    )
    EXAMPLES: ClassVar[Sequence[str]] = ("1 MB/s", "512 KiB/s", "8 Mbit/s")

    def __post_init__(self) -> None:
        check_amount(self.byte_s, "B/s", least=1)

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        return cls(whole(amount, "bytes per second"))

    @property
    def bit_s(self) -> int:
        """Bits per second."""
        return self.byte_s * 8

    def __str__(self) -> str:
        return spell(self.byte_s, tuple((f"{unit}/s", factor) for unit, factor in _BYTE_SPELLINGS))


@dataclass(frozen=True, order=True, slots=True)
class Duration(Quantity):
    """A length of time in whole nanoseconds, the finest tc takes. Zero needs no unit."""

    ns: int

    WHAT: ClassVar[str] = "a duration"
    UNITS: ClassVar[Mapping[str, Fraction]] = {
        "ns": Fraction(1),
        "us": Fraction(10**3),
        "\N{MICRO SIGN}s": Fraction(10**3),
        "\N{GREEK SMALL LETTER MU}s": Fraction(10**3),
        "ms": Fraction(10**6),
        "s": Fraction(10**9),
        "min": Fraction(60 * 10**9),
    }
    SHOWN_UNITS: ClassVar[Sequence[str]] = ("ns", "us", "ms", "s", "min")
    DESCRIPTION: ClassVar[str] = "A length of time: ns, us, ms, s, min."
    EXAMPLES: ClassVar[Sequence[str]] = ("20 ms", "1.5 s", "300 us")

    def __post_init__(self) -> None:
        check_amount(self.ns, "nanoseconds")

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        return cls(whole(amount, "nanoseconds"))

    @classmethod
    def _zero_needs_no_unit(cls) -> bool:
        return True

    @property
    def s(self) -> float:
        """Seconds."""
        return self.ns / 1e9

    @property
    def ms(self) -> float:
        """Milliseconds."""
        return self.ns / 1e6

    def __str__(self) -> str:
        return spell(self.ns, (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))) if self.ns else "0 ms"


@dataclass(frozen=True, order=True, slots=True)
class Size(Quantity):
    """An amount of content in bytes; a bare number is bytes. Zero is a size: the empty file is a case worth testing."""

    bytes: int

    WHAT: ClassVar[str] = "a size"
    UNITS: ClassVar[Mapping[str, Fraction]] = {"": Fraction(1), **_table({**_DECIMAL, **_BINARY}, ("B",))}
    SHOWN_UNITS: ClassVar[Sequence[str]] = ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")
    DESCRIPTION: ClassVar[str] = "Bytes: B, kB, MB, GB are powers of 1000, KiB, MiB, GiB of 1024; a bare number is bytes."
    EXAMPLES: ClassVar[Sequence[str]] = ("5 MiB", "20 kB", "1500 B")

    def __post_init__(self) -> None:
        check_amount(self.bytes, "bytes")

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        return cls(whole(amount, "bytes"))

    def __str__(self) -> str:
        return spell(self.bytes, _BYTE_SPELLINGS) if self.bytes else "0 B"


@dataclass(frozen=True, order=True, slots=True)
class Ratio(Quantity):
    """A fraction from 0 to 1: a probability, or a tolerance."""

    value: float

    WHAT: ClassVar[str] = "a ratio"
    UNITS: ClassVar[Mapping[str, Fraction]] = {"": Fraction(1), "%": Fraction(1, 100)}
    SHOWN_UNITS: ClassVar[Sequence[str]] = ("%", "or a fraction from 0 to 1")
    DESCRIPTION: ClassVar[str] = "A fraction from 0 to 1, or a percentage."
    EXAMPLES: ClassVar[Sequence[str]] = ("1 %", "0.5 %", "0.01")

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError("it must lie between 0 % and 100 %")
        # Minus zero and the int 1 would print like nothing `parse` gives back.
        object.__setattr__(self, "value", abs(float(self.value)))

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        if amount > 1:
            raise ValueError("it must lie between 0 % and 100 %")
        return cls(float(amount))

    def __float__(self) -> float:
        return self.value

    def percent(self) -> str:
        """The shortest percentage that reads back as the same fraction, without exponent: "0.5"."""
        text = format(Decimal(repr(self.value)).scaleb(2), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text

    def __str__(self) -> str:
        return f"{self.percent()} %"


_BYTE_SPELLINGS = (
    ("TiB", 2**40),
    ("TB", 10**12),
    ("GiB", 2**30),
    ("GB", 10**9),
    ("MiB", 2**20),
    ("MB", 10**6),
    ("KiB", 2**10),
    ("kB", 10**3),
    ("B", 1),
)
