"""How far links in virtual time are from theory; `python -m tests.virtual.links` writes docs/studies/calibration-virtual.md."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from lab.hosts.virtual.network import open_network
from lab.model.errors import LabFault
from lab.model.results import Calibration
from lab.model.topology import Link
from lab.model.units import BitRate, Duration
from lab.net.calibrate import Tolerance, calibrate
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.iperf3 import launch
from lab.servers.process import wait_ready

# What the project asks of its links: of the ideal goodput, and of the RTT that was asked with its serialisation.
GOODPUT, RTT_MS = 0.0001, 0.01
RATES = ("7 Mbit/s", "20 Mbit/s", "50 Mbit/s", "200 Mbit/s", "1000 Mbit/s")
RTTS = ("2 ms", "20 ms", "100 ms", "600 ms")
_PAGE = Path(__file__).parents[2] / "docs/studies/calibration-virtual.md"
_HEAD = """\
# Links in virtual time against theory
Made by `make bench-virtual-links`.
Asked of each: goodput within 0.01 % of the ideal, idle RTT within 0.01 ms of what was asked plus serialisation.
A window holds at least 20,000 packets and is exact to one of them at each end. A figure in **bold** is outside.

| link | up | down | RTT, excess | windows | real time |
|---|---|---|---|---|---|
"""

_TAIL = """
Where a link as long and as fast as 1000 Mbit/s x 600 ms is outside: 75 MB are on their way there, and iperf3's four flows leave
the link idle for moments of the window. What is sent arrives on time; its RTT is exact.
"""


def measure(rate: str, rtt: str) -> Calibration:
    """Calibrate a link in a new machine."""
    link = Link(rate=BitRate.parse(rate), rtt=Duration.parse(rtt))
    network = open_network(seed=1, payload_bytes=256 << 20 if link.rtt.s > 0.5 else 64 << 20)
    try:
        pin(network, "cubic")
        wait_ready([launch(network.server)])
        shape(network, link)
        return calibrate(network, link, "cubic", tolerance=Tolerance(goodput=GOODPUT, rtt_ms=RTT_MS))
    finally:
        network.close()


def row(rate: str, rtt: str) -> str:
    begun = time.monotonic()
    try:
        found = measure(rate, rtt)
    except LabFault as fault:
        return f"| {rate} x {rtt} | {fault.message} | | | | |\n"
    errors = [side.goodput_error or 0.0 for side in (found.up, found.down)]
    goodputs = " | ".join(f"{error:+.4%}" if abs(error) <= GOODPUT else f"**{error:+.4%}**" for error in errors)
    excess = f"{found.rtt_excess_ms:+.4f} ms"
    excess = excess if abs(found.rtt_excess_ms) <= RTT_MS else f"**{excess}**"
    windows = f"{found.up.window_s:.1f} s, {found.down.window_s:.1f} s"
    return f"| {rate} x {rtt} | {goodputs} | {excess} | {windows} | {time.monotonic() - begun:.0f} s |\n"


def main() -> int:
    rows = []
    for rate in RATES:
        for rtt in RTTS:
            rows.append(row(rate, rtt))
            print(rows[-1], end="", flush=True)
    part = _PAGE.with_name(f".{_PAGE.name}.{os.getpid()}")
    part.write_text(_HEAD + "".join(rows) + _TAIL)
    part.replace(_PAGE)
    return 1 if any("**" in each for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
