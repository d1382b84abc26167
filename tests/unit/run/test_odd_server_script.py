"""The server that fails or lies, request by request: what of an answer is harmed, what is not, and how often."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab.run.events import odd_server_script
from lab.run.events.odd_server_script import Faulty, Request
from tests.support.ports import free_port
from tests.support.waiting import until

CONTENT = bytes(range(256)) * 100
SIZE = len(CONTENT)
IDENTITY = {"ETag": '"one"', "Last-Modified": "Sun, 01 Jan 2023 00:00:00 GMT"}
ALWAYS = {"Connection": "close", "Accept-Ranges": "bytes"}


class Answer(NamedTuple):
    first: str
    fields: dict[str, str]
    body: bytes


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    for name in ("files", "upload"):
        (tmp_path / name).mkdir()
    (tmp_path / "files" / "f").write_bytes(CONTENT)
    return Faulty(str(tmp_path), str(tmp_path / "files"), str(tmp_path / "upload"))


def plan(faulty: Faulty, fault: str, **more: Any) -> None:
    Path(faulty.folder, "plan.json").write_text(json.dumps({"sample": 1, "fault": fault, "at": 1000, **more}))


def events(faulty: Faulty) -> list[dict[str, Any]]:
    """The log without its times."""
    place = Path(faulty.folder, "log")
    lines = [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []
    return [{name: each[name] for name in each if name != "t_ns"} for each in lines]


def connected(faulty: Faulty) -> tuple[socket.socket, Request]:
    ours, its = socket.socketpair()
    ours.settimeout(10)
    worker = Request(faulty, its)
    worker.start()
    return ours, worker


def answered(faulty: Faulty, *pieces: bytes) -> bytes:
    """Everything that the server says to a request that comes in pieces."""
    ours, worker = connected(faulty)
    got = b""
    with ours:
        for piece in pieces:
            ours.sendall(piece)
        ours.shutdown(socket.SHUT_WR)
        while data := ours.recv(1 << 16):
            got += data
    worker.join(10)
    assert not worker.is_alive()
    return got


def ask(faulty: Faulty, *pieces: bytes) -> Answer:
    head, _, body = answered(faulty, *pieces).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return Answer(first, dict(line.split(": ") for line in lines), body)


def get(name: str = "f", more: str = "", method: str = "GET") -> bytes:
    return f"{method} /files/{name} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def ranged(text: str) -> bytes:
    return get(more=f"Range: bytes={text}\r\n")


def put(content: bytes, more: str = "") -> bytes:
    return f"PUT /upload/u HTTP/1.1\r\nContent-Length: {len(content)}\r\n{more}\r\n".encode() + content


def stored(faulty: Faulty) -> bytes | None:
    place = Path(faulty.uploads, "u")
    return place.read_bytes() if place.exists() else None


# --- an honest server -------------------------------------------------------------------------------------------------


def test_an_honest_answer_is_complete_and_ends_its_connection(faulty: Faulty) -> None:
    found = ask(faulty, get())
    assert found == ("HTTP/1.1 200 OK", ALWAYS | IDENTITY | {"Content-Length": str(SIZE)}, CONTENT)
    assert events(faulty) == [{"what": "request", "method": "GET", "range": ""}]


def test_an_open_connection_does_not_keep_the_server_running(faulty: Faulty) -> None:
    ours, its = socket.socketpair()
    with ours, its:
        assert Request(faulty, its).daemon


def test_a_request_may_come_in_pieces(faulty: Faulty) -> None:
    assert ask(faulty, get()[:9], get()[9:-2], get()[-2:]).body == CONTENT


def test_a_question_for_readiness_does_not_count_as_a_request(faulty: Faulty) -> None:
    found = ask(faulty, b"GET /ready HTTP/1.1\r\n\r\n")
    assert found == ("HTTP/1.1 204 No Content", ALWAYS | {"Content-Length": "0"}, b"")
    assert events(faulty) == []


def test_what_is_not_there_is_not_found(faulty: Faulty) -> None:
    assert ask(faulty, get("g")) == ("HTTP/1.1 404 Not Found", ALWAYS | {"Content-Length": "0"}, b"")


def test_a_head_has_the_length_without_the_content_and_is_never_harmed(faulty: Faulty) -> None:
    plan(faulty, "http-error", status=500, retry_after_s=0, times=9)
    found = ask(faulty, get(method="HEAD"))
    assert found == ("HTTP/1.1 200 OK", ALWAYS | IDENTITY | {"Content-Length": str(SIZE)}, b"")


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [("500-", 500, SIZE), ("500-599", 500, 600), ("0-0", 0, 1), (f"7-{SIZE - 1}", 7, SIZE), (f"7-{SIZE + 9}", 7, SIZE)],
)
def test_a_part_is_what_was_asked_for(faulty: Faulty, asked: str, start: int, end: int) -> None:
    found = ask(faulty, ranged(asked))
    assert found.first == "HTTP/1.1 206 Partial Content"
    fields = {"Content-Range": f"bytes {start}-{end - 1}/{SIZE}", "Content-Length": str(end - start)}
    assert (found.fields, found.body) == (ALWAYS | IDENTITY | fields, CONTENT[start:end])
    assert events(faulty) == [{"what": "request", "method": "GET", "range": f"bytes={asked}"}]


def test_a_field_is_known_however_it_is_written(faulty: Faulty) -> None:
    assert ask(faulty, get(more="rANGE:bytes=10-  \r\n")).body == CONTENT[10:]


def test_an_upload_is_stored_completely(faulty: Faulty) -> None:
    found = ask(faulty, put(CONTENT))
    assert found == ("HTTP/1.1 201 Created", ALWAYS | {"Content-Length": "0"}, b"")
    assert stored(faulty) == CONTENT
    assert ask(faulty, put(b"ab") + b"what follows is not part of it").first == "HTTP/1.1 201 Created"
    assert stored(faulty) == b"ab"
    assert ask(faulty, b"PUT /upload/u HTTP/1.1\r\n\r\n").first == "HTTP/1.1 201 Created"
    assert stored(faulty) == b""


def test_an_upload_in_chunks_is_stored_completely(faulty: Faulty) -> None:
    head = b"PUT /upload/u HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
    body = b"5;name=value\r\nhello\r\n1A\r\n" + bytes(26) + b"\r\n0\r\n\r\n"
    assert ask(faulty, head, *(body[at : at + 1] for at in range(len(body)))).first == "HTTP/1.1 201 Created"
    assert stored(faulty) == b"hello" + bytes(26)


def test_a_client_that_asks_first_may_go_on_before_it_sends(faulty: Faulty) -> None:
    ours, worker = connected(faulty)
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    with ours:
        ours.sendall(put(b"abc", "Expect: 100-Continue\r\n")[:-3])
        assert ours.recv(100) == go_on
        ours.sendall(b"abc")
        assert ours.recv(1000).startswith(b"HTTP/1.1 201 Created\r\n")
    worker.join(10)
    assert go_on not in answered(faulty, put(b"abc", "Expect: something\r\n"))


@pytest.mark.parametrize(
    "request_",
    [b"", get()[:-1], put(b"abc")[:-1], b"PUT /upload/u HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"],
    ids=("none", "half a head", "half a body", "half a chunk"),
)
def test_what_is_cut_off_is_not_answered_and_not_stored(faulty: Faulty, request_: bytes) -> None:
    assert answered(faulty, request_) == b""
    assert stored(faulty) is None


# --- its faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_error_has_its_own_words_and_a_page(faulty: Faulty, status: int) -> None:
    plan(faulty, "http-error", status=status, retry_after_s=0, times=1)
    found = ask(faulty, get())
    assert found.first == f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    assert (found.fields, len(found.body)) == (ALWAYS | {"Content-Length": "1000"}, 1000)
    assert found.body.count(b"The server is busy.\n") == 50


def test_an_error_strikes_as_often_as_the_plan_says_and_is_counted(faulty: Faulty) -> None:
    plan(faulty, "http-error", status=503, retry_after_s=7, times=2)
    found = [ask(faulty, get()), ask(faulty, put(b"new")), ask(faulty, put(b"newer"))]
    assert [each.first[9:12] for each in found] == ["503", "503", "201"]
    assert [each.fields.get("Retry-After") for each in found] == ["7", "7", None]
    assert [each["number"] for each in events(faulty) if each["what"] == "fault"] == [1, 2]
    assert stored(faulty) == b"newer"
    plan(faulty, "http-error", sample=2, status=503, retry_after_s=7, times=1)
    assert [ask(faulty, get()).first[9:12] for _ in range(2)] == ["503", "200"], "another sample begins again"


@pytest.mark.parametrize(("at", "length"), [(100, 100), (998, 998), (999, 0), (1000, 1)])
def test_an_error_that_is_cut_announces_all_of_its_page(faulty: Faulty, at: int, length: int) -> None:
    plan(faulty, "error-cut", status=500, retry_after_s=0, times=1, at=at)
    found = ask(faulty, get())
    assert (found.fields["Content-Length"], len(found.body)) == ("1000", length)


def test_a_wrong_length_is_that_of_the_file_and_not_of_a_part(faulty: Faulty) -> None:
    for number, (fault, length) in enumerate((("length-long", SIZE + 5), ("length-short", 1000))):
        plan(faulty, fault, sample=number, extra=5)
        for _ in range(3):
            found = ask(faulty, get())
            assert found == ("HTTP/1.1 200 OK", ALWAYS | IDENTITY | {"Content-Length": str(length)}, CONTENT)
        assert ask(faulty, ranged("10-")).fields["Content-Range"] == f"bytes 10-{SIZE - 1}/{SIZE}"
    assert [each["number"] for each in events(faulty) if each["what"] == "fault"] == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(("at", "pieces"), [(1, [1]), (8192, [8192]), (8193, [8192, 1]), (20_000, [8192, 8192, 3616])])
def test_chunks_end_at_the_byte_without_their_last_one_and_once(faulty: Faulty, at: int, pieces: list[int]) -> None:
    plan(faulty, "chunked-cut", at=at)
    found = ask(faulty, get())
    assert found.fields == ALWAYS | IDENTITY | {"Transfer-Encoding": "chunked"}
    rest = found.body
    for start, size in enumerate(pieces):
        head, _, rest = rest.partition(b"\r\n")
        assert int(head, 16) == size
        assert rest[:size] == CONTENT[start * 8192 : start * 8192 + size]
        assert rest[size : size + 2] == b"\r\n"
        rest = rest[size + 2 :]
    assert rest == b""
    assert ask(faulty, get()) == ("HTTP/1.1 200 OK", ALWAYS | IDENTITY | {"Content-Length": str(SIZE)}, CONTENT)
    plan(faulty, "chunked-cut", sample=2)
    assert ask(faulty, ranged("10-")).body == CONTENT[10:], "a part is not in chunks"


@pytest.mark.parametrize("fault", ["wrong-range", "ignored-range"])
def test_content_is_cut_once_so_that_a_client_asks_for_the_rest(faulty: Faulty, fault: str) -> None:
    plan(faulty, fault, shift=0, unnamed=False)
    found = ask(faulty, get())
    assert found == ("HTTP/1.1 200 OK", ALWAYS | IDENTITY | {"Content-Length": str(SIZE)}, CONTENT[:1000])
    assert ask(faulty, get()).body == CONTENT


@pytest.mark.parametrize(
    ("shift", "start"), [(1, 501), (-1, 499), (-500, 0), (-501, 0), (SIZE - 501, SIZE - 1), (SIZE, SIZE - 1)]
)
def test_another_part_than_was_asked_for_is_one_of_the_content(faulty: Faulty, shift: int, start: int) -> None:
    plan(faulty, "wrong-range", shift=shift, unnamed=False)
    found = ask(faulty, ranged("500-"))
    assert (found.first, found.body) == ("HTTP/1.1 206 Partial Content", CONTENT[start:])
    assert found.fields["Content-Range"] == f"bytes {start}-{SIZE - 1}/{SIZE}"
    assert events(faulty)[-1] == {"what": "lie", "asked": 500}


def test_another_part_may_have_no_name(faulty: Faulty) -> None:
    plan(faulty, "wrong-range", shift=1, unnamed=True)
    found = ask(faulty, ranged("500-"))
    assert (found.fields, found.body) == (ALWAYS | IDENTITY | {"Content-Length": str(SIZE - 501)}, CONTENT[501:])


def test_a_range_that_is_ignored_is_answered_with_everything(faulty: Faulty) -> None:
    plan(faulty, "ignored-range", at=1000)
    assert ask(faulty, ranged("500-")) == ("HTTP/1.1 200 OK", ALWAYS | IDENTITY | {"Content-Length": str(SIZE)}, CONTENT)


def test_success_may_come_before_the_end_of_an_upload_and_once(faulty: Faulty) -> None:
    plan(faulty, "early-success", at=12_345, abrupt=False)
    assert ask(faulty, put(CONTENT)).first == "HTTP/1.1 201 Created"
    assert stored(faulty) == CONTENT[:12_345]
    assert ask(faulty, put(CONTENT)).first == "HTTP/1.1 201 Created"
    assert stored(faulty) == CONTENT


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_connection_with_an_early_success_is_reset_only_where_the_plan_says_so(faulty: Faulty, abrupt: bool) -> None:
    plan(faulty, "early-success", at=1, abrupt=abrupt)
    content = bytes(150_000)  # more than the server reads at once, less than the sockets hold
    ours, worker = connected(faulty)
    with ours:
        ours.sendall(put(content))
        assert ours.recv(1000).startswith(b"HTTP/1.1 201 Created\r\n")
        ours.shutdown(socket.SHUT_WR)
        if abrupt:
            worker.join(10)
            with pytest.raises(ConnectionResetError):
                ours.recv(1000)
        else:
            assert ours.recv(1000) == b""
    worker.join(10)
    assert not worker.is_alive()


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_program_answers_one_connection_while_another_is_open(faulty: Faulty) -> None:
    port = free_port()
    words = [sys.executable, odd_server_script.__file__, faulty.folder, str(port), faulty.files, faulty.uploads]
    with subprocess.Popen(words) as program:
        try:
            found: list[socket.socket] = []

            def reach() -> bool:
                with suppress(ConnectionRefusedError):
                    found.append(socket.create_connection(("127.0.0.1", port), timeout=10))
                return bool(found)

            until(reach, "the server listens")
            with found[0], socket.create_connection(("127.0.0.1", port), timeout=10) as second:
                second.sendall(get())
                second.shutdown(socket.SHUT_WR)
                got = b""
                while data := second.recv(1 << 16):
                    got += data
                assert got.endswith(b"\r\n\r\n" + CONTENT)
        finally:
            program.kill()
