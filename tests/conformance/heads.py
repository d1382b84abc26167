"""WPT's cases of status lines and heads that are not well-formed (fetch/h1-parsing), restated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.conformance.cases import Outcome
from tests.conformance.program import answers


@dataclass(frozen=True)
class Case:
    """What a server sends until it closes. `status` is what a browser reads, None where it refuses the answer."""

    wire: str
    status: int | None = None


_STATUS_LINES = {
    "": None,
    "BLAH": None,
    "0 OK": 0,
    "1 OK": 1,
    "99 NOT OK": 99,
    "099 HELLO": 99,
    "999 DOES IT MATTER": 999,
    "1000 BOO": None,
    "65736 NOT 200 OR SOME SUCH": None,
    "131072 HI": None,
}
_LONE_CR = (
    ("HTTP/1.1\r200 OK", ""),
    ("HTTP/1.1 200\rOK", ""),
    ("HTTP/1.1 200 OK", "\rHeader: Value\n"),
    ("HTTP/1.1 200 OK", "Header\r: Value\n"),
    ("HTTP/1.1 200 OK", "Header:\r Value\n"),
    ("HTTP/1.1 200 OK", "Header: Value\r\r\n"),
    ("HTTP/1.1 200 OK", "Header: Value\rHeader2: Value2\n"),
)
_UNFINISHED = ("\t", " ", "\f", "\r")

CASES = (
    *(Case(f"HTTP/1.1 {text}\nheader-parsing: is sad\n\n", status) for text, status in _STATUS_LINES.items()),
    *(Case(f"{first}\n{fields}\nBODY") for first, fields in _LONE_CR),
    *(Case(f"HTTP/1.1 200 OKAYISH\nheader: value{end}") for end in _UNFINISHED),
    Case("HTTP/1.1 200 OK\nCustom: \0\n\nvar irrelevant = 0"),
)


def broken_heads() -> Iterator[Outcome]:
    """A browser refuses an answer, or reads its status."""
    given = [{"kind": "response", "method": "GET", "wire": case.wire.encode("latin-1").hex()} for case in CASES]
    for case, answer in zip(CASES, answers(given), strict=True):
        status = None if answer["error"] or not answer["heads"] else answer["heads"][-1]["status"]
        how = f"refuses it: {answer['error']}" if status is None else f"accepts it: {status}"
        yield Outcome(ascii(case.wire), "" if status == case.status else how)
