"""A download that goes on with a second answer: the file is one version that the server had, or the run fails."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from tests.engine.harness import Told, failed
from tests.engine.test_hostile_http import ferry
from tests.support.hostile_http import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    RST_STREAM,
    HostileServer,
    Talk,
    block,
    frame,
    head,
    serve,
)

SIZE = 30_000
HALF = SIZE // 2
OLD, NEW = (random.Random(version).randbytes(SIZE) for version in (1, 2))
SHORT = NEW[:20_000]
BRIEFLY = ("--retry-max-wait", "50ms")
ONCE = ("--retry", "0")
FRAME = 16_384
REASONS = {200: "OK", 206: "Partial Content", 416: "Range Not Satisfiable"}

Fields = tuple[tuple[str, str], ...]
ONE: Fields = (("ETag", '"one"'),)
TWO: Fields = (("ETag", '"two"'),)


def dated(seconds: int, now: str = "13:00:00") -> Fields:
    return (("Last-Modified", f"Sat, 21 Nov 2026 12:00:{seconds:02} GMT"), ("Date", f"Sat, 21 Nov 2026 {now} GMT"))


@dataclass(frozen=True)
class Said:
    """One answer. `announced` is its Content-Length, by default the true one; `cut` ends connection or stream behind the body."""

    status: int
    body: bytes = b""
    fields: Fields = ()
    announced: int | None = None
    framing: str = "length"
    cut: bool = False

    def head_fields(self) -> Fields:
        length = len(self.body) if self.announced is None else self.announced
        return (*self.fields, ("Content-Length", str(length))) if self.framing == "length" else self.fields

    def over_h1(self, talk: Talk) -> bool:
        """Whether the connection goes on."""
        lines = [f"{name}: {value}" for name, value in self.head_fields()]
        if self.framing == "chunks":
            lines.append("Transfer-Encoding: chunked")
        talk.send(head(f"{self.status} {REASONS.get(self.status, 'Said')}", None, *lines))
        body = self.body
        if self.framing == "chunks":
            end = b"" if self.cut else b"0\r\n\r\n"
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + end
        talk.send(body)
        return not self.cut and self.framing != "close"

    def over_h2(self, talk: Talk, stream: int) -> None:
        fields = ((":status", str(self.status)), *((name.lower(), value) for name, value in self.head_fields()))
        pieces = [self.body[at : at + FRAME] for at in range(0, len(self.body), FRAME)]
        talk.send(frame(HEADERS, block(*fields), flags=END_HEADERS, stream=stream))
        talk.send(*(frame(DATA, piece, stream=stream) for piece in pieces))
        if self.cut:
            talk.send(frame(RST_STREAM, (2).to_bytes(4, "big"), stream=stream))
        else:
            talk.send(frame(DATA, flags=END_STREAM, stream=stream))


def begun(fields: Fields = ONE, **more: bool | str) -> Said:
    """The first half of the old version."""
    return replace(Said(200, OLD[:HALF], fields, SIZE, cut=True), **more)  # type: ignore[arg-type]


def rest(body: bytes, fields: Fields, range_: str = "", **more: str) -> Said:
    span = range_ or f"{HALF}-{len(body) - 1}/{len(body)}"
    return replace(Said(206, body[HALF:], (*fields, ("Content-Range", f"bytes {span}"))), **more)  # type: ignore[arg-type]


def whole(body: bytes, fields: Fields, status: int = 200) -> Said:
    return Said(status, body, fields)


Protocol = Callable[[tuple[Said, ...]], Callable[[Talk, HostileServer], None]]


def h1(answers: tuple[Said, ...]) -> Callable[[Talk, HostileServer], None]:
    """Each request is given the next answer, and the last one again and again."""

    def script(talk: Talk, server: HostileServer) -> None:
        goes_on = True
        while goes_on:
            server.requests.append(talk.request())
            goes_on = answers[min(len(server.requests), len(answers)) - 1].over_h1(talk)

    return script


def h2(answers: tuple[Said, ...]) -> Callable[[Talk, HostileServer], None]:
    def script(talk: Talk, server: HostileServer) -> None:
        talk.hello()
        for kind, _, stream, _ in talk.frames():
            if kind == HEADERS:
                server.requests.append(str(stream))
                answers[min(len(server.requests), len(answers)) - 1].over_h2(talk, stream)

    return script


@dataclass(frozen=True)
class Case:
    """What the server answers, one request after the other, and what becomes of it. The last answer is given again."""

    name: str
    answers: tuple[Said, ...]
    # The content of the file; else the class of the error and a part of its message.
    file: bytes | None = None
    kind: str = ""
    says: str = ""
    # Framing that HTTP/2 does not have.
    only_h1: bool = False
    # The first answer does not leave anything for another process.
    only_here: bool = False

    def __str__(self) -> str:
        return self.name


# 4: a 206 of another version. The server knows Range, and not If-Range.
CHANGED = (
    Case("another-etag", (begun(), rest(NEW, TWO), whole(NEW, TWO)), NEW),
    Case("no-etag-any-more", (begun(), rest(NEW, ()), whole(NEW, TWO)), NEW),
    Case("a-weak-etag-of-the-same-name", (begun(), rest(NEW, (("ETag", 'W/"one"'),)), whole(NEW, TWO)), NEW),
    Case("another-date", (begun(dated(1)), rest(NEW, dated(2)), whole(NEW, dated(2))), NEW),
    Case("a-young-date", (begun(dated(1)), rest(NEW, dated(2, "12:00:03")), whole(NEW, dated(2))), NEW),
    Case(
        "one-date-and-another-weak-etag",
        (begun((*dated(1), ("ETag", 'W/"one"'))), rest(NEW, (*dated(1), ("ETag", 'W/"two"'))), whole(NEW, TWO)),
        NEW,
    ),
    Case(
        "one-etag-and-another-young-date",
        (begun((*ONE, *dated(1, "12:00:03"))), rest(NEW, (*ONE, *dated(2, "12:00:03"))), whole(NEW, TWO)),
        NEW,
    ),
    Case("another-size", (begun(), rest(SHORT, TWO), whole(SHORT, TWO)), SHORT),
    Case("a-longer-file-of-unknown-size", (begun(), rest(OLD + b"more", ONE, f"{HALF}-{SIZE + 3}/*"), whole(OLD, ONE)), OLD),
    Case("unknown-size-at-first", (begun(framing="chunks"), rest(NEW, TWO), whole(NEW, TWO)), NEW),
    Case("nothing-but-changes", (begun(), rest(NEW, TWO), replace(rest(NEW, TWO), status=503)), None, "transient", "503"),
)

# The same version goes on. Last-Modified need not be repeated (RFC 9110, section 15.3.7).
UNCHANGED = (
    Case("one-etag", (begun(), rest(OLD, ONE)), OLD),
    Case("one-etag-without-its-date", (begun((*ONE, *dated(1))), rest(OLD, ONE)), OLD),
    Case("one-date", (begun(dated(1)), rest(OLD, dated(1))), OLD),
    Case("nothing-is-repeated-of-a-date", (begun(dated(1)), rest(OLD, ())), OLD),
    Case("of-unknown-size", (begun(), rest(OLD, ONE, f"{HALF}-{SIZE - 1}/*")), OLD),
    Case("chunks", (begun(framing="chunks"), rest(OLD, ONE, framing="chunks")), OLD),
    Case("nothing-is-left", (begun(framing="chunks"), Said(416, b"no", (("Content-Range", f"bytes */{HALF}"),))), OLD[:HALF]),
)

# A strong validator has one length.
PART_AS_A_WHOLE = whole(OLD[HALF:], ONE)
LENGTHS = (
    Case("the-rest-as-a-200", (begun(), PART_AS_A_WHOLE), None, "transient", f"{HALF} bytes for the version"),
    Case("the-rest-as-a-200-once", (begun(), PART_AS_A_WHOLE, whole(OLD, ONE)), OLD),
    Case("the-rest-as-a-200-of-no-version", (begun(), whole(OLD[HALF:], ())), None, "transient", "bytes for the version"),
    Case("the-rest-as-a-203", (begun(), replace(PART_AS_A_WHOLE, status=203)), None, "transient", "bytes for the version"),
    Case("the-rest-as-a-200-in-chunks", (begun(), replace(PART_AS_A_WHOLE, framing="chunks")), None, "transient", "the version"),
    Case(
        "the-rest-as-a-200-until-close",
        (begun(), replace(PART_AS_A_WHOLE, framing="close")),
        None,
        "transient",
        "the version",
        only_h1=True,
    ),
    Case("the-rest-as-a-200-of-one-date", (begun(dated(1)), whole(OLD[HALF:], dated(1))), None, "transient", "the version"),
    Case("one-etag-and-another-size", (begun(), rest(SHORT, ONE), whole(SHORT, ONE)), None, "transient", "20000 bytes for"),
    Case("one-etag-and-another-size-once", (begun(), rest(SHORT, ONE), whole(OLD, ONE)), OLD),
    # Nothing came of the first answer, so the second request asks for all of it.
    Case(
        "another-length-of-a-file-of-which-nothing-came",
        (Said(200, b"", ONE, SIZE, cut=True), PART_AS_A_WHOLE),
        None,
        "transient",
        "the version",
        only_here=True,
    ),
    Case("a-coded-body-has-a-length-of-its-own", (begun(), whole(SHORT, (*ONE, ("Content-Encoding", "x")))), SHORT),
    Case("another-version-in-full", (begun(), whole(SHORT, TWO)), SHORT),
    # 416 and 304
    Case("nothing-is-left-of-half", (begun(), Said(416, b"", (("Content-Range", f"bytes */{HALF}"),)), whole(OLD, ONE)), OLD),
    Case(
        "nothing-is-left-of-another-version",
        (begun(framing="chunks"), Said(416, b"", (*TWO, ("Content-Range", f"bytes */{HALF}"))), whole(NEW, TWO)),
        NEW,
    ),
    Case("a-416-for-ever", (begun(), Said(416, b"", (("Content-Range", f"bytes */{HALF}"),))), None, "permanent", "416"),
    Case("not-modified", (begun(), Said(304, b"", ONE)), None, "permanent", "304"),
    # A 206 that ends too early
    Case("a-part-of-the-rest", (begun(), rest(OLD, ONE, f"{HALF}-{HALF + 4999}/*")), None, "integrity", ""),
    Case(
        "a-part-of-the-rest-of-the-right-length",
        (begun(), replace(rest(OLD, ONE, f"{HALF}-{HALF + 4999}/*"), body=OLD[HALF : HALF + 5000])),
        None,
        "integrity",
        "does not go to the end",
    ),
    Case(
        "fewer-chunks-than-the-range",
        (begun(), replace(rest(OLD, ONE, framing="chunks"), body=OLD[HALF : HALF + 5000])),
        None,
        "integrity",
        "15000 bytes were announced and 5000 came",
    ),
    Case(
        "more-chunks-than-the-range",
        (begun(), replace(rest(OLD, ONE, framing="chunks"), body=OLD[HALF:] + b"more")),
        None,
        "integrity",
        "15000 bytes were announced and 15004 came",
    ),
    Case(
        "closed-in-the-range",
        (
            begun(),
            replace(rest(OLD, ONE, framing="close"), body=OLD[HALF : HALF + 5000]),
            Said(206, OLD[HALF + 5000 :], (*ONE, ("Content-Range", f"bytes {HALF + 5000}-{SIZE - 1}/{SIZE}"))),
        ),
        OLD,
        only_h1=True,
    ),
)

# Only a 200 has the file; a 203 has what a proxy has made of it, and a 204 says that it is empty.
STATUSES = (
    Case("203", (whole(OLD, ONE, 203),), OLD),
    Case("204", (Said(204, framing="none"),), b""),
    *(Case(str(status), (Said(status, b"a note"),), None, "permanent", f"{status}") for status in (201, 202, 207, 226, 299)),
    Case("the-rest-as-a-207", (begun(), replace(PART_AS_A_WHOLE, status=207)), None, "permanent", "207"),
    Case("an-empty-rest", (begun(), Said(204, framing="none")), None, "permanent", "204"),
    Case("an-empty-rest-of-no-version", (begun(()), Said(204, framing="none")), None, "permanent", "204", only_here=True),
)

CASES = (*CHANGED, *UNCHANGED, *LENGTHS, *STATUSES)


def get(folder: Path, server: HostileServer, *words: str) -> Told:
    return ferry(folder, "get", server.url(), "-o", "file", *server.trust(), *BRIEFLY, *words)


def judged(folder: Path, case: Case, told: Told) -> None:
    names = {path.name for path in folder.iterdir()}
    if case.file is None:
        failed(told, case.kind, case.says)
        assert "file" not in names
    else:
        assert told.code == 0, (told.error, told.stderr)
        assert (folder / "file").read_bytes() == case.file
        assert names == {"file"}


@pytest.mark.parametrize("protocol", [h1, h2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_file_is_one_version_or_the_run_fails(tmp_path: Path, case: Case, protocol: Protocol) -> None:
    if case.only_h1:
        protocol = h1
    with serve(protocol(case.answers), tls=protocol is h2, alpn="h2") as server:
        judged(tmp_path, case, get(tmp_path, server))


@pytest.mark.parametrize("case", [case for case in CASES if case.answers[0].cut and not case.only_here], ids=str)
def test_the_same_holds_for_what_an_earlier_run_has_left(tmp_path: Path, case: Case) -> None:
    with serve(h1(case.answers)) as server:
        failed(get(tmp_path, server, *ONCE), "transient", f"{HALF} bytes are kept for --resume")
        told = get(tmp_path, server, "--resume")
    judged(tmp_path, case, told)


@pytest.mark.parametrize("answer", [rest(NEW, TWO), rest(NEW, ()), rest(SHORT, ONE), whole(NEW, TWO)])
def test_standard_output_takes_nothing_back(tmp_path: Path, answer: Said) -> None:
    with serve(h1((begun(), answer, whole(NEW, TWO)))) as server:
        command = [str(find_ferry()), "get", server.url(), "-o", "-", "--json=report", *BRIEFLY]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 11
    assert b"cannot be taken back" in done.stderr
    assert done.stdout == OLD[:HALF]
    assert len(server.requests) == 2


def test_a_range_that_the_user_asked_for_is_complete_too(tmp_path: Path) -> None:
    """`--range` names the length of what must come, also where the answer has no length of its own."""
    short = replace(rest(OLD, ONE, framing="chunks"), body=OLD[HALF : HALF + 5000])
    with serve(h1((short,))) as server:
        failed(get(tmp_path, server, "--range", f"{HALF}-"), "integrity", "15000 bytes were announced and 5000 came")
    assert list(tmp_path.iterdir()) == []


def test_the_query_of_a_signed_url_is_in_no_message(tmp_path: Path) -> None:
    to = Said(302, b"", (("Location", "/signed?key=secret"),))
    for answers in ((to, Said(403)), (to, begun(), to, rest(SHORT, ONE, "1-2/3")), (to, Said(202)), (to, to)):
        with serve(h1(answers)) as server:
            told = get(tmp_path, server, "--max-redirects", "2" if answers[1] is to else "9")
        assert told.code != 0
        assert "secret" not in told.stderr + str([attempt["error"] for attempt in told.attempts]) + str(told.error)
