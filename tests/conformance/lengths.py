"""WPT's cases of Content-Length, restated: the fields of a response with a longer body, and how much of it is the body's."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.cases import Outcome
from tests.conformance.program import answers

ALL = 42
"""Bytes behind the head, until the connection closes."""
REFUSED = -1

CASES: tuple[tuple[int, tuple[str, ...]], ...] = (
    *((length, (f"{length}",)) for length in (42, 30)),
    *((length, (f"{length},{length}",)) for length in (42, 30)),
    *((length, (f"{length}", f"{length}")) for length in (42, 30)),
    *((length, (f"{length}", f"{length},{length}")) for length in (42, 30)),
    (REFUSED, ("42,30",)),
    (REFUSED, ("30,42",)),
    (REFUSED, ("42", "30")),
    (REFUSED, ("30", "42")),
    (REFUSED, ("30,",)),
    (REFUSED, (",30",)),
    (REFUSED, ("30", "\t")),
    (REFUSED, ("", "30")),
    (REFUSED, ("aaaah", "nah")),
    (REFUSED, ("aaaah, nah",)),
    (ALL, ("aaaah", "aaaah")),
    (ALL, ("aaaah, aaaah",)),
    *((ALL, (value,)) for value in ("aaaah", "42s", "30s", "-1", "0x20")),
    (30, ("030",)),
    (REFUSED, ("030", "30")),
    (REFUSED, ("030, 30",)),
)
"""The length of the body, and the values of the fields."""


def content_lengths() -> Iterator[Outcome]:
    """A browser refuses a response, ignores a length, or keeps to it."""

    def wire(values: tuple[str, ...]) -> str:
        fields = "".join(f"Content-Length: {value}\r\n" for value in values)
        return f"HTTP/1.1 200 OK\r\n{fields}\r\n{'x' * ALL}".encode().hex()

    given = [{"kind": "response", "method": "GET", "wire": wire(values)} for _, values in CASES]
    for (wanted, values), answer in zip(CASES, answers(given), strict=True):
        found = REFUSED if answer["error"] else len(answer["body"])
        how = f"refuses it: {answer['error']}" if found == REFUSED else f"accepts it: {found} bytes"
        yield Outcome(" and ".join(map(repr, values)), "" if found == wanted else how)
