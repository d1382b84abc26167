"""The resolver that knows no name, and its web server: in this process, on the loopback."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.run.events import lookups_script
from lab.run.events.lookups_script import Files, Server, note, question, refusal
from tests.support.ports import free_port


def query(*labels: str, kind: int = 1, count: int = 1) -> bytes:
    name = b"".join(bytes([len(label.encode())]) + label.encode() for label in labels)
    return b"\x12\x34\x01\x00" + struct.pack("!4H", count, 0, 0, 0) + name + b"\0" + struct.pack("!2H", kind, 1)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "A"), (5, "CNAME"), (12, "PTR"), (28, "AAAA"), (33, "SRV"), (64, "SVCB"), (65, "HTTPS"), (2, "2"), (257, "257")],
)
def test_a_type_has_its_name_or_its_number(number: int, name: str) -> None:
    assert question(query("a", "example", kind=number)) == ("a.example", name, 12 + 11 + 4)


def test_the_root_is_a_dot_and_other_letters_than_ascii_are_replaced() -> None:
    assert question(query()) == (".", "A", 17)
    assert question(query("ä"))[0] == "\ufffd\ufffd"


def test_a_message_may_have_any_number_of_questions_but_none() -> None:
    for count in (1, 2, 256):
        assert question(query("a", count=count))[0] == "a"
    with pytest.raises(ValueError, match="no question"):
        question(query("a", count=0))


@pytest.mark.parametrize("size", [0, 11])
def test_less_than_a_header_has_no_question(size: int) -> None:
    with pytest.raises(ValueError, match="no question"):
        question(query("a")[:size])


def test_every_byte_of_a_question_must_be_there() -> None:
    whole = query("ab", "c")
    assert question(whole)[2] == len(whole)
    for size in range(12, len(whole)):
        with pytest.raises(ValueError, match=r"cut off|cannot be"):
            question(whole[:size])


def test_a_label_has_at_most_63_bytes_and_a_name_255() -> None:
    assert question(query("a" * 63))[0] == "a" * 63
    with pytest.raises(ValueError, match="cannot be"):
        question(query("a" * 64))
    # Three labels of 64 bytes with their lengths, one of 62, and the root's byte.
    longest = ["a" * 63] * 3
    assert question(query(*longest, "b" * 61))[2] == 12 + 255 + 4
    with pytest.raises(ValueError, match="cut off"):
        question(query(*longest, "b" * 62))


def test_a_refusal_is_nxdomain_to_the_first_question_alone() -> None:
    message = query("a", kind=28, count=2) + b"another question"
    assert refusal(message, question(message)[2]) == (
        b"\x12\x34\x81\x83" + struct.pack("!4H", 1, 0, 0, 0) + b"\1a\0" + struct.pack("!2H", 28, 1)
    )


def test_every_message_is_a_line_and_only_a_query_gets_an_answer(capfd: pytest.CaptureFixture[str]) -> None:
    message = query("with space", "b")
    assert note(message) == refusal(message, len(message))
    assert note(b"nonsense") == b""
    assert capfd.readouterr().out == "query withspace.b A\nquery ? ?\n"


def serving(serve: Callable[[socket.socket], None], sink: socket.socket) -> tuple[str, int]:
    threading.Thread(target=serve, args=(sink,), daemon=True).start()
    host, port = sink.getsockname()
    return str(host), int(port)


def test_datagrams_are_answered_to_whom_they_came_from() -> None:
    sink, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    sink.bind(("127.0.0.1", 0))
    address = serving(lookups_script.serve_udp, sink)
    client.settimeout(10)
    with client:
        client.sendto(b"nonsense", address)
        message = query("name", "example")
        client.sendto(message, address)
        assert client.recv(1000) == refusal(message, len(message)), "nothing is said to nonsense"


def test_a_query_over_tcp_has_its_length_before_it() -> None:
    address = serving(lookups_script.serve_tcp, socket.create_server(("127.0.0.1", 0)))
    with socket.create_connection(address, timeout=10) as ended:
        ended.shutdown(socket.SHUT_WR)
        assert ended.recv(1000) == b"\0\0"
    for name in ("one", "two"):
        message = query(name)
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(struct.pack("!H", len(message)) + message)
            answer = b""
            while data := client.recv(1000):
                answer += data
        assert answer == struct.pack("!H", len(message)) + refusal(message, len(message))


def test_files_are_served_without_a_word_and_without_a_look_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").write_bytes(b"content")
    port = free_port()
    with Server(("127.0.0.1", port), partial(Files, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert (server.server_name, server.server_port) == ("localhost", port)
        assert server.socket.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for path, status, body in (("/ready", 204, b""), ("/f", 200, b"content"), ("/g", 404, None), ("/f", 200, b"content")):
            client.request("GET", path)
            answer = client.getresponse()
            got = answer.read()
            assert (answer.status, answer.version) == (status, 11)
            assert body is None or got == body
        client.close()
        server.shutdown()
    assert capfd.readouterr() == ("", "")


def test_a_client_is_called_by_its_address() -> None:
    handler = Files.__new__(Files)
    handler.client_address = ("192.0.2.1", 5)
    assert handler.address_string() == "192.0.2.1"
