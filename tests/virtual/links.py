"""How far links in virtual time are from theory: `python -m tests.virtual.links [RATE...]`.

The looks are kept in results/benchmarks/virtual-links.json, for the study calibration-virtual.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from lab.hosts.virtual.network import open_network
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.paths import results_dir
from lab.model.results import Calibration
from lab.net.calibrate import Tolerance, calibrate
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.iperf3 import launch
from lab.servers.process import wait_ready

# What the project asks of its links: of the ideal goodput, and of the RTT that was asked with its serialisation.
GOODPUT, RTT_MS = 0.0001, 0.01
RATES = ("7 Mbit/s", "20 Mbit/s", "50 Mbit/s", "200 Mbit/s", "1000 Mbit/s")
RTTS = ("2 ms", "20 ms", "100 ms", "600 ms")


def measure(rate: str, rtt: str, queue: object = None) -> Calibration:
    """Calibrate a link in a new machine; `queue` as a topology writes it, where it is not a plain one."""
    link = Link.model_validate({"rate": rate, "rtt": rtt} | ({"queue": queue} if queue else {}))
    network = open_network(seed=1, payload_bytes=256 << 20 if link.rtt.s > 0.5 else 64 << 20)
    try:
        pin(network, "cubic")
        wait_ready([launch(network.server)])
        shape(network, link)
        return calibrate(network, link, "cubic", tolerance=Tolerance(goodput=GOODPUT, rtt_ms=RTT_MS))
    finally:
        network.close()


def row(rate: str, rtt: str) -> dict[str, object]:
    """A link: its look, or the reason why it could not be measured, and the real time that it took."""
    begun = time.monotonic()
    found: dict[str, object] = {"rate": rate, "rtt": rtt}
    try:
        look = measure(rate, rtt)
        errors = [side.goodput_error or 0.0 for side in (look.up, look.down)]
        inside = max(map(abs, errors)) <= GOODPUT and abs(look.rtt_excess_ms) <= RTT_MS
        found |= {"inside": inside, "look": look.model_dump(mode="json")}
        print(f"{rate} x {rtt}: {errors[0]:+.4%} up, {errors[1]:+.4%} down, RTT {look.rtt_excess_ms:+.4f} ms", flush=True)
    except LabFault as fault:
        found |= {"inside": False, "problem": fault.message}
        print(f"{rate} x {rtt}: {fault.message}", flush=True)
    return {**found, "real_s": round(time.monotonic() - begun, 1)}


def main(rates: Sequence[str]) -> int:
    """Measure every link of these rates, or of all; 1 if one is outside of what is asked."""
    rows = [row(rate, rtt) for rate in rates or RATES for rtt in RTTS]
    path = results_dir() / "benchmarks" / "virtual-links.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if rates and path.is_file() else []
    measured = [(each["rate"], each["rtt"]) for each in rows]
    kept = [each for each in kept if (each["rate"], each["rtt"]) not in measured]
    path.write_text(json.dumps([*kept, *rows], indent=1) + "\n")
    print(path)
    return 0 if all(each["inside"] for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
