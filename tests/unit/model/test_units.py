"""Quantities: exact parsing, lossless text, one clear line for bad input, and their place in pydantic models."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lab.model.units import MAX_AMOUNT, BitRate, ByteRate, Duration, Quantity, Queue, Ratio, Size

QUANTITIES = st.one_of(
    st.builds(BitRate, st.integers(1, MAX_AMOUNT)),
    st.builds(ByteRate, st.integers(1, MAX_AMOUNT)),
    st.builds(Duration, st.integers(0, MAX_AMOUNT)),
    st.builds(Size, st.integers(0, MAX_AMOUNT)),
    st.builds(Ratio, st.floats(0, 1)),
    st.builds(Queue, st.sampled_from(["time", "packets", "bdp"]), st.integers(1, MAX_AMOUNT)),
)
TYPES: list[type[Quantity]] = [BitRate, ByteRate, Duration, Size, Ratio, Queue]


@given(QUANTITIES)
def test_text_loses_nothing(quantity: Quantity) -> None:
    again = type(quantity).parse(str(quantity))
    assert again == quantity
    assert hash(again) == hash(quantity)


@given(QUANTITIES)
def test_json_loses_nothing_and_matches_the_schema(quantity: Quantity) -> None:
    adapter = TypeAdapter(type(quantity))
    assert adapter.validate_json(adapter.dump_json(quantity)) == quantity
    assert re.search(adapter.json_schema()["pattern"], str(quantity))


@pytest.mark.parametrize(
    ("text", "expected", "canonical"),
    [
        ("50 Mbit/s", BitRate(50_000_000), "50 Mbit/s"),
        ("50mbit", BitRate(50_000_000), "50 Mbit/s"),
        ("1 Gbit/s", BitRate(10**9), "1 Gbit/s"),
        ("500 kbit/s", BitRate(500_000), "500 kbit/s"),
        ("8Mbps", BitRate(8_000_000), "8 Mbit/s"),
        ("1.5 Gbit/s", BitRate(1_500_000_000), "1500 Mbit/s"),
        ("1234567 bit/s", BitRate(1_234_567), "1234567 bit/s"),
        ("1 MB/s", ByteRate(1_000_000), "1 MB/s"),
        ("512 KiB/s", ByteRate(524_288), "512 KiB/s"),
        ("8 Mbit/s", ByteRate(1_000_000), "1 MB/s"),
        ("1MBps", ByteRate(1_000_000), "1 MB/s"),
        ("1Mbps", ByteRate(125_000), "125 kB/s"),
        ("20ms", Duration(20_000_000), "20 ms"),
        (" 1.5 s ", Duration(1_500_000_000), "1500 ms"),
        ("300 us", Duration(300_000), "300 us"),
        ("300 \N{MICRO SIGN}s", Duration(300_000), "300 us"),
        ("0 ms", Duration(0), "0 ms"),
        ("0", Duration(0), "0 ms"),
        ("5 MiB", Size(5_242_880), "5 MiB"),
        ("5 MB", Size(5_000_000), "5 MB"),
        ("20 KB", Size(20_000), "20 kB"),
        ("1500 B", Size(1500), "1500 B"),
        ("1448", Size(1448), "1448 B"),
        ("0 B", Size(0), "0 B"),
        ("1%", Ratio(0.01), "1 %"),
        ("0.5 %", Ratio(0.005), "0.5 %"),
        ("0.01", Ratio(0.01), "1 %"),
        ("0.0001%", Ratio(0.000001), "0.0001 %"),
        ("40 ms", Queue("time", 40_000_000), "40 ms"),
        ("100 packets", Queue("packets", 100), "100 packets"),
        ("1 BDP", Queue("bdp", 1000), "1 BDP"),
        ("1.5 BDP", Queue("bdp", 1500), "1.5 BDP"),
        ("10 BDP", Queue("bdp", 10_000), "10 BDP"),
    ],
)
def test_accepted(text: str, expected: Quantity, canonical: str) -> None:
    assert type(expected).parse(text) == expected
    assert str(expected) == canonical


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (BitRate, "50 Mbitt/s", "unknown unit 'Mbitt/s'"),
        (BitRate, "8 MB/s", "unknown unit 'MB/s'"),
        (BitRate, "50", "it has no unit"),
        (BitRate, "0 Mbit/s", "it must be at least 1 bit/s"),
        (BitRate, "1.5 bit/s", "it is not a whole number of bit/s"),
        (BitRate, "99999999999 Gbit/s", "it is more than"),
        (ByteRate, "1 bit/s", "it is not a whole number of bytes per second"),
        (ByteRate, "0 B/s", "it must be at least 1 B/s"),
        (Duration, "20", "it has no unit"),
        (Duration, "0.5 ns", "it is not a whole number of nanoseconds"),
        (Duration, "20 parsecs", "unknown unit 'parsecs'"),
        (Size, "0.3 B", "it is not a whole number of bytes"),
        (Size, "5 mib", "unknown unit 'mib'"),
        (Ratio, "101 %", "it must lie between 0 % and 100 %"),
        (Ratio, "1.01", "it must lie between 0 % and 100 %"),
        (Queue, "0 packets", "it must be at least 1 packets"),
        (Queue, "0 ms", "it must be at least 1 nanoseconds"),
        (Queue, "1.0005 BDP", "it is not a whole number of thousandths of a BDP"),
    ],
)
def test_refused(kind: type[Quantity], text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="is not") as caught:
        kind.parse(text)
    message = str(caught.value)
    assert message.startswith(f"'{text}' is not {kind.WHAT}: {problem}")
    assert message.endswith(f"(use {', '.join(kind.SHOWN_UNITS)})")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "text", ["", "   ", "-1 ms", "NaN", "inf", "-inf %", "ms", "1e3 ms", "1,5 ms", "0x10", "\n", "1\n2", "9" * 500]
)
def test_nonsense_is_refused_in_one_line(kind: type[Quantity], text: str) -> None:
    with pytest.raises(ValueError, match="is not") as caught:
        kind.parse(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 260


def _parsed(kind: type[Quantity], text: str) -> Quantity | str:
    try:
        return kind.parse(text)
    except ValueError as problem:
        return str(problem)


@given(st.text() | st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,4})? ?[kMGm]?i?[bB]?(it)?(/s|ps|s|%)?", fullmatch=True))
def test_any_text_is_either_a_quantity_the_schema_knows_or_one_line_of_refusal(text: str) -> None:
    for kind in TYPES:
        found = _parsed(kind, text)
        if isinstance(found, str):
            assert "\n" not in found
        else:
            assert re.search(kind.pattern(), text.strip())


@pytest.mark.parametrize("kind", [BitRate, ByteRate, Duration, Size])
@given(left=st.integers(1, 10**12), right=st.integers(1, 10**12))
def test_order_is_the_order_of_the_amounts(kind: Any, left: int, right: int) -> None:
    assert (kind(left) < kind(right)) == (left < right)
    assert (kind(left) == kind(right)) == (left == right)


def test_ratios_are_ordered_too() -> None:
    assert Ratio(0.1) < Ratio(0.2)


@pytest.mark.parametrize("bad", [-1, MAX_AMOUNT + 1, 1.5, True])
def test_the_constructor_checks_too(bad: int) -> None:
    for kind in (BitRate, ByteRate, Duration, Size):
        with pytest.raises(ValueError, match=r".+"):
            kind(bad)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_ratio_lies_between_none_and_all(bad: float) -> None:
    with pytest.raises(ValueError, match="between 0 % and 100 %"):
        Ratio(bad)


def test_properties_give_the_other_units() -> None:
    assert BitRate(50_000_000).byte_s == 6_250_000
    assert ByteRate(1_000_000).bit_s == 8_000_000
    assert (Duration(1_500_000).ms, Duration(1_500_000_000).s) == (1.5, 1.5)
    assert float(Ratio(0.25)) == 0.25


def test_fields_take_the_type_its_text_and_bare_numbers_where_they_have_a_meaning() -> None:
    assert TypeAdapter(Ratio).validate_python(0.00001) == Ratio(0.00001)
    assert TypeAdapter(Size).validate_python(1448) == Size(1448)
    assert TypeAdapter(Duration).validate_python(0) == Duration(0)
    assert TypeAdapter(Duration).validate_python(Duration(5)) == Duration(5)
    for kind, bad in ((BitRate, 50), (Duration, 20), (Ratio, True), (Size, None), (Size, Duration(1))):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(bad)


@pytest.mark.parametrize("kind", TYPES)
def test_the_schema_is_a_described_text_whose_examples_parse(kind: type[Quantity]) -> None:
    schema = TypeAdapter(kind).json_schema()
    bare = kind in (Size, Ratio)
    assert schema["type"] == (["string", "number"] if bare else "string")
    assert TypeAdapter(kind).json_schema(mode="serialization")["type"] == "string"
    assert schema["description"]
    assert schema["examples"]
    for example in schema["examples"]:
        kind.parse(example)
        assert re.search(schema["pattern"], example)
    assert not re.search(schema["pattern"], "50 Mbitt/s")
