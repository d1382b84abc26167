"""Every reply of curl's tests, read by ferry and by CPython's `http.client`: the same status and body, or refused by both."""

from __future__ import annotations

import http.client
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.conformance import curl_command as rules
from tests.conformance.cases import Excluded, Outcome
from tests.conformance.curl_file import read
from tests.conformance.curl_replies import FEATURES, tests, variables
from tests.conformance.program import answers


@dataclass(frozen=True)
class _Reply:
    """A reply on its own, until the connection closes."""

    name: str
    wire: bytes


class _Wire:
    """A socket of which only what it has received is asked for."""

    def __init__(self, wire: bytes) -> None:
        self._wire = wire

    def makefile(self, *_args: str) -> io.BytesIO:
        return io.BytesIO(self._wire)


def _replies() -> Iterator[_Reply | Excluded]:
    ports = dict.fromkeys(("HTTP", "HTTPS", "PROXY", "SOCKS"), 80)
    for number, raw in sorted(tests().items()):
        test = read(number, raw, variables(number, "/nowhere", ports), FEATURES)
        for (section, name), parts in sorted(test.parts.items()):
            for part in parts if section == "reply" and name.rstrip("0123456789") in {"data", "connect"} else ():
                if re.match(rb"HTTP/1.1 101 ", part.data):
                    yield Excluded(rules.UPGRADE)
                elif part.data.startswith(b"HTTP/"):
                    yield _Reply(f"test{number} {name}", part.data)
                elif "http" in {server.partition("-")[0] for server in test.words("client", "server")}:
                    yield Excluded(rules.NO_ANSWER)


def _reference(reply: _Reply) -> tuple[int, str] | None:
    """Status and body as `http.client` reads them, None where it refuses."""
    # It wants a socket, and calls only `makefile`.
    wire: Any = _Wire(reply.wire)
    response = http.client.HTTPResponse(wire, method="GET")
    try:
        response.begin()
        return response.status, response.read().decode(errors="replace")
    except (http.client.HTTPException, ValueError, OverflowError):
        return None


def curl_heads() -> Iterator[Outcome | Excluded]:
    found = list(_replies())
    yield from (each for each in found if isinstance(each, Excluded))
    replies = [each for each in found if isinstance(each, _Reply)]
    given = [{"kind": "response", "method": "GET", "wire": each.wire.hex()} for each in replies]
    for reply, answer in zip(replies, answers(given), strict=True):
        yield Outcome(reply.name, _differs(_reference(reply), answer))


def _differs(wanted: tuple[int, str] | None, answer: dict[str, Any]) -> str:
    error, status = answer["error"], answer["heads"][-1]["status"] if answer["heads"] else None
    if wanted is None:
        return "" if error else f"accepts it: {status}, {answer['body'][:80]!r}"
    if error:
        return f"refuses it: {error}"
    return (
        ""
        if (status, answer["body"]) == wanted
        else f"reads {status}, {answer['body'][:80]!r}, not {wanted[0]}, {wanted[1][:80]!r}"
    )
