"""`--connections`: the ranges are of one version and complete, and a signed URL that is over is signed again."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.harness import failed
from tests.engine.test_hostile_ranges import BODY, BRIEFLY, MIB, ONCE, SIZE, Asked, Files, arrived, get, kept_nothing
from tests.engine.test_hostile_ranges import _asked as asked_by
from tests.support.hostile_http import HostileServer, Talk, head, serve

SAME_SIZE = random.Random(23).randbytes(SIZE)
DATE = "Last-Modified: Sat, 21 Nov 2026 12:00:0{} GMT"
Odd = Callable[[Files, Talk, Asked], bool]


def other_version(*before: str, then: tuple[str, ...]) -> Odd:
    """The third answer is of another version, whatever If-Range says; `before` and `then` are the fields of the two."""

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.last is None:
            return False
        if asked.number == 2:
            files.body, files.validator = SAME_SIZE, '"two"'
        elif asked.number > 2:
            return False
        fields = then if asked.number == 2 else before
        last = min(asked.last, SIZE - 1)
        files.head(talk, asked.first, last + 1 - asked.first, SIZE, *fields)
        files.send(talk, files.body[asked.first : last + 1])
        # The answer has been given, and the connection ends.
        return True

    return odd


@pytest.mark.parametrize(
    "odd",
    [
        other_version('ETag: "one"', then=('ETag: "two"',)),
        other_version('ETag: "one"', then=()),
        other_version('ETag: "one"', then=('ETag: W/"one"',)),
        other_version('ETag: "one"', DATE.format(1), then=('ETag: "one"', DATE.format(2))),
    ],
    ids=["another", "none", "weak", "another young date"],
)
def test_a_range_of_another_version_is_never_put_between_those_of_the_first(tmp_path: Path, odd: Odd) -> None:
    with serve(Files(odd=odd)) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, SAME_SIZE)
    assert any("the file has changed" in (attempt["error"] or {}).get("message", "") for attempt in told.attempts)


@pytest.mark.parametrize("how", ["200", "206"])
@pytest.mark.parametrize("connections", [2, 4])
def test_a_strong_validator_has_one_length(tmp_path: Path, how: str, connections: int) -> None:
    """From the second request on the server has less, under the same validator: no part of the file is the file."""

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number == 0:
            return False
        files.body = BODY[: SIZE - 5 * MIB]
        if how == "200":
            talk.send(head("200 OK", len(files.body), 'ETag: "one"'))
            files.send(talk, files.body)
        return how == "200"

    with serve(Files(odd=odd)) as server:
        told = get(tmp_path, server, *BRIEFLY, connections=connections)
    failed(told, "transient", f"{SIZE - 5 * MIB} bytes for the version")
    kept_nothing(tmp_path)


@pytest.mark.parametrize("length", [0, 1000])
def test_fewer_chunks_than_the_range_end_it(tmp_path: Path, length: int) -> None:
    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number < 1 or asked.last is None:
            return False
        of = f"Content-Range: bytes {asked.first}-{asked.last}/{SIZE}"
        talk.send(head("206 Partial Content", None, "Transfer-Encoding: chunked", 'ETag: "one"', of))
        data = BODY[asked.first : asked.first + length]
        talk.send(b"%x\r\n%b\r\n" % (len(data), data) if data else b"", b"0\r\n\r\n")
        return True

    with serve(Files(odd=odd)) as server:
        told = get(tmp_path, server, *BRIEFLY)
    failed(told, "integrity", f"bytes were announced and {length} came")
    kept_nothing(tmp_path)


def test_a_range_that_a_close_has_cut_goes_on(tmp_path: Path) -> None:
    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number not in (1, 3) or asked.last is None:
            return False
        of = f"Content-Range: bytes {asked.first}-{asked.last}/{SIZE}"
        talk.send(head("206 Partial Content", None, "Connection: close", 'ETag: "one"', of))
        files.send(talk, BODY[asked.first : asked.first + 1000])
        return True

    files = Files(odd=odd)
    with serve(files) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, BODY)
    assert files.sent == SIZE


def test_a_note_is_not_the_file(tmp_path: Path) -> None:
    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        talk.send(head("202 Accepted", 6), b"later\n")
        return False

    with serve(Files(odd=odd)) as server:
        failed(get(tmp_path, server), "permanent", "202")
    kept_nothing(tmp_path)


# 12: signed URLs


class Signed:
    """/file leads to a signed URL, another one each time, which serves `good` requests; with `once` it is gone afterwards."""

    def __init__(self, good: int, most: int = SIZE, *, once: bool = False) -> None:
        self.good, self.most, self.once = good, most, once
        self.files = Files()
        self.uses: Counter[str] = Counter()
        self.lock = threading.Lock()

    def __call__(self, talk: Talk, _: HostileServer) -> None:
        while True:
            text = talk.request()
            path = text.split()[1]
            with self.lock:
                self.uses[path] += 1
                count, number = self.uses[path], self.uses.total()
            if path == "/file" and self.once and count > 1:
                talk.send(head("404 Not Found", 0))
            elif path == "/file":
                talk.send(head("302 Found", 0, f"Location: /signed/{count}?key=secret"))
            elif count > self.good:
                talk.send(head("403 Forbidden", 0))
            else:
                asked = asked_by(text, talk.number, number)
                assert asked.last is not None
                length = min(asked.last, SIZE - 1) + 1 - asked.first
                self.files.head(talk, asked.first, length, SIZE, 'ETag: "one"')
                self.files.send(talk, BODY[asked.first : asked.first + min(length, self.most)])
                if length > self.most:
                    return


@pytest.mark.parametrize(("good", "most"), [(1, SIZE), (3, SIZE), (1, 3 * MIB)], ids=["once", "three times", "once and cut"])
@pytest.mark.parametrize("connections", [2, 3])
def test_a_signed_url_that_is_over_is_signed_again(tmp_path: Path, good: int, most: int, connections: int) -> None:
    signed = Signed(good, most)
    with serve(signed) as server:
        told = get(tmp_path, server, *BRIEFLY, connections=connections)
    arrived(tmp_path, told, BODY)
    assert signed.uses["/file"] > 1
    assert "secret" not in told.stderr + str([attempt["error"] for attempt in told.attempts])
    # Every range costs some requests, and none is asked for without an end.
    assert signed.uses.total() < 40 * (1 + SIZE // most)


def test_a_signed_url_that_was_never_good_is_refused(tmp_path: Path) -> None:
    signed = Signed(0)
    with serve(signed) as server:
        told = get(tmp_path, server, *BRIEFLY)
    failed(told, "permanent", "403")
    assert "secret" not in str(told.error)
    assert signed.uses.total() < 10


def test_where_the_first_url_has_gone_meanwhile_the_run_ends(tmp_path: Path) -> None:
    """The signed URL is over, and the URL that led there too."""
    signed = Signed(1, once=True)
    with serve(signed) as server:
        told = get(tmp_path, server, *ONCE, connections=2)
    assert (told.code, told.error["class"]) == (11, "permanent")
