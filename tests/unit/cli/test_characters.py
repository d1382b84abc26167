"""An output that cannot show a character shows a similar one, or a question mark, and keeps the bytes of a file's name."""

from __future__ import annotations

import io
import sys

import pytest

from lab.cli.characters import show_all


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("+7 ± 1 µs ≤ 2 × 3", b"+7 +- 1 us <= 2 x 3"),
        ("日本 5 Mbit/s", b"?? 5 Mbit/s"),
        (b"caf\xe9.txt".decode("utf-8", "surrogateescape"), b"caf\xe9.txt"),
    ],
    ids=["similar", "unknown", "bytes of a name"],
)
def test_each_character_is_shown_as_well_as_it_can_be(monkeypatch: pytest.MonkeyPatch, text: str, shown: bytes) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    show_all()
    print(text, end="", flush=True)
    assert raw.getvalue() == shown


def test_what_cannot_be_read_is_still_an_error() -> None:
    show_all()
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("utf-8", "roughwater-alike")
