"""Faults as they are drawn, and the programs that make them: a relay, a server, a look at what is left."""

from __future__ import annotations

import json
import random
import socket
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

from lab.clients.last_words import last_words
from lab.hosts.host import Completed
from lab.model.answer import Fault
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.run.events import left_script, middle_script, odd_server_script
from lab.run.events.faults import HARMED, ODD, draw, front_config, refusal
from tests.support.waiting import until

SIZE = 300_000
FAULTS: tuple[Fault, ...] = get_args(Fault)
CONTENT = random.Random(7).randbytes(SIZE)


def transfer(protocol: str, direction: str) -> Transfer:
    return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(SIZE)})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_due_within_the_content(fault: Fault) -> None:
    plans = [draw(fault, transfer("http1", "get"), index, random.Random(index)) for index in range(300)]
    assert all(1 <= plan["at"] <= SIZE for plan in plans)
    assert len({plan["at"] for plan in plans}) > 200, "another byte each time"
    assert plans[5] == draw(fault, transfer("http1", "get"), 5, random.Random(5)), "the seed decides"
    json.dumps(plans)


def test_a_harm_is_as_large_as_its_kind_may_be() -> None:
    def drawn(fault: Fault, what: str) -> list[Any]:
        return [draw(fault, transfer("http1", "get"), index, random.Random(index))[what] for index in range(300)]

    assert {*drawn("corrupt", "bytes")} == {1, 3, 100}
    assert {*drawn("corrupt", "bit")} == {*range(8)}
    shifts = drawn("wrong-range", "shift")
    assert {abs(each) in range(1, 100_001) for each in shifts} == {True}
    assert min(shifts) < -50_000 < 50_000 < max(shifts)
    assert {*drawn("http-error", "status")} == {500, 502, 503, 504}
    assert {*drawn("http-error", "retry_after_s")} == {0, 1, 2}
    assert {*drawn("error-cut", "times")} == {1, 2}
    extra = drawn("length-long", "extra")
    assert min(extra) == 1 < 4000 < max(extra) <= 5000
    assert 0.2 < sum(drawn("ignored-range", "unnamed")) / 300 < 0.4


def test_which_faults_there_are() -> None:
    there = {
        (fault, protocol, direction)
        for fault in FAULTS
        for protocol in ("http1", "h2", "sftp")
        for direction in ("get", "put")
        if not refusal(fault, transfer(protocol, direction))
    }
    assert len([each for each in there if each[1] == "sftp"]) == 8 * 2, "what harms a connection harms every protocol"
    assert ("length-long", "h2", "get") in there
    assert ("length-short", "http1", "put") not in there
    assert {each for each in there if each[0] == "early-success"} == {("early-success", "http1", "put")}
    assert len(there) == 66


def test_quic_has_the_faults_that_others_than_its_ends_can_make() -> None:
    there = {fault for fault in FAULTS if not refusal(fault, transfer("h3", "get"))}
    assert {"corrupt", "down-1s", "address", "rebind", "length-long", "wrong-range"} <= there
    assert refusal("rebind", transfer("h2", "get"))
    assert there.isdisjoint({"fin", "rst", "killed", "length-short", "early-success"})


def test_the_server_in_front_listens_for_quic_only_where_it_is_wanted() -> None:
    assert f"listen 0.0.0.0:{ODD.https} quic reuseport;" in front_config(Path("/w"), Path("/w/faults"), http3=True)
    assert "quic" not in front_config(Path("/w"), Path("/w/faults"))


def told_to(fault: str, folder: Path, at: int, direction: str = "get") -> tuple[middle_script.Middle, middle_script.Plan]:
    plan = {"sample": 0, "fault": fault, "direction": direction, "at": at, "bit": 0, "bytes": 1}
    (folder / "plan.json").write_text(json.dumps(plan))
    middle = middle_script.Middle(str(folder))
    return middle, middle.current()


def test_one_datagram_is_harmed_and_once(tmp_path: Path) -> None:
    middle, plan = told_to("corrupt", tmp_path, 150)
    passed = [middle_script.harmed(middle, plan, bytes(100), upwards=upwards) for upwards in (True, False, False, False)]
    assert [each.count(0) for each in passed] == [100, 100, 99, 100]
    assert passed[2][49] == 1
    assert json.loads((tmp_path / "log").read_text())["what"] == "fault"


def test_a_mark_harms_no_datagram(tmp_path: Path) -> None:
    middle, plan = told_to("mark", tmp_path, 50, "put")
    assert middle_script.harmed(middle, plan, bytes(100), upwards=True) == bytes(100)
    assert "fault" in (tmp_path / "log").read_text()


def test_datagrams_are_passed_on_both_ways_and_each_client_has_its_own_way_back(tmp_path: Path) -> None:
    middle, _ = told_to("none", tmp_path, 1)
    server, first, second = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
    for each in (server, first, second):
        each.bind(("127.0.0.1", 0))
        each.settimeout(10)
    port = free_udp_port()
    threading.Thread(target=middle_script.pass_datagrams, args=(middle, port, server.getsockname()[1]), daemon=True).start()
    until(lambda: udp_is_taken(port), "the relay listens")
    for text, client in ((b"one", first), (b"two", second)):
        client.sendto(text, ("127.0.0.1", port))
        got, came_from = server.recvfrom(100)
        assert got == text
        server.sendto(got.upper(), came_from)
        assert client.recv(100) == text.upper()
    assert (tmp_path / "log").read_text().count("connection") == 2


def test_a_nat_that_rebinds_gives_a_client_another_port_and_loses_what_comes_to_the_old_one(tmp_path: Path) -> None:
    middle, _ = told_to("rebind", tmp_path, 3, "put")
    server, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for each in (server, client):
        each.bind(("127.0.0.1", 0))
        each.settimeout(10)
    port = free_udp_port()
    threading.Thread(target=middle_script.pass_datagrams, args=(middle, port, server.getsockname()[1]), daemon=True).start()
    until(lambda: udp_is_taken(port), "the relay listens")
    ports = []
    for text in (b"ab", b"cd", b"ef"):
        client.sendto(text, ("127.0.0.1", port))
        got, (_, source) = server.recvfrom(100)
        assert got == text
        ports.append(source)
    assert ports[0] != ports[1]
    assert ports[1] == ports[2]
    server.sendto(b"late", ("127.0.0.1", ports[0]))
    server.sendto(b"now", ("127.0.0.1", ports[1]))
    assert client.recv(100) == b"now"


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def udp_is_taken(port: int) -> bool:
    return any(line.split()[1].endswith(f":{port:04X}") for line in Path("/proc/self/net/udp").read_text().splitlines()[1:])


def test_the_server_in_front_is_complete() -> None:
    text = front_config(Path("/w"), Path("/w/faults"))
    assert text.count("{") == text.count("}")
    assert "proxy_buffering off;" in text


# --- the relay --------------------------------------------------------------------------------------------------------


def served(content: bytes) -> int:
    """A server that sends `content` to the first that connects, then closes; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def through(folder: Path, plan: dict[str, Any]) -> tuple[bytes, str, list[dict[str, Any]]]:
    """What a client gets of CONTENT through the relay, how its connection ends, and the relay's log."""
    (folder / "plan.json").write_text(json.dumps({"sample": 0, "direction": "get", **plan}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        its, _ = listener.accept()
    middle = middle_script.Middle(str(folder))
    relay = middle_script.Connection(middle, its, served(CONTENT))
    relay.start()
    got, end = b"", "fin"
    ours.settimeout(10)
    with ours:
        try:
            while data := ours.recv(65536):
                got += data
        except ConnectionResetError:
            end = "rst"
    relay.join(10)
    assert not relay.is_alive()
    log = folder / "log"
    return got, end, [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_connection_passes_unharmed(tmp_path: Path) -> None:
    assert through(tmp_path, {"fault": "none", "at": 5}) == (CONTENT, "fin", [])


def test_a_connection_is_closed_at_the_byte(tmp_path: Path) -> None:
    got, end, log = through(tmp_path, {"fault": "fin", "at": 123_457})
    assert (got, end) == (CONTENT[:123_457], "fin")
    assert [each["what"] for each in log] == ["fault"]


def test_a_connection_is_reset_at_the_byte(tmp_path: Path) -> None:
    got, end, _ = through(tmp_path, {"fault": "rst", "at": 200_000})
    assert end == "rst"
    assert got == CONTENT[: len(got)]
    assert len(got) <= 200_000


def test_one_bit_of_each_byte_is_changed(tmp_path: Path) -> None:
    got, _, log = through(tmp_path, {"fault": "corrupt", "at": 1000, "bit": 3, "bytes": 3})
    changed = [index for index in range(SIZE) if got[index] != CONTENT[index]]
    assert changed == [999, 1000, 1001]
    assert all(got[index] ^ CONTENT[index] == 8 for index in changed)
    assert log[0]["at"] == 1000


def test_a_mark_harms_nothing(tmp_path: Path) -> None:
    got, _, log = through(tmp_path, {"fault": "mark", "at": SIZE})
    assert got == CONTENT
    assert log


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def faulty(tmp_path: Path) -> odd_server_script.Faulty:
    for name in ("files", "upload"):
        (tmp_path / name).mkdir()
    (tmp_path / "files" / "f").write_bytes(CONTENT)
    return odd_server_script.Faulty(str(tmp_path), str(tmp_path / "files"), str(tmp_path / "upload"))


def ask(faulty: odd_server_script.Faulty, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer."""
    ours, its = socket.socketpair()
    worker = odd_server_script.Request(faulty, its)
    worker.start()
    with ours:
        ours.settimeout(10)
        ours.sendall(request)
        ours.shutdown(socket.SHUT_WR)
        answer = b""
        while data := ours.recv(65536):
            answer += data
    worker.join(10)
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def told(faulty: odd_server_script.Faulty, **plan: Any) -> None:
    Path(faulty.folder, "plan.json").write_text(json.dumps({"sample": 1, "at": 1000, **plan}))


GET = b"GET /files/f HTTP/1.1\r\nHost: x\r\n\r\n"
RANGE = b"GET /files/f HTTP/1.1\r\nHost: x\r\nRange: bytes=500-\r\n\r\n"


def put(content: bytes) -> bytes:
    return b"PUT /upload/u HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(content) + content


def test_without_a_fault_it_is_a_good_server(faulty: odd_server_script.Faulty) -> None:
    head, body = ask(faulty, GET)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == CONTENT
    head, body = ask(faulty, RANGE)
    assert b"Content-Range: bytes 500-299999/300000" in head
    assert body == CONTENT[500:]
    assert ask(faulty, put(CONTENT))[0].startswith(b"HTTP/1.1 201 ")
    assert Path(faulty.uploads, "u").read_bytes() == CONTENT


def test_errors_and_then_a_good_answer(faulty: odd_server_script.Faulty) -> None:
    told(faulty, fault="http-error", status=503, retry_after_s=2, times=2)
    for request in (GET, put(CONTENT)):
        head, _ = ask(faulty, request)
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 2" in head
    assert not Path(faulty.uploads, "u").exists(), "what was refused is not stored"
    assert ask(faulty, GET)[1] == CONTENT
    events = [json.loads(line)["what"] for line in Path(faulty.folder, "log").read_text().splitlines()]
    assert events.count("fault") == 2


def test_lengths_that_are_wrong(faulty: odd_server_script.Faulty) -> None:
    told(faulty, fault="length-long", extra=7)
    head, body = ask(faulty, GET)
    assert b"Content-Length: 300007" in head
    assert body == CONTENT
    told(faulty, sample=2, fault="length-short", at=1234)
    head, body = ask(faulty, GET)
    assert b"Content-Length: 1234" in head
    assert body == CONTENT
    told(faulty, sample=3, fault="chunked-cut", at=20_000)
    head, body = ask(faulty, GET)
    assert b"Transfer-Encoding: chunked" in head
    assert b"Content-Length" not in head
    assert body == b"".join(odd_server_script.chunk(CONTENT[at : min(at + 8192, 20_000)]) for at in range(0, 20_000, 8192))


def test_ranges_that_are_wrong(faulty: odd_server_script.Faulty) -> None:
    told(faulty, fault="wrong-range", at=500, shift=100, unnamed=False)
    assert ask(faulty, GET)[1] == CONTENT[:500]
    head, body = ask(faulty, RANGE)
    assert b"Content-Range: bytes 600-299999/300000" in head
    assert body == CONTENT[600:]
    told(faulty, sample=2, fault="ignored-range", at=500)
    assert ask(faulty, GET)[1] == CONTENT[:500]
    assert ask(faulty, RANGE)[1] == CONTENT


def test_success_before_the_end(faulty: odd_server_script.Faulty) -> None:
    told(faulty, fault="early-success", at=1000, abrupt=False)
    assert ask(faulty, put(CONTENT))[0].startswith(b"HTTP/1.1 201 ")
    assert Path(faulty.uploads, "u").read_bytes() == CONTENT[:1000]


# --- what is left -----------------------------------------------------------------------------------------------------


def test_a_look_at_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, folder = tmp_path / "reference", tmp_path / "out"
    reference.write_bytes(CONTENT)
    folder.mkdir()

    def look() -> dict[str, Any]:
        assert left_script.main(str(folder), "f", str(reference)) == 0
        return dict(json.loads(capsys.readouterr().out))

    assert look() == {"size": -1, "differ": 0, "others": {}}
    wrong = bytearray(CONTENT)
    for index in (0, 70_000, SIZE - 1):
        wrong[index] ^= 1
    (folder / "f").write_bytes(wrong)
    (folder / ".f.part").write_bytes(b"123")
    (folder / ".keep").write_bytes(b"")
    assert look() == {"size": SIZE, "differ": 3, "others": {".f.part": 3}}
    assert [each.name for each in folder.iterdir()] == [".keep"], "the next sample finds an empty folder"
    (folder / "f").write_bytes(CONTENT[:10] + b"more" * SIZE)
    assert look()["size"] == 10 + 4 * SIZE
    for number in range(2):
        (folder / f"d{number}").mkdir()
        (folder / f"d{number}/deep").write_bytes(b"1")
    (folder / "link").symlink_to("nowhere12")
    assert look()["others"].keys() == {"d0", "d1", "link"}
    assert [each.name for each in folder.iterdir()] == [".keep"]


@pytest.mark.parametrize(
    ("found", "differ"),
    [
        (CONTENT[:1000], 0),
        (CONTENT[:999] + bytes([CONTENT[999] ^ 255]), 1),
        (bytes(byte ^ 255 for byte in CONTENT), SIZE),
        (bytes(byte ^ 255 for byte in CONTENT[: 1 << 16]) + CONTENT[1 << 16 :], 1 << 16),
        (CONTENT + b"more", 0),
        (b"", 0),
    ],
    ids=["short", "short and wrong", "all", "the first piece", "long", "empty"],
)
def test_bytes_are_compared_where_both_have_some(tmp_path: Path, found: bytes, differ: int) -> None:
    for name, content in (("reference", CONTENT), ("found", found)):
        (tmp_path / name).write_bytes(content)
    assert left_script.compare(str(tmp_path / "found"), str(tmp_path / "reference")) == (len(found), differ)


def test_the_relay_has_ports_of_its_own() -> None:
    assert len({HARMED.http, HARMED.https, HARMED.ssh, 80, 443, 22}) == 6


@pytest.mark.parametrize(
    ("out", "error", "wanted"),
    [
        (b'{"transfers": [{"attempts": [{"message": "first"}, {"message": "cut"}]}], "process": {"rss": 1}}', b"", "cut"),
        (b'{"message": "in the report"}', b"on standard error\n", "on standard error"),
        (b'{"process": {"rss": 1}}\n', b"", ""),
        (b'[1, "two"]\n', b"", '[1, "two"]'),
        (b"", b"red \x1b[31m\n", "red ?[31m"),
        (b"", b"one\ntwo\n---\n", "two"),
        (b"", b"", ""),
        (b"", b"w" * 201, "w" * 200),
        (b'{"message": "' + b"w" * 201 + b'"}', b"", "w" * 200),
    ],
)
def test_a_client_says_why_it_failed_on_its_last_line_or_in_its_report(out: bytes, error: bytes, wanted: str) -> None:
    assert last_words(Completed((), 1, out, error, 0, 0, 0.0, 0.0)) == wanted
