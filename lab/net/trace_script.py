"""Runs on the router: opens the gate of each direction when a trace says so. Standard library only.

usage: trace_script.py FILE BASE_NS REPEAT_NS

FILE has a line per direction (interface, handle of its gate, queue in packets), an empty line, and a line per opening:
nanoseconds after BASE_NS (CLOCK_MONOTONIC), the direction's number, and the bytes that may pass. All of it happens again after
REPEAT_NS. The gate is a netem whose slot is opened by changing it (lab/link/trace.py says how); a message to the kernel does that
at once, where a tc would have to be waited for. Prints how late the latest opening was, in nanoseconds. Ends on SIGTERM.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import sys
import time

# linux/netlink.h, linux/rtnetlink.h and linux/pkt_sched.h
_NETLINK_ROUTE, _ERROR, _REQUEST, _NEW_QDISC = 0, 2, 1, 36
_KIND, _OPTIONS, _SLOT = 1, 2, 12
# A gate that has let its bytes through, or that found nothing to let through, stays shut this long.
_SHUT_NS = 3600 * 10**9
# The priority of skbs that the root qdisc drops (lab/link/trace.py).
_WAKE_PRIORITY = 15
_LONG_NS = 10_000_000
_ERRORS_EVERY = 500


class Ended(Exception):
    """The lab has ended the trace."""


def end(_number: int, _frame: object) -> None:
    raise Ended


def attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def opening(interface: int, handle: int, queue: int, bytes_: int) -> bytes:
    """Changes that netem: it lets that number of bytes through from now on, the last packet entire."""
    slot = attribute(_SLOT, struct.pack("=qqiiqq", _SHUT_NS, _SHUT_NS, 0, bytes_, 0, 0))
    options = struct.pack("=IIIIII", 0, queue, 0, 0, 0, 0) + slot
    body = (
        struct.pack("=BxxxiIII", 0, interface, handle << 16, 0, 0) + attribute(_KIND, b"netem\0") + attribute(_OPTIONS, options)
    )
    return struct.pack("=IHHII", 16 + len(body), _NEW_QDISC, _REQUEST, 0, 0) + body


class Gate:
    """One direction's: its interface, and two sockets."""

    def __init__(self, kernel: socket.socket, interface: str, handle: str, queue: str) -> None:
        self._kernel = kernel
        self._index = socket.if_nametoindex(interface)
        self._handle, self._queue = int(handle), int(queue)
        self._messages: dict[int, bytes] = {}
        self._waker = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._waker.bind((interface, 0))
        self._waker.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, _WAKE_PRIORITY)

    def open(self, bytes_: int) -> None:
        """A change does not make the kernel look at the queue, a packet does; this one is dropped."""
        if bytes_ not in self._messages:
            self._messages[bytes_] = opening(self._index, self._handle, self._queue, bytes_)
        self._kernel.send(self._messages[bytes_])
        with contextlib.suppress(OSError):
            self._waker.send(bytes(60))


def sleep_until(due_ns: int) -> int:
    """The time then. A long sleep may take 0.1 % longer than it is asked to: its end is slept apart."""
    while (left := due_ns - (now := time.monotonic_ns())) > 0:
        time.sleep(left / 1e9 * (0.999 if left > _LONG_NS else 1))
    return now


def refusal(kernel: socket.socket) -> int:
    """The kernel's error number, if it has refused a message; it answers nothing else."""
    with contextlib.suppress(BlockingIOError):
        answer = kernel.recv(4096, socket.MSG_DONTWAIT)
        (kind,) = struct.unpack_from("=H", answer, 4)
        if kind == _ERROR:
            return -int(struct.unpack_from("=i", answer, 16)[0])
    return 0


def main(path: str, base_ns: str, repeat_ns: str) -> int:
    with open(path, encoding="ascii") as file:  # noqa: PTH123
        heads, _, rows = file.read().partition("\n\n")
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE)
    kernel.bind((0, 0))
    gates = [Gate(kernel, *head.split()) for head in heads.splitlines()]
    numbers = list(map(int, rows.split()))
    openings = list(zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))
    signal.signal(signal.SIGTERM, end)
    base, latest, error = int(base_ns), 0, 0
    try:
        while not error:
            for count, (after, way, bytes_) in enumerate(openings):
                latest = max(latest, sleep_until(base + after) - base - after)
                gates[way].open(bytes_)
                if count % _ERRORS_EVERY == 0 and (error := refusal(kernel)):
                    break
            base += int(repeat_ns)
    except Ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    error = error or refusal(kernel)
    print(latest)
    if error:
        print(f"the kernel refused to open the link: error {error}", file=sys.stderr)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
