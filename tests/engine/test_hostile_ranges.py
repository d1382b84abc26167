"""A download in ranges over several connections (`--connections`), against servers that serve them well, badly, or not at all."""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.clients.ferry import find_ferry
from tests.engine.harness import Told
from tests.engine.test_hostile_http import ferry
from tests.support.hostile_http import HostileServer, Talk, head, serve
from tests.support.waiting import until

MIB = 1 << 20
SIZE = 24 * MIB
FIRST_RANGE = 4 * MIB
BODY = random.Random(21).randbytes(SIZE)
OTHER = random.Random(22).randbytes(SIZE - 5 * MIB)
ONCE = ("--retry", "0")
BRIEFLY = ("--retry-max-wait", "50ms")


@dataclass
class Asked:
    """One request."""

    connection: int
    number: int
    first: int
    last: int | None
    if_range: str | None


@dataclass
class Files:
    """Serves ranges of one file; `odd` may answer a request otherwise, and says whether it has."""

    body: bytes = BODY
    validator: str | None = '"one"'
    odd: Callable[[Files, Talk, Asked], bool] | None = None
    asked: list[Asked] = field(default_factory=list)
    sent: int = 0
    byte_s: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, talk: Talk, _: HostileServer) -> None:
        while True:
            text = talk.request()
            with self.lock:
                asked = _asked(text, talk.number, len(self.asked))
                self.asked.append(asked)
            if self.odd is not None and self.odd(self, talk, asked):
                return
            self.answer(talk, asked)

    def answer(self, talk: Talk, asked: Asked) -> None:
        body, validator = self.body, self.validator
        fields = [f"ETag: {validator}"] if validator else []
        if asked.last is None or (asked.if_range is not None and asked.if_range != validator):
            talk.send(head("200 OK", len(body), *fields))
            return self.send(talk, body)
        if asked.first >= len(body):
            return talk.send(head("416 Range Not Satisfiable", 0, f"Content-Range: bytes */{len(body)}", *fields))
        piece = body[asked.first : asked.last + 1]
        self.head(talk, asked.first, len(piece), len(body), *fields)
        return self.send(talk, piece)

    def head(self, talk: Talk, first: int, length: int, size: int, *fields: str) -> None:
        of = f"Content-Range: bytes {first}-{first + length - 1}/{size}"
        talk.send(head("206 Partial Content", length, of, *fields))

    def send(self, talk: Talk, data: bytes) -> None:
        step = 1 << 16
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            with self.lock:
                self.sent += len(piece)
            talk.send(piece)
            if self.byte_s:
                time.sleep(len(piece) / self.byte_s)


def _asked(text: str, connection: int, number: int) -> Asked:
    wanted = re.search(r"(?im)^range: bytes=(\d+)-(\d*)\r?$", text)
    validator = re.search(r"(?im)^if-range: (.+?)\r?$", text)
    first, last = (int(wanted[1]), int(wanted[2] or SIZE - 1)) if wanted else (0, None)
    return Asked(connection, number, first, last, validator[1] if validator else None)


def get(folder: Path, server: HostileServer, *words: str, connections: int = 4) -> Told:
    words = ("get", server.url(), "-o", "file", "--connections", str(connections), *server.trust(), *words)
    return ferry(folder, *words)


def arrived(folder: Path, told: Told, body: bytes) -> None:
    assert told.code == 0, (told.error, told.stderr)
    assert (folder / "file").read_bytes() == body
    assert sorted(path.name for path in folder.iterdir()) == ["file"]


def kept_nothing(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == []


@pytest.mark.parametrize("tls", [False, True])
def test_every_byte_is_fetched_once_over_as_many_connections_as_asked_for(tmp_path: Path, tls: bool) -> None:
    files = Files()
    digest = hashlib.sha256(BODY).hexdigest()
    with serve(files, tls=tls) as server:
        told = get(tmp_path, server, "--checksum", f"sha256:{digest}")
    arrived(tmp_path, told, BODY)
    assert files.sent == SIZE
    assert len({asked.connection for asked in files.asked}) == told.transfer["connections"] == 4
    assert told.transfer["ranges"] == len(files.asked) > 4
    assert (told.transfer["bytes"], told.transfer["size"], told.transfer["offset"]) == (SIZE, SIZE, 0)
    assert files.asked[0].if_range is None
    assert {asked.if_range for asked in files.asked[1:]} == {'"one"'}
    assert sum(told.transfer["series"]["bytes"]) == SIZE
    assert told.transfer["checksum"] == f"sha256:{digest}"


def test_the_limit_holds_for_all_connections_together(tmp_path: Path) -> None:
    files = Files(body=BODY[: 6 * MIB])
    with serve(files) as server:
        told = get(tmp_path, server, "--limit-rate", "4MB/s")
    arrived(tmp_path, told, files.body)
    assert told.transfer["limit_shared"]
    assert told.transfer["phases"]["body_s"] >= 0.97 * len(files.body) / 4e6


@pytest.mark.parametrize(
    ("body", "validator"),
    [(BODY, None), (BODY, 'W/"weak"'), (b"", '"one"')],
    ids=["no validator", "a weak one", "an empty file"],
)
def test_what_cannot_be_put_together_safely_comes_as_one_body(tmp_path: Path, body: bytes, validator: str | None) -> None:
    files = Files(body=body, validator=validator)
    with serve(files) as server:
        told = get(tmp_path, server)
    arrived(tmp_path, told, body)
    assert files.asked[-1].last is None
    assert "connections" not in told.transfer


def test_a_server_that_ignores_ranges_is_asked_for_one_body(tmp_path: Path) -> None:
    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        talk.send(head("200 OK", SIZE, 'ETag: "one"'))
        files.send(talk, BODY)
        return True

    with serve(Files(odd=odd)) as server:
        arrived(tmp_path, get(tmp_path, server), BODY)


def test_a_file_smaller_than_the_first_range_is_one_range(tmp_path: Path) -> None:
    files = Files(body=BODY[: FIRST_RANGE - 1])
    with serve(files) as server:
        told = get(tmp_path, server)
    arrived(tmp_path, told, files.body)
    assert len(files.asked) == 1


def _says(first: int, length: int, size: int) -> Callable[[Files, Talk, Asked], bool]:
    """The third request is answered with that, relative to what was asked for."""

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number != 2 or asked.last is None:
            return False
        length_asked = asked.last + 1 - asked.first
        files.head(talk, asked.first + first, length_asked + length, SIZE + size, 'ETag: "one"')
        files.send(talk, BODY[asked.first : asked.first + length_asked + length])
        return True

    return odd


@pytest.mark.parametrize(("first", "length"), [(1, 0), (-1, 0), (0, -1), (0, 1)], ids=["later", "earlier", "shorter", "longer"])
def test_another_range_than_asked_for_is_an_integrity_error(tmp_path: Path, first: int, length: int) -> None:
    with serve(Files(odd=_says(first, length, 0))) as server:
        told = get(tmp_path, server, *ONCE)
    assert (told.code, told.error["class"]) == (12, "integrity")
    kept_nothing(tmp_path)


def test_more_bytes_than_the_range_end_it(tmp_path: Path) -> None:
    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number != 1 or asked.last is None:
            return False
        of = f"Content-Range: bytes {asked.first}-{asked.last}/{SIZE}"
        talk.send(b'HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\nETag: "one"\r\n' + of.encode() + b"\r\n\r\n")
        data = BODY[asked.first : asked.last + 1] + b"more"
        talk.send(f"{len(data):x}\r\n".encode(), data, b"\r\n0\r\n\r\n")
        return False

    with serve(Files(odd=odd)) as server:
        told = get(tmp_path, server, *ONCE)
    assert (told.code, told.error["class"]) == (12, "integrity")
    kept_nothing(tmp_path)


@pytest.mark.parametrize("how", ["validator", "size"])
def test_a_file_that_changes_meanwhile_is_fetched_from_its_first_byte(tmp_path: Path, how: str) -> None:
    """If-Range tells the server; a server that does not know the field is found out by its size or its validator."""

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number == 4:
            files.body, files.validator = OTHER, '"two"' if how == "validator" else '"one"'
        elif asked.number == 5:
            # One validator for two lengths would never be believed.
            files.validator = '"two"'
        return False

    files = Files(odd=odd)
    with serve(files) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, OTHER)
    assert any("beginning again" in (attempt["error"] or {}).get("message", "") for attempt in told.attempts)


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Too Many Requests", "403 Forbidden"])
def test_a_server_that_wants_two_connections_gets_two(tmp_path: Path, status: str) -> None:
    served: set[int] = set()

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        with files.lock:
            if len(served | {talk.number}) <= 2:
                served.add(talk.number)
        if talk.number not in served:
            talk.send(head(status, 0))
        return talk.number not in served

    files = Files(odd=odd, byte_s=20e6)
    with serve(files) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, BODY)
    assert files.sent == SIZE
    refusals = [attempt for attempt in told.attempts if attempt["error"]]
    assert 1 <= len(refusals) <= 4, "it asks no more often than it must"


def test_connections_that_break_cost_what_was_on_its_way(tmp_path: Path) -> None:
    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        if asked.number % 3 != 1 or asked.last is None:
            return False
        length = asked.last + 1 - asked.first
        files.head(talk, asked.first, length, SIZE, 'ETag: "one"')
        files.send(talk, BODY[asked.first : asked.first + length // 2])
        return True

    files = Files(odd=odd)
    with serve(files) as server:
        told = get(tmp_path, server, *BRIEFLY)
    arrived(tmp_path, told, BODY)
    assert files.sent <= 1.05 * SIZE


@pytest.mark.parametrize("silent", [False, True], ids=["slow", "silent"])
def test_a_connection_that_holds_the_file_up_is_relieved(tmp_path: Path, silent: bool) -> None:
    """One of four brings half of its range, and then 20 kB/s or nothing: idle connections bring the rest."""
    held: list[Asked] = []
    over = threading.Event()

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        with files.lock:
            if held or asked.number < 2 or asked.last is None:
                return False
            held.append(asked)
        length = asked.last + 1 - asked.first
        files.head(talk, asked.first, length, SIZE, 'ETag: "one"')
        files.send(talk, BODY[asked.first : asked.first + length // 2])
        for at in range(asked.first + length // 2, asked.last + 1, 2000):
            if over.wait(None if silent else 0.1):
                break
            talk.send(BODY[at : min(at + 2000, asked.last + 1)])
        return True

    files = Files(odd=odd)
    with serve(files) as server:
        told = get(tmp_path, server, *ONCE, "--stall", "300s")
        over.set()
    arrived(tmp_path, told, BODY)
    assert len(held) == 1
    assert [attempt["error"] for attempt in told.attempts if attempt["error"]] == []
    assert told.transfer["bytes"] == SIZE
    half = ((held[0].last or 0) + 1 - held[0].first) // 2
    # What it still owed came by others, once; what is cut further comes again in part.
    assert files.sent <= SIZE + half


@pytest.mark.parametrize("connections", [1, 4])
def test_a_run_that_is_killed_is_gone_on_with(tmp_path: Path, connections: int) -> None:
    files = Files(byte_s=8e6)
    with serve(files) as server:
        command = [str(find_ferry()), "get", server.url(), "-o", "file", "--connections", "4", "--quiet"]
        with subprocess.Popen(command, cwd=tmp_path) as process:
            journal = tmp_path / ".file.ferry-partial.json"
            until(lambda: journal.exists() or process.poll() is not None, "the journal is written", 60)
            process.send_signal(signal.SIGKILL)
        said = json.loads(journal.read_text())
        missing = sum(hole["end"] - hole["start"] for hole in said["missing"])
        assert said["schema"] == "ferry-partial-2"
        assert 0 < missing < SIZE
        files.byte_s, before = None, len(server.connections)
        told = get(tmp_path, server, "--resume", connections=connections)
    arrived(tmp_path, told, BODY)
    asked_again = [asked for asked in files.asked if asked.connection >= before and asked.last is not None]
    assert sum((asked.last or 0) + 1 - asked.first for asked in asked_again) == missing
    assert told.transfer["offset"] == SIZE - missing


def test_holes_of_another_version_are_not_filled(tmp_path: Path) -> None:
    files = Files(byte_s=8e6)
    with serve(files) as server:
        interrupted(tmp_path, server)
        files.body, files.validator, files.byte_s = OTHER, '"two"', None
        told = get(tmp_path, server, "--resume", *BRIEFLY)
    arrived(tmp_path, told, OTHER)


def interrupted(folder: Path, server: HostileServer) -> None:
    command = [str(find_ferry()), "get", server.url(), "-o", "file", "--connections", "4"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        journal = folder / ".file.ferry-partial.json"
        until(lambda: journal.exists() or process.poll() is not None, "the journal is written", 60)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 143
    assert "bytes are kept for --resume" in said


def test_a_server_that_is_gone_ends_it_and_what_came_is_kept(tmp_path: Path) -> None:
    """Bounded, although every connection fails at once and none is the last."""

    def odd(files: Files, talk: Talk, asked: Asked) -> bool:
        return asked.number > 3

    files = Files(odd=odd)
    with serve(files) as server:
        told = get(tmp_path, server, *BRIEFLY, "--retry", "2")
        assert (told.code, told.error["class"]) == (10, "transient")
        assert "bytes are kept for --resume" in told.error["message"]
        assert len(files.asked) < 30
        files.odd, files.sent = None, 0
        arrived(tmp_path, get(tmp_path, server, "--resume"), BODY)
        assert files.sent < SIZE


def test_a_redirect_is_followed_by_every_range(tmp_path: Path) -> None:
    files = Files()
    with serve(files) as there:

        def elsewhere(talk: Talk, _: HostileServer) -> None:
            talk.request()
            talk.send(head("302 Found", 0, f"Location: {there.url()}"))

        with serve(elsewhere) as here:
            told = get(tmp_path, here)
    arrived(tmp_path, told, BODY)
    assert files.sent == SIZE


def test_a_wrong_checksum_leaves_no_file(tmp_path: Path) -> None:
    with serve(Files()) as server:
        told = get(tmp_path, server, "--checksum", "sha256:" + "0" * 64)
    assert (told.code, told.error["class"]) == (12, "integrity")
    kept_nothing(tmp_path)


def test_a_file_that_is_too_large_is_refused_by_its_first_answer(tmp_path: Path) -> None:
    files = Files()
    with serve(files) as server:
        told = get(tmp_path, server, "--max-filesize", "10MB")
    assert (told.code, told.error["class"]) == (11, "permanent")
    assert len(files.asked) == 1
    kept_nothing(tmp_path)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("get", "http://h/a", "-o", "-"), "not standard output"),
        (("get", "http://h/a", "http://h/b", "-O"), "--parallel is for several URLs"),
        (("get", "http://h/a", "-O", "--range", "0-5"), "--range"),
        (("get", "http://h/a", "--discard", "--checksum", "sha256"), "--checksum"),
        (("put", "/dev/null", "http://h/a"), "sftp URLs only"),
    ],
)
def test_what_it_cannot_be_combined_with_is_one_line(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    line = [str(find_ferry()), *words, "--connections", "2"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
