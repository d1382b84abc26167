"""The quantities of the lab as types: exact, frozen, hashable, and their text reads back without loss.

Prefixes k, M, G are powers of 1000 and Ki, Mi, Gi powers of 1024, in rates and sizes alike. `b` is a bit and `B` a byte; unlike
tc's, our `Mbps` is megabits (tc reads it as megabytes), which is why the lab speaks to tc in `bit` only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

if TYPE_CHECKING:
    # Containers compute with quantities and have no pydantic.
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

# Signed 64 bits: what netlink, tc and JSON readers carry without loss.
MAX_AMOUNT = 2**63 - 1
# The smallest positive float takes 324 decimals; anything longer is not a quantity.
_MAX_TEXT = 400
_QUOTED = 60
_NUMBER_AND_UNIT = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]+)?)\s*(.*)", re.DOTALL)


def quote(text: str) -> str:
    """`text` on one line and at most 60 characters long, for an error message."""
    quoted = repr(text)
    return quoted if len(quoted) <= _QUOTED else f"{quoted[: _QUOTED - 4]}...{quoted[-1]}"


class Quantity:
    """A number with a unit: parsed exactly, printed in one canonical way, so that `parse(str(x)) == x`.

    A subclass is a frozen dataclass of one number. `UNITS` maps every accepted spelling of a unit to its factor.
    """

    __slots__ = ()

    WHAT: ClassVar[str]
    """The quantity's name in an error: "a bit rate"."""
    UNITS: ClassVar[Mapping[str, Fraction]]
    SHOWN_UNITS: ClassVar[Sequence[str]]
    """The units an error recommends."""
    DESCRIPTION: ClassVar[str]
    EXAMPLES: ClassVar[Sequence[str]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The quantity in `text`. Raises ValueError, one line with the text, the fault and the units."""
        stripped = text.strip()
        if not stripped:
            raise cls._refusal(text, "it is empty")
        if len(stripped) > _MAX_TEXT:
            raise cls._refusal(text, "it is too long")
        match = _NUMBER_AND_UNIT.fullmatch(stripped)
        if match is None:
            raise cls._refusal(text, "it does not start with a number")
        sign, number, unit = match.groups()
        if sign == "-":
            raise cls._refusal(text, "it is negative")
        factor = Fraction(1) if unit == "" and Fraction(number) == 0 and cls._zero_needs_no_unit() else cls.UNITS.get(unit)
        if factor is None:
            raise cls._refusal(text, f"unknown unit {quote(unit)}" if unit else "it has no unit")
        try:
            return cls._from_amount(Fraction(number) * factor, unit)
        except ValueError as problem:
            raise cls._refusal(text, str(problem)) from None

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:
        """The quantity of `amount` base units, written with `unit`. Raises ValueError with the reason only."""
        raise NotImplementedError

    @classmethod
    def _zero_needs_no_unit(cls) -> bool:
        return False

    @classmethod
    def _refusal(cls, text: str, problem: str) -> ValueError:
        return ValueError(f"{quote(text)} is not {cls.WHAT}: {problem} (use {', '.join(cls.SHOWN_UNITS)})")

    @classmethod
    def _validate(cls, value: object) -> Self:
        """A field's value: the type itself, its text, or a number, which is read as its text ("it has no unit")."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls.parse(format(Decimal(repr(value)), "f"))
        raise cls._refusal(str(value), f"it is of type {type(value).__name__}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema()),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found: dict[str, Any] = {
            "type": ["string", "number"] if "" in cls.UNITS and handler.mode == "validation" else "string",
            "title": cls.__name__,
            "description": cls.DESCRIPTION,
            "pattern": cls.pattern(),
            "examples": list(cls.EXAMPLES),
        }
        return found

    @classmethod
    def pattern(cls) -> str:
        """A regular expression (ECMA 262) for JSON Schema. It matches everything that `parse` accepts, and little else."""
        units = "|".join(
            re.escape(unit).replace("\\ ", " ") for unit in sorted(cls.UNITS, key=lambda unit: (-len(unit), unit)) if unit
        )
        optional = "?" if "" in cls.UNITS else ""
        pattern = rf"[0-9]+(\.[0-9]+)?\s*({units}){optional}"
        return rf"^\s*\+?({pattern}|0+(\.0+)?)\s*$" if cls._zero_needs_no_unit() else rf"^\s*\+?{pattern}\s*$"


def integer(amount: Fraction, unit: str) -> int:
    """`amount` as an int. Raises ValueError if it has a fraction or does not fit into 64 bits."""
    if amount.denominator != 1:
        raise ValueError(f"it is not a whole number of {unit}")
    return check_amount(amount.numerator, unit)


def check_amount(amount: int, unit: str, *, least: int = 0) -> int:
    """`amount` itself. Raises ValueError unless it is an int from `least` to the largest of 64 bits."""
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise ValueError(f"{amount!r} is not a whole number of {unit}")  # noqa: TRY004 (a field's bad value is a ValueError to pydantic)
    if amount < least:
        raise ValueError("it is negative" if amount < 0 else f"it must be at least {least} {unit}")
    if amount > MAX_AMOUNT:
        raise ValueError(f"it is more than {MAX_AMOUNT} {unit}")
    return amount


def spell(amount: int, units: Sequence[tuple[str, int]]) -> str:
    """`amount` in the largest of `units` (largest first) that needs no fraction."""
    unit, factor = next((unit, factor) for unit, factor in units if amount % factor == 0)
    return f"{amount // factor} {unit}"


_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
# Lower-case m and g too: a bit rate cannot be milli, and tc users write "50mbit".
_BIT_PREFIXES = {**_DECIMAL, "m": 10**6, "g": 10**9, "t": 10**12}


def _table(prefixes: Mapping[str, int], suffixes: Sequence[str], scale: Fraction = Fraction(1)) -> dict[str, Fraction]:
    return {prefix + suffix: factor * scale for (prefix, factor), suffix in product(prefixes.items(), suffixes)}


_BIT_SUFFIXES = ("bit/s", "bit", "bps")


@dataclass(frozen=True, order=True, slots=True)
class BitRate(Quantity):
    """Bits per second on the wire, at least 1: the rate of a link."""

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
        return cls(integer(amount, "bit/s"))

    @property
    def byte_s(self) -> float:
        """Bytes per second."""
        return self.bit_s / 8

    def __str__(self) -> str:
        return spell(self.bit_s, (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1)))


@dataclass(frozen=True, order=True, slots=True)
class ByteRate(Quantity):
    """Bytes per second of content, at least 1: the limit of a client. Bits per second are accepted and become bytes."""

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
        "Bytes per second (kB/s, MB/s, KiB/s, MiB/s), or bits per second that are a multiple of 8 (8 Mbit/s = 1 MB/s)."
    )
    EXAMPLES: ClassVar[Sequence[str]] = ("1 MB/s", "512 KiB/s", "8 Mbit/s")

    def __post_init__(self) -> None:
        check_amount(self.byte_s, "B/s", least=1)

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        return cls(integer(amount, "bytes per second"))

    @property
    def bit_s(self) -> int:
        """Bits per second."""
        return self.byte_s * 8

    def __str__(self) -> str:
        return spell(self.byte_s, tuple((f"{unit}/s", factor) for unit, factor in _BYTE_SPELLINGS))


@dataclass(frozen=True, order=True, slots=True)
class Duration(Quantity):
    """A length of time in nanoseconds, the resolution of tc. Zero needs no unit."""

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
        return cls(integer(amount, "nanoseconds"))

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
    """An amount of content in bytes. A number without a unit is bytes. Zero is valid: empty files are worth testing."""

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
        return cls(integer(amount, "bytes"))

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
        # Minus zero and the int 1 would print in a way that `parse` does not give back.
        object.__setattr__(self, "value", abs(float(self.value)))

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:  # noqa: ARG003
        if amount > 1:
            raise ValueError("it must lie between 0 % and 100 %")
        return cls(float(amount))

    def __float__(self) -> float:
        return self.value

    def percent(self) -> str:
        """The shortest percentage that reads back as the same fraction, without an exponent: "0.5"."""
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

QueueKind = Literal["time", "packets", "bdp", "bytes"]
# Multiples of the BDP are stored in thousandths: people write "1.5 BDP", not "1.0005 BDP".
_PER_BDP = 1000
_KINDS: Mapping[str, QueueKind] = {"packets": "packets", "packet": "packets", "BDP": "bdp", "bdp": "bdp"}
_AMOUNT_OF: Mapping[QueueKind, str] = {
    "time": "nanoseconds",
    "packets": "packets",
    "bdp": "thousandths of a BDP",
    "bytes": "bytes",
}
# Not a bare number: it could be packets, bytes or milliseconds.
_BYTE_UNITS = {unit: factor for unit, factor in Size.UNITS.items() if unit}


@dataclass(frozen=True, slots=True)
class Queue(Quantity):
    """The length of a link's bottleneck queue: nanoseconds at its rate, full-sized packets, bytes, or thousandths of a BDP.

    It is at least 1: a link without a queue would pass no packet.
    """

    kind: QueueKind
    amount: int

    WHAT: ClassVar[str] = "a queue"
    UNITS: ClassVar[Mapping[str, Fraction]] = {
        **Duration.UNITS,
        **{unit: Fraction(_PER_BDP if kind == "bdp" else 1) for unit, kind in _KINDS.items()},
        **_BYTE_UNITS,
    }
    SHOWN_UNITS: ClassVar[Sequence[str]] = ("ms", "packets", "kB", "BDP")
    DESCRIPTION: ClassVar[str] = (
        "A time at the link's rate, a number of full-sized packets, bytes, or a multiple of rate x RTT (BDP)."
    )
    EXAMPLES: ClassVar[Sequence[str]] = ("1 BDP", "40 ms", "100 packets")

    def __post_init__(self) -> None:
        if self.kind not in _AMOUNT_OF:
            raise ValueError(f"{self.kind!r} is not a kind of queue")
        check_amount(self.amount, _AMOUNT_OF[self.kind], least=1)

    @classmethod
    def _from_amount(cls, amount: Fraction, unit: str) -> Self:
        kind = "bytes" if unit in _BYTE_UNITS else _KINDS.get(unit, "time")
        return cls(kind, integer(amount, _AMOUNT_OF[kind]))

    def __str__(self) -> str:
        if self.kind == "time":
            return str(Duration(self.amount))
        if self.kind == "packets":
            return f"{self.amount} packets"
        if self.kind == "bytes":
            return str(Size(self.amount))
        bdp, thousandths = divmod(self.amount, _PER_BDP)
        return f"{bdp}.{thousandths:03d}".rstrip("0").rstrip(".") + " BDP"


ONE_BDP = Queue("bdp", _PER_BDP)
