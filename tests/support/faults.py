"""What `faulty_server` can be asked to do wrong: what a request says, and what becomes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

Reading = Literal["all", "some", "none"]
Framing = Literal["length", "chunks", "close"]
End = Literal["done", "close", "goodbye", "reset", "stall", "deaf", "reset-stream", "refuse-stream", "go-away", "go-away-at-once"]


def content(size: int, version: int = 1) -> bytes:
    """Random bytes, the same on every machine."""
    return random.Random(version).randbytes(size)


@dataclass(frozen=True)
class Ask:
    """A request's head, and what its path asks for."""

    port: int
    protocol: str
    method: str
    target: str
    headers: dict[str, str]
    turn: int = 1

    @property
    def size(self) -> int:
        return int(urlsplit(self.target).path.split("/")[2])

    @property
    def options(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def fault(self) -> str:
        if self.turn > int(self.options.get("times", "1000000")):
            return self.options.get("then", "honest")
        return urlsplit(self.target).path.split("/")[1]


@dataclass(frozen=True)
class Answer:
    """A response, and where it departs from what it announces. `announced` is the Content-Length, by default the true one.

    Ends: `close` is a FIN without TLS's close_notify, `goodbye` is a FIN after it.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    announced: int | None = None
    framing: Framing = "length"
    # Number of body bytes before the end; None: all.
    sent: int | None = None
    end: End = "done"
    # Instead of head and body; b"" is silence.
    raw: bytes | None = None
    # How much of an upload is read before the response.
    reading: Reading = "all"


# The validators of a file, by the option `validator`.
VALIDATORS: dict[str, Callable[[int], dict[str, str]]] = {
    "etag": lambda version: {"ETag": f'"v{version}"'},
    "weak": lambda version: {"ETag": f'W/"v{version}"'},
    "date": lambda version: {"Last-Modified": f"Sat, 21 Nov 2026 12:00:0{version} GMT", "Date": "Sat, 21 Nov 2026 12:01:09 GMT"},
    "young": lambda version: {"Last-Modified": f"Sat, 21 Nov 2026 12:00:0{version} GMT", "Date": "Sat, 21 Nov 2026 12:00:09 GMT"},
    "none": lambda _: {},
}


def honest(ask: Ask, version: int = 1) -> Answer:
    if ask.method in ("PUT", "POST"):
        return Answer(201)
    body, headers = (
        content(ask.size, version),
        {"Accept-Ranges": "bytes", **VALIDATORS[ask.options.get("validator", "etag")](version)},
    )
    first, validator = first_byte(ask), headers.get("ETag", headers.get("Last-Modified"))
    if first is None or ask.headers.get("if-range", validator) != validator:
        return Answer(200, headers, body)
    if first >= len(body):
        return Answer(416, {**headers, "Content-Range": f"bytes */{len(body)}"})
    return Answer(206, {**headers, "Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}, body[first:])


def first_byte(ask: Ask) -> int | None:
    """The first byte of a Range header that asks for the rest of a file, the only kind that is supported."""
    asked = ask.headers.get("range", "")
    return int(asked.removeprefix("bytes=").rstrip("-")) if asked else None


def half(ask: Ask, end: End) -> Answer:
    """Send only the first half of the file, then end the answer with `end`."""
    return replace(honest(ask), sent=max(0, ask.size // 2 - (first_byte(ask) or 0)), end=end)


def says(ask: Ask) -> Answer:
    """A status, and any of the headers that options can name."""
    names = {"retry_after": "Retry-After", "to": "Location"}
    headers = {name: ask.options[option] for option, name in names.items() if option in ask.options}
    return Answer(int(ask.options["status"]), headers, b"said\n")


def wrong_range(ask: Ask) -> Answer:
    """Other bytes than asked for, honestly labelled."""
    answer, first = honest(ask), first_byte(ask)
    if first is None:
        return answer
    body = content(ask.size)[first - 10 :]
    return replace(
        answer, headers={**answer.headers, "Content-Range": f"bytes {first - 10}-{ask.size - 1}/{ask.size}"}, body=body
    )


def unsatisfied(ask: Ask) -> Answer:
    """The file has become shorter than what was asked for."""
    if first_byte(ask) is None:
        return Answer(200, {"ETag": '"v2"'}, content(100, version=2))
    return Answer(416, {"Content-Range": "bytes */100"})


def named(ask: Ask) -> Answer:
    answer = honest(ask)
    return replace(answer, headers={**answer.headers, "Content-Disposition": f'attachment; filename="{ask.options["name"]}"'})


FAULTS: dict[str, Callable[[Ask], Answer]] = {
    "honest": honest,
    "changed": lambda ask: honest(ask, version=2),
    "says": says,
    "loop": lambda ask: Answer(302, {"Location": ask.target}),
    "named": named,
    # The body
    "cut": lambda ask: half(ask, "close"),
    "chunked": lambda ask: replace(honest(ask), framing="chunks"),
    "chunked-cut": lambda ask: replace(half(ask, "close"), framing="chunks"),
    "until-close": lambda ask: replace(honest(ask), framing="close", end="close"),
    "until-close-cut": lambda ask: replace(half(ask, "close"), framing="close"),
    "until-goodbye": lambda ask: replace(honest(ask), framing="close", end="goodbye"),
    "reset": lambda ask: half(ask, "reset"),
    "stall": lambda ask: half(ask, "stall"),
    "short": lambda ask: half(ask, "done"),
    "long": lambda ask: replace(honest(ask), body=content(ask.size + 1000), announced=ask.size),
    # The head
    "silent": lambda _: Answer(end="stall", raw=b""),
    "closed": lambda _: Answer(end="close", raw=b""),
    "garbage": lambda _: Answer(raw=b"\xff\xfe" + content(2000).replace(b"\n", b"")),
    "huge-head": lambda _: Answer(200, {f"X-Fill-{index}": "x" * 1000 for index in range(1000)}, b"small"),
    # Ranges
    "ignores-range": lambda ask: Answer(200, {"ETag": '"v1"'}, content(ask.size)),
    "wrong-range": wrong_range,
    "unasked-range": lambda ask: Answer(206, {"Content-Range": f"bytes 0-99/{ask.size}"}, content(ask.size)[:100]),
    "unsatisfied": unsatisfied,
    # Uploads
    "lost": lambda _: Answer(end="reset", raw=b"", reading="some"),
    "deaf": lambda _: Answer(end="deaf", raw=b"", reading="none"),
    "early": lambda _: Answer(201, end="deaf", reading="some"),
    "too-large": lambda _: Answer(413, {}, b"too large\n", reading="none"),
    "too-large-closed": lambda _: Answer(413, {"Connection": "close"}, b"too large\n", end="close", reading="none"),
    # h2 alone
    "reset-stream": lambda ask: half(ask, "reset-stream"),
    "refuse-stream": lambda _: Answer(end="refuse-stream", raw=b"", reading="none"),
    "go-away": lambda ask: half(ask, "go-away"),
    "go-away-at-once": lambda _: Answer(end="go-away-at-once", raw=b""),
}


def answer_to(ask: Ask) -> Answer:
    return FAULTS[ask.fault](ask) if ask.fault in FAULTS else Answer(404)
