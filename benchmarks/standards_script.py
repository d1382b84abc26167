"""One TCP flow with unlimited data and its TCP_INFO. Run by path on a host; standard library only.

standards_script.py receive PORT
standards_script.py send ADDRESS PORT ALGORITHM LOSSES INTERVAL_S SECONDS

The sender ends after LOSSES retransmissions or SECONDS and prints one JSON list: a row per interval with the columns `COLUMNS`.
The receiver discards everything and ends with the sender.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time

# struct tcp_info, include/uapi/linux/tcp.h
_U32 = {"mss": 16, "rtt_us": 68, "cwnd": 80, "again": 100, "spurious": 216}
_U64 = {"bytes_acked": 120, "busy_us": 168, "receiver_limited_us": 176, "buffer_limited_us": 184}
COLUMNS = ("t_ns", *_U32, *_U64)
_CHUNK = bytes(1 << 18)


def row(sender: socket.socket) -> list[int]:
    info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    found = {name: struct.unpack_from("=I", info, at)[0] for name, at in _U32.items()}
    found |= {name: struct.unpack_from("=Q", info, at)[0] for name, at in _U64.items()}
    found["t_ns"] = time.monotonic_ns()
    return [found[name] for name in COLUMNS]


def send(to: tuple[str, int], algorithm: str, *, losses: int, interval_s: float, seconds: float) -> None:
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    sender.connect(to)
    sender.setblocking(False)
    poll = select.poll()
    poll.register(sender, select.POLLOUT)
    rows = [row(sender)]
    begun = due = time.monotonic()
    while rows[-1][COLUMNS.index("again")] < losses and due - begun < seconds:
        due += interval_s
        while (left := due - time.monotonic()) > 0:
            if poll.poll(left * 1e3):
                try:
                    sender.send(_CHUNK)
                except BlockingIOError:
                    continue
        rows.append(row(sender))
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close()
    print(json.dumps(rows))


def receive(port: int) -> None:
    listener = socket.create_server(("", port))
    connection, _ = listener.accept()
    # Being woken by every packet takes most of the machine's time. The kernel acknowledges as for a reader that keeps up.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20)
    try:
        while connection.recv(1 << 22, socket.MSG_TRUNC):
            pass
    except ConnectionResetError:
        pass


def main() -> None:
    role, *words = sys.argv[1:]
    if role == "receive":
        receive(int(words[0]))
    else:
        address, port, algorithm, losses, interval_s, seconds = words
        send((address, int(port)), algorithm, losses=int(losses), interval_s=float(interval_s), seconds=float(seconds))


if __name__ == "__main__":
    main()
