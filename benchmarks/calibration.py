"""The accuracy of the lab's links: every rate x RTT, n looks each; keeps them for a study (docs/studies/README.md).

python -m benchmarks.calibration [--backend namespaces|compose] [--router kernel|uml] [-n 5] [--rate R]...
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.common import keep
from lab.cli.calibrate import looks_at, summarise
from lab.hosts.agent.router import ROUTER_CHOICES
from lab.hosts.choose import BACKENDS, open_network
from lab.model.link import Link
from lab.model.results import Calibration
from lab.model.units import BitRate, Duration
from lab.run.progress import Lines

RATES = ("20 Mbit/s", "50 Mbit/s", "200 Mbit/s", "500 Mbit/s")
RTTS = ("2 ms", "20 ms", "100 ms")
REPORTED = (("1 Gbit/s", "100 ms"), (None, "0 ms"))


def links(rates: Sequence[str] = ()) -> list[Link]:
    """Everything, or only some rates."""
    asked: list[tuple[str | None, str]] = [(rate, rtt) for rate in rates or RATES for rtt in RTTS]
    asked += [] if rates else REPORTED
    return [Link(rate=BitRate.parse(rate) if rate else None, rtt=Duration.parse(rtt)) for rate, rtt in asked]


def line(link: Link, looks: list[Calibration]) -> str:
    summary = summarise(link, looks)
    cells = [str(link.rate) if link.rate else "unshaped (link-local)", str(link.rtt)]
    for name in ("up", "down"):
        side = summary["directions"][name]  # type: ignore[index]
        error, goodput = side["goodput_error"], side["goodput_bit_s"]
        ideal = f"{side['ideal_bit_s'] / 1e6:.2f}" if side["ideal_bit_s"] else "–"
        cells.append(f"{goodput['mean'] / 1e6:.2f} / {ideal}")
        cells.append(
            f"{error['mean']:+.2%} [{error['low']:+.2%}, {error['high']:+.2%}]"
            if error
            else f"spread {min(goodput['values']) / 1e6:.0f}–{max(goodput['values']) / 1e6:.0f}"
        )
    excess = summary["rtt_excess_ms"]
    cells.append(f"{excess['mean']:+.3f} [{excess['low']:+.3f}, {excess['high']:+.3f}]")  # type: ignore[index]
    cells.append(str(len(looks)))
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--router", choices=ROUTER_CHOICES, default="auto")
    parser.add_argument("--backend", choices=BACKENDS, default="namespaces")
    parser.add_argument("--rate", action="append", choices=RATES, help="only this one; repeatable")
    parser.add_argument("-n", type=int, default=5)
    options = parser.parse_args()
    progress = Lines()
    network = open_network(options.backend, router=options.router)
    lines = [
        "| asked | RTT | up: goodput / ideal, Mbit/s | up: error, mean [90 %] "
        "| down: goodput / ideal | down: error | RTT excess, ms | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    raw = []
    try:
        facts = network.router_facts
        for link in links(options.rate or ()):
            looks = looks_at(network, link, options.n, congestion_control="cubic", progress=progress)
            lines.append(line(link, looks))
            raw.append({"link": link.model_dump(mode="json"), "looks": [look.model_dump(mode="json") for look in looks]})
            progress.clear()
            print(lines[-1], flush=True)
    finally:
        network.close()
    kind = facts.kind if options.backend == "namespaces" else f"{options.backend}-{facts.kind}"
    print(f"raw samples: {keep(f'calibration-{kind}', raw)}")


if __name__ == "__main__":
    main()
