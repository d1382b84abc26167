"""What is asked of a kernel about its connections, and what is read of its answer."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator, Sequence

import pytest

from lab.net import sockets_script
from lab.net.sockets import Look
from tests.support.stepping_clock import SteppingClock

ESTABLISHED = 1
_SOCK_DIAG = 4
"""NETLINK_SOCK_DIAG (linux/netlink.h)."""
Ask = Callable[..., tuple[list[list[int]], bytes]]
INFO = {  # offsets in struct tcp_info (include/uapi/linux/tcp.h), by their names in it
    "snd_mss": (16, "I"),
    "unacked": (24, "I"),
    "rtt": (68, "I"),
    "snd_ssthresh": (76, "I"),
    "snd_cwnd": (80, "I"),
    "total_retrans": (100, "I"),
    "bytes_acked": (120, "Q"),
    "bytes_received": (128, "Q"),
    "notsent_bytes": (144, "I"),
    "min_rtt": (148, "I"),
    "busy_time": (168, "Q"),
    "rwnd_limited": (176, "Q"),
    "sndbuf_limited": (184, "Q"),
    "snd_wnd": (228, "I"),
}


def attribute(kind: int, content: bytes) -> bytes:
    size = 4 + len(content)
    return struct.pack("=HH", size, kind) + content + bytes(-size % 4)


def message(attributes: bytes, port: int = 4000, peer: int = 80) -> bytes:
    """`struct inet_diag_msg` (include/uapi/linux/inet_diag.h): family, state, timer, retrans, the socket's id, five numbers."""
    ident = struct.pack("!HH16s16sI8x", port, peer, bytes(16), bytes(16), 1)
    return struct.pack("=BBBB", socket.AF_INET, ESTABLISHED, 0, 0) + ident + struct.pack("=IIIII", 0, 71, 72, 0, 9) + attributes


def info(size: int = 240, **numbers: int) -> bytes:
    text = bytearray(240)
    for name, number in numbers.items():
        offset, form = INFO[name]
        struct.pack_into("=" + form, text, offset, number)
    return bytes(text[:size])


def test_every_number_is_read_from_its_place() -> None:
    values = {name: 1_000 + index for index, name in enumerate(INFO)}
    memory = struct.pack("=9I", *range(30, 39))
    found = Look(5, *sockets_script.numbers(message(attribute(2, info(**values)) + attribute(7, memory))))
    assert found == Look(
        t_ns=5,
        port=4000,
        peer_port=80,
        unread=71,
        queued=72,
        mss=1000,
        unacked=1001,
        rtt_us=1002,
        ssthresh=1003,
        cwnd=1004,
        retransmits=1005,
        acked=1006,
        received=1007,
        unsent=1008,
        min_rtt_us=1009,
        busy_us=1010,
        no_window_us=1011,
        no_buffer_us=1012,
        window=1013,
        send_buffer=33,
        buffered=35,
    )


def test_attributes_come_in_any_order_and_others_are_passed_over() -> None:
    memory = attribute(7, struct.pack("=9I", *range(30, 39)))
    congestion, shutdown = attribute(4, b"cubic\0"), attribute(8, b"\3")
    known = attribute(2, info(snd_mss=1448))
    for order in ((known, memory), (memory, known), (congestion, known, shutdown, memory), (shutdown, memory, congestion, known)):
        found = sockets_script.numbers(message(b"".join(order)))
        assert (found[4], found[-2:]) == (1448, [33, 35])


def test_an_older_kernel_says_less_and_the_rest_is_0() -> None:
    found = sockets_script.numbers(message(attribute(2, info(size=104, snd_mss=1448, total_retrans=3, snd_wnd=9))))
    assert found[:4] == [4000, 80, 71, 72]
    assert (found[4], found[9]) == (1448, 3)
    assert found[10:] == [0] * 10
    assert sockets_script.numbers(message(b""))[4:] == [0] * 16


def test_an_attribute_without_a_size_ends_the_message() -> None:
    known = attribute(2, info(snd_mss=1448))
    assert sockets_script.numbers(message(struct.pack("=HH", 3, 7) + known))[4] == 0
    assert sockets_script.numbers(message(struct.pack("=HH", 4, 9) + known))[4] == 1448, "an empty one does not"


def reply(*contents: bytes, kind: int = 20) -> bytes:
    """Netlink messages that follow each other (linux/netlink.h): each is filled up to a multiple of four bytes."""
    return b"".join(struct.pack("=IHHII", 16 + len(each), kind, 2, 1, 0) + each + bytes(-len(each) % 4) for each in contents)


DONE = reply(bytes(4), kind=3)


class Kernel:
    """Answers a dump with the given datagrams."""

    def __init__(self, *answers: bytes) -> None:
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for answer in answers:
            self.far.send(answer)

    def close(self) -> None:
        self.near.close()
        self.far.close()


@pytest.fixture(name="ask")
def ask_kernel() -> Iterator[Ask]:
    kernels: list[Kernel] = []

    def look(*answers: bytes) -> tuple[list[list[int]], bytes]:
        kernels.append(Kernel(*answers))
        found = sockets_script.look(kernels[-1].near, b"asked")
        return found, kernels[-1].far.recv(100)

    yield look
    for kernel in kernels:
        kernel.close()


def ports(rows: Sequence[Sequence[int]]) -> list[int]:
    return [row[0] for row in rows]


def test_an_answer_comes_in_several_datagrams_until_it_is_done(ask: Ask) -> None:
    # A message of a length that is not a multiple of four is filled up.
    odd = message(attribute(8, b"\3")[:5], port=1)
    rows, said = ask(reply(odd, message(b"", port=2)), reply(message(b"", port=3)) + DONE)
    assert ports(rows) == [1, 2, 3]
    assert said == b"asked"
    assert ask(DONE)[0] == []


@pytest.mark.parametrize("answer", [reply(struct.pack("=i", -2) + bytes(16), kind=2), struct.pack("=IHHII", 15, 20, 0, 1, 0)])
def test_a_kernel_that_refuses_ends_the_script(ask: Ask, answer: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ask(answer)
    assert ended.value.code == 1
    assert "no inet_diag" in capsys.readouterr().err


def test_the_request_asks_for_every_connection_with_content_on_its_way() -> None:
    size, kind, flags, sequence, pid = struct.unpack_from("=IHHII", sockets_script.request(socket.AF_INET))
    assert (size, kind, sequence, pid) == (len(sockets_script.request(socket.AF_INET)), 20, 1, 0)
    assert flags == 0x1 | 0x100 | 0x200, "a request for all: NLM_F_REQUEST, NLM_F_ROOT, NLM_F_MATCH"
    # struct inet_diag_req_v2: family, protocol, what to add, padding, states, id.
    family, protocol, more, _, states = struct.unpack_from("=BBBBI", sockets_script.request(socket.AF_INET), 16)
    assert size == 16 + 56
    assert (family, protocol) == (socket.AF_INET, socket.IPPROTO_TCP)
    assert more == (1 << 1 | 1 << 6), "INET_DIAG_INFO and INET_DIAG_SKMEMINFO"
    assert [state for state in range(32) if states >> state & 1] == [1, 4, 5, 8, 9, 11]


def test_this_machines_kernel_knows_a_connection_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
            near.sendall(bytes(3000))
            far.recv(1000, socket.MSG_WAITALL)
            port, peer = near.getsockname()[1], server.getsockname()[1]
            rows = {(row[0], row[1]): Look(0, *row) for row in sockets_script.look(diag, sockets_script.request(socket.AF_INET))}
    assert (peer, 0) not in rows, "a listening socket does not count"
    sent, got = rows[port, peer], rows[peer, port]
    assert (sent.unread, got.unread) == (0, 2000)
    assert got.received == 3000
    assert sent.mss > 0 < sent.cwnd
    assert sent.send_buffer > 0


class Looking:
    """Each look takes the first of the given milliseconds and finds as many connections; after the last one the lab ends it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: tuple[float, int]) -> None:
        self.clock = SteppingClock(0)
        self.looks = list(looks)
        self.written: list[bytes] = []
        monkeypatch.setattr(sockets_script, "time", self.clock)
        monkeypatch.setattr(sockets_script, "look", self.look)
        monkeypatch.setattr(sockets_script, "families", lambda: [socket.AF_INET])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(
            os, "write", lambda number, text: self.written.append(text) if number == 1 else pytest.fail("not stdout")
        )

    def look(self, _: socket.socket, request: bytes) -> list[list[int]]:
        assert request == sockets_script.request(socket.AF_INET)
        if not self.looks:
            raise KeyboardInterrupt
        cost_ms, count = self.looks.pop(0)
        self.clock.now += round(cost_ms * 1e6)
        return [[4000 + number, 80, 7] for number in range(count)]


def test_a_look_prints_every_connection_and_then_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(monkeypatch, (0.25, 2), (0.25, 0))
    with pytest.raises(KeyboardInterrupt):
        sockets_script.main()
    assert looking.written == [
        b"roughwater-sockets 1\n",
        b"k 250000 4000 80 7\nk 250000 4001 80 7\nt 250000\n",
        b"t 10250000\n",
    ]


def test_looks_keep_to_their_grid_and_are_fewer_where_there_are_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(monkeypatch, (0.5, 8), (0.5, 9), (0.5, 17), (0.5, 1), (13, 1), (10, 1), (0, 0))
    with pytest.raises(KeyboardInterrupt):
        sockets_script.main()
    times_ms = [int(text.split()[-1]) / 1e6 for text in looking.written[1:]]
    # Eight: 10 ms. Nine: 20 ms. Seventeen: 30 ms. A late look is followed by the next instant of the grid.
    assert times_ms == [0.5, 10.5, 30.5, 60.5, 83, 100, 110]


def test_sigterm_ends_it_with_0() -> None:
    with pytest.raises(SystemExit) as ended:
        sockets_script.stop(15, None)
    assert ended.value.code == 0
