"""What the quantities of `units.py` have in common: exact parsing, one canonical spelling, and their place in pydantic models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

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
    """`text` as it was given, on one line and of bounded length, for an error message."""
    quoted = repr(text)
    return quoted if len(quoted) <= _QUOTED else f"{quoted[: _QUOTED - 4]}...{quoted[-1]}"


class Quantity:
    """A number with a unit: parsed from text exactly, printed in one canonical way, so that `parse(str(x)) == x`.

    A subclass is a frozen dataclass of one number and names its units; `UNITS` holds every accepted spelling and its factor.
    """

    __slots__ = ()

    WHAT: ClassVar[str]
    """As an error calls it, with its article: "a bit rate"."""
    UNITS: ClassVar[Mapping[str, Fraction]]
    SHOWN_UNITS: ClassVar[Sequence[str]]
    """The units an error recommends."""
    DESCRIPTION: ClassVar[str]
    EXAMPLES: ClassVar[Sequence[str]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The quantity `text` spells. Raises ValueError with one line that names the text, the fault and the units."""
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
        """The quantity of `amount` base units, spelt in `unit`. Raises ValueError saying why not, without the text."""
        raise NotImplementedError

    @classmethod
    def _zero_needs_no_unit(cls) -> bool:
        return False

    @classmethod
    def _refusal(cls, text: str, problem: str) -> ValueError:
        return ValueError(f"{quote(text)} is not {cls.WHAT}: {problem} (use {', '.join(cls.SHOWN_UNITS)})")

    @classmethod
    def _validate(cls, value: object) -> Self:
        """A field's value: the type itself, its text, or a bare number, which is read as its text ("it has no unit")."""
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
        """A regular expression (ECMA 262) that holds for everything `parse` accepts, and for little else."""
        units = "|".join(
            re.escape(unit).replace("\\ ", " ") for unit in sorted(cls.UNITS, key=lambda unit: (-len(unit), unit)) if unit
        )
        optional = "?" if "" in cls.UNITS else ""
        pattern = rf"[0-9]+(\.[0-9]+)?\s*({units}){optional}"
        return rf"^\s*\+?({pattern}|0+(\.0+)?)\s*$" if cls._zero_needs_no_unit() else rf"^\s*\+?{pattern}\s*$"


def whole(amount: Fraction, unit: str) -> int:
    """`amount` as an int. Raises ValueError where it is no whole number of `unit` or too large for 64 bits."""
    if amount.denominator != 1:
        raise ValueError(f"it is not a whole number of {unit}")
    return check_amount(amount.numerator, unit)


def check_amount(amount: int, unit: str, *, least: int = 0) -> int:
    """`amount` itself. Raises ValueError where it is no int between `least` and what 64 bits hold."""
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise ValueError(f"{amount!r} is not a whole number of {unit}")  # noqa: TRY004 (a field's bad value is a ValueError to pydantic)
    if amount < least:
        raise ValueError("it is negative" if amount < 0 else f"it must be at least {least} {unit}")
    if amount > MAX_AMOUNT:
        raise ValueError(f"it is more than {MAX_AMOUNT} {unit}")
    return amount


def spell(amount: int, units: Sequence[tuple[str, int]]) -> str:
    """`amount` in the largest of `units` (largest first) that makes it a whole number."""
    unit, factor = next((unit, factor) for unit, factor in units if amount % factor == 0)
    return f"{amount // factor} {unit}"
