"""The relay of faults, piece by piece, and as the program that it is: on the loopback, with real connections."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lab.run.events import middle_script
from lab.run.events.middle_script import Connection, Middle, Plan, flipped, kill_server, processes_of
from tests.support.ports import free_port, free_ports
from tests.support.waiting import until

CONTENT = random.Random(3).randbytes(3_000_000)
"""More than the buffers of two connections hold."""


def written(folder: Path, **more: Any) -> Middle:
    (folder / "plan.json").write_text(json.dumps({"sample": 0, "fault": "none", "direction": "get", "at": 1, **more}))
    return Middle(str(folder))


def log(folder: Path) -> list[dict[str, Any]]:
    place = folder / "log"
    return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []


# --- the plan ---------------------------------------------------------------------------------------------------------


def crossings(fault: str, at: int, *sizes: int) -> list[int | None]:
    plan = Plan({"fault": fault, "at": at})
    return [plan.crossing(size) for size in sizes]


def test_a_harm_is_due_once_at_its_byte() -> None:
    assert crossings("fin", 150, 100, 49, 1, 1000) == [None, None, 1, None]
    assert crossings("fin", 150, 100, 100, 150, 150) == [None, 50, None, None]
    assert crossings("fin", 1, 100) == [1]
    assert crossings("none", 150, 100, 100) == [None, None]


def test_a_new_sample_has_a_new_plan_and_the_same_one_goes_on(tmp_path: Path) -> None:
    middle = Middle(str(tmp_path))
    first = middle.current()
    assert (first.crossing(1 << 30), first.rebinds) == (None, False), "no plan is no harm"
    assert middle.current() is first
    written(tmp_path, sample=4, fault="fin", at=10)
    plan = middle.current()
    assert (plan.told["fault"], plan.moved) == ("fin", 0)
    plan.crossing(5)
    assert middle.current() is plan
    written(tmp_path, sample=5, fault="rst", at=10)
    assert middle.current().told["fault"] == "rst"
    (tmp_path / "plan.json").unlink()
    assert middle.current().told["sample"] == 5


def test_the_log_has_a_line_of_json_for_each_event(tmp_path: Path) -> None:
    middle = Middle(str(tmp_path))
    middle.note("connection", port=80)
    middle.note("fault", at=7)
    assert [{name: each[name] for name in each if name != "t_ns"} for each in log(tmp_path)] == [
        {"what": "connection", "port": 80},
        {"what": "fault", "at": 7},
    ]
    assert log(tmp_path)[0]["t_ns"] <= log(tmp_path)[1]["t_ns"]


def test_a_bit_is_flipped_in_bytes_that_are_there() -> None:
    assert flipped(b"\0\0\0\0\0", 1, {"bytes": 2, "bit": 0}) == b"\0\1\1\0\0"
    assert flipped(b"\xff\0\0", 1, {"bytes": 100, "bit": 7}) == b"\xff\x80\x80"
    assert flipped(b"\xff\0\0", 0, {"bytes": 1, "bit": 3}) == b"\xf7\0\0"


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def family(mark: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that has the mark, and its child, which has none."""
    words = ["/bin/sh", "-c", "sleep 600 & echo $!; wait", mark]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        assert parent.stdout
        try:
            yield parent, int(parent.stdout.readline())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)


def test_processes_of_a_mark_are_those_that_have_it_and_their_children() -> None:
    mark = secrets.token_hex(8)
    with family(mark) as (parent, child):
        assert processes_of(mark) == sorted([parent.pid, child])
    # A child that was killed before it became `sleep` has its parent's words until it is gone.
    until(lambda: processes_of(mark) == [], "none is left")


def test_the_relay_does_not_count_itself() -> None:
    own = Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    mark = secrets.token_hex(8)
    with family(f"{own} {mark}") as (parent, _):
        found = processes_of(own)
        assert parent.pid in found
        assert os.getpid() not in found


def test_a_server_is_killed_with_its_children_and_started_again_on_its_own(tmp_path: Path) -> None:
    mark, place = secrets.token_hex(8), tmp_path / "again"
    again = f"cut -d' ' -f1,6 /proc/$$/stat > {place}.half; mv {place}.half {place}"
    with family(mark) as (parent, child):
        kill_server({"mark": mark, "again_s": 0, "argv": ["/bin/sh", "-c", again]})
        assert parent.wait(10) == -signal.SIGKILL
        until(lambda: ended(child), "its child has ended")
        until(place.exists, "it is started again")
    process, session = place.read_text().split()
    assert process == session, "a signal for the relay's terminal does not reach the server"


def ended(pid: int) -> bool:
    """Whether a process is no more, or waits for its new parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- one connection ---------------------------------------------------------------------------------------------------


def relayed(middle: Middle, target: int) -> tuple[socket.socket, Connection]:
    """A client's end, and the connection of the relay that has the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        its, _ = listener.accept()
    relay = Connection(middle, its, target)
    relay.start()
    ours.settimeout(10)
    return ours, relay


def everything(connection: socket.socket) -> bytes:
    got = b""
    while data := connection.recv(1 << 16):
        got += data
    return got


def upload(connection: socket.socket) -> None:
    connection.sendall(CONTENT)
    connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(("direction", "harmed"), [("get", 0), ("put", 1)])
def test_an_upload_arrives_complete_and_then_its_answer(tmp_path: Path, direction: str, harmed: int) -> None:
    middle = written(tmp_path, fault="corrupt", direction=direction, at=70_000, bit=1, bytes=1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, relay = relayed(middle, listener.getsockname()[1])
        server, _ = listener.accept()
    server.settimeout(10)
    with ours, server:
        sending = threading.Thread(target=upload, args=(ours,))
        sending.start()
        got = everything(server)
        # The client has ended its half, and the server answers after that.
        server.sendall(b"201")
        server.shutdown(socket.SHUT_WR)
        assert everything(ours) == b"201"
        sending.join(10)
    relay.join(10)
    assert not relay.is_alive()
    assert (len(got), [at for at in (69_998, 69_999, 70_000) if got[at] != CONTENT[at]]) == (len(CONTENT), [69_999] * harmed)
    assert got[:69_999] + CONTENT[69_999:70_000] + got[70_000:] == CONTENT
    assert [each["what"] for each in log(tmp_path)] == ["fault"] * harmed


def test_an_open_connection_does_not_keep_the_relay_running(tmp_path: Path) -> None:
    ours, its = socket.socketpair()
    with ours, its:
        assert Connection(written(tmp_path), its, free_port()).daemon


def test_a_client_of_a_server_that_does_not_listen_is_reset(tmp_path: Path) -> None:
    ours, relay = relayed(written(tmp_path), free_port())
    with ours, pytest.raises(ConnectionResetError):
        ours.recv(1)
    relay.join(10)
    assert not relay.is_alive()


def test_a_server_that_is_reset_resets_its_client(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, relay = relayed(written(tmp_path), listener.getsockname()[1])
        server, _ = listener.accept()
    Connection.abort(server)
    with ours, pytest.raises(ConnectionResetError):
        ours.recv(1)
    relay.join(10)
    assert not relay.is_alive()


def test_a_reset_reaches_both_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, relay = relayed(written(tmp_path, fault="rst", at=4), listener.getsockname()[1])
        server, _ = listener.accept()
    server.settimeout(10)
    with ours, server:
        server.sendall(b"12345678")
        for each in (ours, server):
            with pytest.raises(ConnectionResetError):
                everything(each)
    relay.join(10)
    assert [(each["what"], each["at"]) for each in log(tmp_path)] == [("fault", 4)]


def test_a_killed_server_is_killed_at_the_byte(tmp_path: Path) -> None:
    mark, place = secrets.token_hex(8), tmp_path / "again"
    plan = {"fault": "killed", "at": 4, "mark": mark, "again_s": 0, "argv": ["touch", str(place)]}
    with family(mark) as (parent, _), socket.create_server(("127.0.0.1", 0)) as listener:
        ours, _ = relayed(written(tmp_path, **plan), listener.getsockname()[1])
        server, _ = listener.accept()
        with ours, server:
            server.sendall(b"1234")
            assert ours.recv(9) == b"1234"
            assert parent.wait(10) == -signal.SIGKILL
        until(place.exists, "it is started again")


def test_a_client_whose_connection_was_closed_early_may_still_send(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, relay = relayed(written(tmp_path, fault="fin", at=4), listener.getsockname()[1])
        server, _ = listener.accept()
    server.settimeout(10)
    with ours, server:
        server.sendall(b"12345678")
        assert everything(ours) == b"1234"
        assert everything(server) == b"", "the server's connection is ended in both directions, too"
        ours.sendall(b"more")
        server.shutdown(socket.SHUT_WR)
        ours.shutdown(socket.SHUT_WR)
    relay.join(10)
    assert not relay.is_alive()


# --- datagrams --------------------------------------------------------------------------------------------------------


def datagrams(address: tuple[str, int] = ("127.0.0.1", 0)) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(address)
    one.settimeout(10)
    return one


def test_a_client_has_one_way_to_the_server_and_one_plan(tmp_path: Path) -> None:
    middle = written(tmp_path, sample=1, fault="corrupt", direction="put", at=5, bit=0, bytes=1)
    with datagrams() as server, datagrams() as client, datagrams() as held:
        port = held.getsockname()[1]
        held.close()
        passing = (middle, port, server.getsockname()[1])
        threading.Thread(target=middle_script.pass_datagrams, args=passing, daemon=True).start()
        until(lambda: f":{port:04X} " in Path("/proc/net/udp").read_text(), "the relay listens")
        got = []
        for text in (b"\0\0\0", b"\0\0\0", b"\0\0\0"):
            client.sendto(text, ("127.0.0.1", port))
            got.append(server.recvfrom(100))
            server.sendto(text, got[-1][1])
            assert client.recv(100) == text, "only the content's own way is harmed"
        assert [text for text, _ in got] == [b"\0\0\0", b"\0\1\0", b"\0\0\0"]
        assert len({address for _, address in got}) == 1
        client.sendto(bytes(50_000), ("127.0.0.1", port))
        assert server.recv(1 << 16) == bytes(50_000)
    assert [each["what"] for each in log(tmp_path)] == ["connection", "fault"]
    assert log(tmp_path)[0]["port"] == port


# --- the program ------------------------------------------------------------------------------------------------------


@contextmanager
def running(folder: Path, *routes: str) -> Iterator[None]:
    words = [sys.executable, middle_script.__file__, str(folder), *routes]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as program:
        try:
            yield
        finally:
            program.kill()


def reached(port: int) -> socket.socket:
    found: list[socket.socket] = []

    def reach() -> bool:
        with suppress(ConnectionRefusedError):
            found.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        return bool(found)

    until(reach, f"port {port} answers")
    return found[0]


def test_the_program_listens_at_every_port_for_the_server_of_that_port(tmp_path: Path) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    targets = [each.getsockname()[1] for each in listeners]
    ports = free_ports(4)
    routes = [f"{port}:{target}" for port, target in zip(ports, targets, strict=False)]
    with datagrams() as server, datagrams() as client:
        route = f"udp:{ports[3]}:{server.getsockname()[1]}"
        with running(tmp_path, route, *routes):
            for port, listener in zip(ports, listeners, strict=False):
                with listener, reached(port) as ours:
                    its, _ = listener.accept()
                    with its:
                        its.sendall(str(port).encode())
                        assert ours.recv(99) == str(port).encode()
            until(lambda: f":{ports[3]:04X} " in Path("/proc/net/udp").read_text(), "the relay of datagrams listens")
            client.sendto(b"datagram", ("127.0.0.1", ports[3]))
            assert server.recv(99) == b"datagram"
    assert [(each["what"], each["port"]) for each in log(tmp_path)] == [("connection", port) for port in ports]
