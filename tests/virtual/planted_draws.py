"""Draws what to plant: each cause with a random link, windows and pauses, so that it surely binds (ADR 0034).

A cause binds where it allows at most 45 % of what everything else does. Draws that cannot are drawn again.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lab.clients.ferry import find_ferry
from lab.model.diagnosis import Diagnosis
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from tests.virtual.planted_causes import PORT, Planted

FILE = 8 << 20
_BINDS = 0.45
_SEGMENT = 1448
_LEAST_S, _LEAST_TRIPS = 2.0, 25
_MOST_BYTES = 24_000_000
_LOSSES = 25
CHANNEL = """
import asyncio, asyncssh, sys
async def main(key, path, window):
    async with asyncssh.connect("server", username="lab", client_keys=[key], known_hosts=None) as connection:
        process = await connection.create_process(f"cat {path}", encoding=None, window=int(window))
        while await process.stdout.read(65536):
            pass
asyncio.run(main(*sys.argv[1:]))
"""


@dataclass(frozen=True)
class Raw:
    """Content over TCP without a protocol: settings of the server, words of the client, the link, and a policer behind it.

    The policer's bytes per second and its bucket.
    """

    server: Sequence[str]
    client: Sequence[str]
    link: dict[str, object] = field(default_factory=dict)
    policer: tuple[float, float] | None = None

    def diagnosis(self, lab: Planted) -> Diagnosis:
        link = lab.link(**self.link)
        if self.policer:
            lab.police(link, *self.policer)
        with lab.server(*self.server):
            return lab.diagnosis(lab.script(self.client[0], "server", PORT, *self.client[1:]), link)

    def __str__(self) -> str:
        policer = ("policer", *(f"{each:.0f}" for each in self.policer)) if self.policer else ()
        return " ".join((*self.client, "; server", *self.server, *policer))


@dataclass(frozen=True)
class Asked:
    """A client of a real server: `http1` and `h2` by nginx, `ssh` by OpenSSH, each with its window or limit in bytes."""

    kind: str
    bytes: int
    link: dict[str, object]

    def diagnosis(self, lab: Planted) -> Diagnosis:
        link = lab.link(**self.link)
        name = lab.servers.payload(lab.network.server, FILE).name
        known = lab.servers.environment
        if self.kind == "ssh":
            path = f"{known['LAB_SERVER_FILES']}/{name}"
            return lab.diagnosis([sys.executable, "-c", CHANNEL, known["LAB_SSH_KEY"], path, str(self.bytes)], link)
        limit = ByteRate(self.bytes) if self.kind == "http1" else None
        transfer = Transfer.model_validate({"protocol": self.kind, "direction": "get", "size": Size(FILE), "limit": limit})
        if self.kind == "h2":
            return lab.diagnosis(lab.script("h2", "server", f"/files/{name}", f"window={self.bytes}"), link, transfer)
        command = [str(find_ferry()), "get", "--limit-rate", str(self.bytes), "-o", "/dev/null", f"http://server/files/{name}"]
        return lab.diagnosis(command, link, transfer)

    def __str__(self) -> str:
        return f"{self.kind} {self.bytes}"


Plan = Raw | Asked


@dataclass(frozen=True)
class Net:
    """A drawn link: bytes per second of content, and seconds."""

    byte_s: float
    rtt_s: float

    @property
    def bdp(self) -> float:
        return self.byte_s * self.rtt_s

    def link(self, **more: object) -> dict[str, object]:
        return {"rate": f"{self.byte_s * 8 / 0.94 / 1e6:.3f} Mbit/s", "rtt": f"{self.rtt_s * 1e3:.2f} ms", **more}

    def content(self, byte_s: float) -> int:
        """Enough for slow start to be over soon."""
        return round(byte_s * max(_LEAST_S, _LEAST_TRIPS * self.rtt_s))


def drawn_net(draw: random.Random) -> Net:
    """10 to 200 Mbit/s and 10 to 200 ms, each equally likely in its logarithm."""
    return Net(10e6 * 20 ** draw.random() / 8 * 0.94, 0.01 * 20 ** draw.random())


def _until(draw: random.Random, sound: Callable[[Net], bool]) -> Net:
    while not sound(net := drawn_net(draw)):
        pass
    return net


def _share(draw: random.Random) -> float:
    return draw.uniform(0.1, _BINDS)


def _paced(draw: random.Random, byte_s: float) -> tuple[list[str], float]:
    """Words of a program that moves at most so much a second, in pieces of 4 to 256 KiB, and how much it does move."""
    chunk = round(4096 * 64 ** draw.random())
    pause_ms = math.ceil(chunk / min(byte_s, 4e6) * 1e3)
    return [f"chunk={chunk}", f"pause={pause_ms}"], chunk / pause_ms * 1e3


def receive_window(draw: random.Random) -> Plan:
    net = _until(draw, lambda net: net.bdp >= 64e3 and net.content(_BINDS * net.byte_s) <= _MOST_BYTES)
    window = round(_share(draw) * net.bdp)
    return Raw((), ("get", f"size={net.content(window / net.rtt_s)}", f"rcvbuf={max(4096, window)}"), net.link())


def send_buffer(draw: random.Random) -> Plan:
    net = _until(draw, lambda net: net.bdp >= 64e3 and net.content(_BINDS * net.byte_s) <= _MOST_BYTES)
    size = round(_share(draw) * net.bdp)
    chunk = round(2048 * 64 ** draw.random())
    words = [f"sndbuf={size // 2}", f"chunk={chunk}", "nodelay=1"]
    content = f"size={net.content(size / net.rtt_s)}"
    if draw.random() < 0.5:
        return Raw(words, ("get", content), net.link())
    return Raw((), ("put", content, *words), net.link())


def slow_reader(draw: random.Random) -> Plan:
    net = drawn_net(draw)
    words, byte_s = _paced(draw, _share(draw) * net.byte_s)
    return Raw((), ("get", f"size={net.content(byte_s)}", *words), net.link())


def slow_writer(draw: random.Random) -> Plan:
    net = drawn_net(draw)
    words, byte_s = _paced(draw, _share(draw) * net.byte_s)
    return Raw((), ("put", f"size={net.content(byte_s)}", *words), net.link())


def slow_server(draw: random.Random) -> Plan:
    net = drawn_net(draw)
    words, byte_s = _paced(draw, _share(draw) * net.byte_s)
    way = "get" if draw.random() < 0.7 else "put"
    return Raw(words, (way, f"size={net.content(byte_s)}"), net.link())


def loss(draw: random.Random) -> Plan:
    """Reno's and CUBIC's rates at a loss (RFC 8312, 5.1) must be below the line's."""
    while True:
        net, share = drawn_net(draw), 0.003 * 10 ** draw.random()
        reno = _SEGMENT / net.rtt_s * 1.22 / share**0.5
        cubic = _SEGMENT * 1.054 * (1 / (share**3 * net.rtt_s)) ** 0.25
        if 20e3 < max(reno, cubic) <= _BINDS * net.byte_s:
            break
    size = min(max(net.content(max(reno, cubic)) * 2, round(_LOSSES / share * _SEGMENT)), _MOST_BYTES)
    return Raw((), ("get", f"size={size}"), net.link(loss=f"{share * 100:.3f} %", seed=draw.randrange(1, 1000)))


def policer(draw: random.Random) -> Plan:
    """A bucket of 20 to 50 ms behind the line. It leaves a long path little of its rate, so the content is bounded."""
    net = drawn_net(draw)
    policed = _share(draw) * net.byte_s
    size = round(min(net.content(policed), 6_000_000))
    return Raw((), ("get", f"size={size}"), net.link(), (policed, max(15_000, draw.uniform(0.02, 0.05) * policed)))


def ssh_window(draw: random.Random) -> Plan:
    """A channel's window with which the file takes 60 to 200 round trips; opening the connection takes some 15."""
    least, most = FILE / 200, FILE / 60
    net = _until(draw, lambda net: net.bdp * _BINDS >= 1.5 * least)
    return Asked("ssh", round(draw.uniform(least, min(most, _BINDS * net.bdp))), net.link())


def h2_window(draw: random.Random) -> Plan:
    """At least 64 KiB - 1, the window of the connection (RFC 9113, 6.9.2)."""
    net = _until(draw, lambda net: net.bdp * _BINDS >= 65535)
    return Asked("h2", round(draw.uniform(65535, min(FILE / 40, _BINDS * net.bdp))), net.link())


def line(draw: random.Random) -> Plan:
    net = _until(draw, lambda net: net.byte_s * max(_LEAST_S, 30 * net.rtt_s) <= 2 * _MOST_BYTES)
    way = draw.choice(("get", "put"))
    return Raw((), (way, f"size={round(net.byte_s * max(_LEAST_S, 30 * net.rtt_s))}"), net.link())


def limit(draw: random.Random) -> Plan:
    net = drawn_net(draw)
    most = min(4e6, FILE / (_LEAST_TRIPS * net.rtt_s))
    return Asked("http1", round(min(_share(draw) * net.byte_s, most)), net.link())


def short_file(draw: random.Random) -> Plan:
    net = _until(draw, lambda net: net.bdp >= 64e3)
    return Raw((), ("get", f"size={round(draw.uniform(0.05, 0.3) * net.bdp)}"), net.link())


def server_and_window(draw: random.Random) -> Plan:
    """First the server's pauses, then a receive window, for the same time each."""
    net = _until(draw, lambda net: net.bdp >= 128e3 and net.content(net.byte_s) <= 2 * _MOST_BYTES)
    window = round(draw.uniform(0.3, _BINDS) * net.bdp)
    words, byte_s = _paced(draw, draw.uniform(0.1, 0.3) * window / net.rtt_s)
    first, then = net.content(byte_s), net.content(window / net.rtt_s)
    return Raw((*words, f"until={first}"), ("get", f"size={first + then}", f"rcvbuf={window}"), net.link())


def server_and_line(draw: random.Random) -> Plan:
    net = _until(draw, lambda net: net.content(net.byte_s) <= _MOST_BYTES)
    words, byte_s = _paced(draw, draw.uniform(0.1, 0.3) * net.byte_s)
    first, then = net.content(byte_s), net.content(net.byte_s)
    return Raw((*words, f"until={first}"), ("get", f"size={first + then}"), net.link())


def reader_and_line(draw: random.Random) -> Plan:
    net = _until(draw, lambda net: net.content(net.byte_s) <= _MOST_BYTES)
    words, byte_s = _paced(draw, draw.uniform(0.1, 0.3) * net.byte_s)
    first, then = net.content(byte_s), net.content(net.byte_s)
    return Raw((), ("get", f"size={first + then}", *words, f"until={first}"), net.link())


CAUSES: dict[str, Callable[[random.Random], Plan]] = {
    "receive-window": receive_window,
    "send-buffer": send_buffer,
    "slow-reader": slow_reader,
    "slow-writer": slow_writer,
    "slow-server": slow_server,
    "loss": loss,
    "policer": policer,
    "ssh-window": ssh_window,
    "h2-window": h2_window,
    "line": line,
    "limit": limit,
    "short-file": short_file,
}
MIXED: dict[str, Callable[[random.Random], Plan]] = {
    "server and window": server_and_window,
    "server and line": server_and_line,
    "reader and line": reader_and_line,
}


def plan(name: str, number: int, seed: int) -> Plan:
    """Draw `number` of what has this name."""
    return (CAUSES | MIXED)[name](random.Random(f"{seed} {name} {number}"))
