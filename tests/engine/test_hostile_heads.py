"""Answers over HTTP/1.1 whose heads are not well-formed: taken where every client finds one message in them, else refused.

`curl` is how curl 7.88 took each, tried by hand on 28 November 2026. Where it takes what ferry refuses, the row says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.harness import failed
from tests.engine.test_hostile_http import arrived, get
from tests.support.hostile_http import HostileServer, Talk, serve

HELLO = b"hello"
CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"
LENGTH = b"Content-Length: 5\r\n"
CODED = b"Transfer-Encoding: chunked\r\n"


@dataclass(frozen=True)
class Answer:
    name: str
    taken: bool
    curl: bool
    fields: bytes
    body: bytes = HELLO
    status: bytes = b"HTTP/1.1 200 OK\r\n"


ANSWERS = (
    # No two clients differ about these.
    Answer("blank before the first field", True, False, b" A: b\r\n" + LENGTH),
    Answer("blank before a later field", True, True, b"B: c\r\n A: b\r\n" + LENGTH),
    Answer("blank before a colon", True, True, b"A : b\r\n" + LENGTH),
    Answer("blank within a name", True, True, b"A b: c\r\n" + LENGTH),
    Answer("no name", True, True, b": b\r\n" + LENGTH),
    Answer("no character of a name", True, True, b"A(b)\xe4: c\r\n" + LENGTH),
    Answer("control in a value", True, True, b"A: b\x01c\r\n" + LENGTH),
    Answer("delete in a value", True, True, b"A: \x7f\r\n" + LENGTH),
    Answer("control in a fold", True, True, b"A: b\r\n \x1b[2J\r\n" + LENGTH),
    Answer("300 lines", True, True, b"A: b\r\n" * 300 + LENGTH),
    Answer("head of 90 kB", True, True, (b"Set-Cookie: " + b"c" * 3000 + b"\r\n") * 30 + LENGTH),
    Answer("length and chunks", True, True, LENGTH + CODED, CHUNKS),
    Answer("chunks and a wrong length", True, True, CODED + b"Content-Length: 7\r\n", CHUNKS),
    Answer("identity with a length", True, True, b"Transfer-Encoding: identity\r\n" + LENGTH),
    Answer("identity and chunked", True, True, b"Transfer-Encoding: identity, chunked\r\n", CHUNKS),
    Answer("chunked with a comma", True, True, b"Transfer-Encoding: chunked,\r\n", CHUNKS),
    Answer("chunks in HTTP/1.0", True, True, CODED, CHUNKS, b"HTTP/1.0 200 OK\r\n"),
    Answer("blanks in a trailer", True, True, CODED, b"5\r\nhello\r\n0\r\nA : b\r\n c\r\n\r\n"),
    # Here they do.
    Answer("line without a colon", False, False, b"no colon\r\n" + LENGTH),
    Answer("NUL in a value", False, False, b"A: b\0c\r\n" + LENGTH),
    # A line ends there for some.
    Answer("CR in a value", False, True, b"A: b\rContent-Length: 2\r\n" + LENGTH),
    # A length for some, and no length for others.
    Answer("blank before the colon of the length", False, True, b"Content-Length : 2\r\n"),
    Answer("blank before a first length", False, False, b" Content-Length: 2\r\n"),
    # The body is compressed, or in chunks within chunks.
    Answer("gzip and chunked", False, False, b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
    Answer("chunked twice", False, True, b"Transfer-Encoding: chunked, chunked\r\n", CHUNKS),
    # The length is wrong, and the file may be cut short by it.
    Answer("body longer than its length", False, True, b"Content-Length: 2\r\n"),
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_head_is_taken_where_it_means_one_thing(tmp_path: Path, answer: Answer) -> None:
    def script(talk: Talk, _: HostileServer) -> None:
        talk.request()
        talk.hold_together()
        talk.send(answer.status + answer.fields + b"\r\n" + answer.body)

    with serve(script) as server:
        told = get(tmp_path, server, "--retry", "0")
    if answer.taken:
        arrived(tmp_path, told, HELLO)
    else:
        failed(told, "integrity")
        assert not (tmp_path / "file").exists()
