"""TCP flows with unlimited data and their TCP_INFO. Run by path on a host; standard library only.

script.py receive PORT
script.py send ADDRESS PORT ALGORITHM LOSSES INTERVAL_S SECONDS
script.py discard PORT FLOWS
script.py flows ADDRESS ALGORITHM SECONDS INTERVAL_S PORT...
script.py stream SECONDS COMMAND...

`send` ends after LOSSES retransmissions or SECONDS and prints one JSON list: a row per interval with the columns `COLUMNS`.
`receive` discards everything and ends with the sender. `flows` begins on all ports at once, writes for SECONDS as iperf does, and
prints a JSON list with an object per flow. `stream` counts what a command writes and prints bytes by second, from its first byte.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import subprocess
import sys
import threading
import time

# struct tcp_info, include/uapi/linux/tcp.h
_U32 = {"mss": 16, "rtt_us": 68, "cwnd": 80, "again": 100, "spurious": 216}
_U64 = {"bytes_acked": 120, "busy_us": 168, "receiver_limited_us": 176, "buffer_limited_us": 184}
COLUMNS = ("t_ns", *_U32, *_U64)
_CHUNK = bytes(1 << 18)
# What iperf 2 and iperf3 write at once over TCP.
_IPERF_CHUNK = bytes(128 << 10)
_READ_BYTES = 1 << 22
# A quarter of what iperf reads at once. It wakes the reader once for 23 packets, which takes a tenth of the time, and is too
# small for the kernel to enlarge a buffer for it.
_WAKE_BYTES = 32 << 10


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
    _reset(sender)
    print(json.dumps(rows))


def receive(port: int) -> None:
    listener = socket.create_server(("", port))
    connection, _ = listener.accept()
    # Being woken by every packet takes most of the machine's time. The kernel acknowledges as for a reader that keeps up.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20)
    _read_all(connection)


def discard(port: int, flows: int) -> None:
    """Read that many connections, all at once, until they end."""
    listener = socket.create_server(("", port))
    readers = []
    for _ in range(flows):
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _WAKE_BYTES)
        readers.append(threading.Thread(target=_read_all, args=(connection,)))
        readers[-1].start()
    for reader in readers:
        reader.join()


def flows(address: str, algorithm: str, *, seconds: float, interval_s: float, ports: list[int]) -> None:
    senders = []
    for port in ports:
        sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        sender.connect((address, port))
        senders.append(sender)
    begun = time.monotonic()
    found: list[dict[str, object]] = [{"written": 0, "elapsed_s": 0.0, "rows": []} for _ in senders]
    writers = [
        threading.Thread(target=_write, args=(sender, begun, seconds, into), daemon=True)
        for sender, into in zip(senders, found, strict=True)
    ]
    for writer in writers:
        writer.start()
    looks = round(seconds / interval_s)
    for look in range(looks + 1):
        time.sleep(max(0.0, begun + look * interval_s - time.monotonic()))
        for sender, into in zip(senders, found, strict=True):
            into["rows"].append(row(sender))  # type: ignore[attr-defined]
    for writer in writers:
        writer.join(60.0)
    for sender in senders:
        _reset(sender)
    print(json.dumps(found))


def stream(seconds: float, command: list[str]) -> None:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        counts: list[int] = []
        begun: float | None = None
        while chunk := running.stdout.read1(1 << 20):  # type: ignore[attr-defined]
            now = time.monotonic()
            begun = now if begun is None else begun
            second = int(now - begun)
            if second >= seconds:
                break
            counts += [0] * (second + 1 - len(counts))
            counts[second] += len(chunk)
        running.kill()
    print(json.dumps(counts))


def _write(sender: socket.socket, begun: float, seconds: float, into: dict[str, object]) -> None:
    """Whole blocks until the time is over; the last one may end a moment later, which counts, as in iperf."""
    written = 0
    while time.monotonic() - begun < seconds:
        sender.sendall(_IPERF_CHUNK)
        written += len(_IPERF_CHUNK)
    into["written"], into["elapsed_s"] = written, time.monotonic() - begun


def _read_all(connection: socket.socket) -> None:
    try:
        while connection.recv(_READ_BYTES, socket.MSG_TRUNC):
            pass
    except ConnectionResetError:
        pass


def _reset(sender: socket.socket) -> None:
    """Close without sending what is left."""
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close()


def main() -> None:
    role, *words = sys.argv[1:]
    if role == "receive":
        receive(int(words[0]))
    elif role == "discard":
        discard(int(words[0]), int(words[1]))
    elif role == "flows":
        address, algorithm, seconds, interval_s, *ports = words
        flows(address, algorithm, seconds=float(seconds), interval_s=float(interval_s), ports=[int(port) for port in ports])
    elif role == "stream":
        stream(float(words[0]), words[1:])
    else:
        address, port, algorithm, losses, interval_s, seconds = words
        send((address, int(port)), algorithm, losses=int(losses), interval_s=float(interval_s), seconds=float(seconds))


if __name__ == "__main__":
    main()
