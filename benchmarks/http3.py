"""HTTP/3, HTTP/2 and HTTP/1.1 without a limit: rates x round trips x losses, get and put, in virtual time.

python -m benchmarks.http3 [--rates 7 50] [--rtts 30] [--losses 0 1] [--client ferry] [--minutes 20]
python -m benchmarks.http3 --client quinn aioquic    (HTTP/3 alone; quinn: cargo build --release in engine/peers/quinn-h3)
python -m benchmarks.http3 --again FILE.json...

Client and server run programs of Debian 13, so that all three protocols meet the same nginx. A path's cells share one machine and
one link per client and direction. A size is what the line carries in three seconds, or what a TCP carries in ten where packets
are lost; all protocols of a path move the same. `--minutes` begins no further path after that much real time. `--again` prints
the table of samples that were kept; of a cell in several files the last counts, so that part of a study can be taken again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, cast, get_args

from benchmarks import common
from benchmarks.claims import LEAST_SAMPLES, Estimate, median_ratio
from benchmarks.common import keep, one_line_end, say
from lab.clients.registry import parse_client
from lab.link.theory import bdp_packets, ideal_goodput_bit_s, payload_per_segment
from lab.model.cell import Cell
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import Link, carrier
from lab.model.results import CellResult, Sample
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, Duration, Ratio, Size
from lab.model.userland import Http3Server, TopologyUserlands, Userlands
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir

PROTOCOLS = ("http1", "h2", "h3")
DIRECTIONS = ("get", "put")
DEBIAN_13 = Userlands("debian:13", "debian:13")
# Libraries' own clients (engine/peers), by the short names that they have here.
PEERS = {"quinn": common.PEERS / "quinn-h3" / "quinn.yaml", "aioquic": common.PEERS / "aioquic" / "aioquic.yaml"}
_MTU = 1500
_FIRST_WINDOW = 10  # segments (RFC 6928)
_LEAST_S, _LEAST_FULL_S, _LOSSY_S = 3.0, 1.0, 10.0


@dataclass(frozen=True, order=True)
class Line:
    """A link of the study."""

    rate_mbit: float
    rtt_ms: float
    loss_percent: float
    server: Http3Server = "nginx"
    """The program that serves HTTP/3; nginx serves the others."""

    @property
    def topology(self) -> Topology:
        name = f"{self.rate_mbit:g}-mbit-{self.rtt_ms:g}-ms" + (f"-lossy-{self.loss_percent:g}" if self.loss_percent else "")
        link = Link(
            rate=BitRate(round(self.rate_mbit * 1e6)),
            rtt=Duration(round(self.rtt_ms * 1e6)),
            loss=Ratio(self.loss_percent / 100),
        )
        programs = TopologyUserlands(http3=self.server)
        return Topology(name=name.replace(".", "-"), description="A line of the study http3.", link=link, userlands=programs)

    def ideal_byte_s(self) -> float:
        """The payload of TCP on the full line."""
        return (ideal_goodput_bit_s(self.topology.link.direction("down")) or math.inf) / 8

    def size_bytes(self) -> int:
        """A transfer has at least a second of the full line after slow start, and three seconds in all."""
        if self.loss_percent:
            # Mathis et al., CCR 27(3), 1997: the mean rate of a TCP that meets random losses.
            loss = self.loss_percent / 100
            mathis = payload_per_segment(_MTU) / (self.rtt_ms / 1e3) * math.sqrt(3 / (2 * loss))
            return round(max(min(mathis, self.ideal_byte_s()) * _LOSSY_S, 256e3))
        window = bdp_packets(BitRate(round(self.rate_mbit * 1e6)), Duration(round(self.rtt_ms * 1e6)), _MTU)
        begins_s = max(math.log2(max(window, 1) / _FIRST_WINDOW), 0.0) * self.rtt_ms / 1e3
        return round(self.ideal_byte_s() * max(_LEAST_S - begins_s, _LEAST_FULL_S))


@dataclass(frozen=True)
class Taken:
    """The samples of one cell."""

    path: Line
    client: str
    protocol: str
    direction: str
    size_bytes: int
    verdict: str
    samples: list[dict[str, Any]]

    @property
    def key(self) -> tuple[Line, str, str, str]:
        return self.path, self.client, self.protocol, self.direction

    @property
    def rates(self) -> list[float]:
        """Bytes per second of the body, of each sample that arrived."""
        return [sample["body_byte_s"] for sample in self.samples if sample["ok"] and sample["body_byte_s"]]

    @property
    def mean(self) -> float | None:
        return statistics.mean(self.rates) if self.rates else None

    @property
    def drops(self) -> float | None:
        """Packets that the queue in the content's direction dropped, of a sample."""
        way = f"router_drops_{carrier(self.direction)}"
        found = [sample["wire"][way] for sample in self.samples if sample["wire"]]
        return statistics.mean(found) if found else None

    @property
    def content_share(self) -> float | None:
        """The body's part of the frames that arrived, of a sample: what framing leaves.

        The counters are those of the router behind its queue, so what that dropped is not in them. For h2 the headers add up to
        0.9546 at MTU 1500: 1448 of 1514 bytes (`lab.link.theory`), and 16384 of the 16415 of a TLS record (RFC 8446, section 5.2)
        and a DATA frame (RFC 9113, section 4.1); 0.9536 to 0.9549 is what the counters say, with heads and the handshake.
        """
        way = f"wire_bytes_{carrier(self.direction)}"
        shares = [self.size_bytes / sample["wire"][way] for sample in self.samples if sample["ok"] and sample["wire"]]
        return statistics.mean(shares) if shares else None

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        return cls(**{**kept, "path": Line(**kept["path"])})


def kept_of(sample: Sample) -> dict[str, Any]:
    """What the study needs of a sample."""
    wanted = {
        "index", "seed", "ok", "problem", "exit_code", "wall_s", "body_s", "body_clock", "said_body_s", "body_byte_s",
        "total_byte_s", "goodput_ratio", "wire", "cpu_user_s", "cpu_system_s", "max_rss_bytes",
    }  # fmt: skip
    return sample.model_dump(mode="json", include=wanted)


def cell_of(path: Line, client: ClientSpec, protocol: str, direction: str) -> Cell:
    transfer = Transfer.model_validate({"protocol": protocol, "direction": direction, "size": Size(path.size_bytes())})
    return Cell(client=client, topology=path.topology, transfer=transfer, expectation=Expectation(kind="none"))


def take(path: Line, client: ClientSpec, direction: str, *, protocols: Sequence[str], rounds: int, seed: int) -> list[Taken]:
    """Samples of the protocols, interleaved on one machine; a cell that fails is left out of further rounds."""
    cells = {protocol: cell_of(path, client, protocol, direction) for protocol in protocols}
    found: dict[str, CellResult] = {}
    with tempfile.TemporaryDirectory() as folder:
        # A client that was built here has this machine's libraries.
        built_here = client.program == str(PEERS["quinn"])
        options = Options(clock="virtual", seed=seed, userlands=DEBIAN_13._replace(client="") if built_here else DEBIAN_13)
        with Session(RunDir.create("http3", results=Path(folder)), options) as session:
            while cells:
                _, results = session.run_together(path.topology.name, list(cells.values()), rounds)
                ended = {name: result for name, result in zip(cells, results, strict=True) if _over(result, rounds)}
                found |= ended
                cells = {name: cell for name, cell in cells.items() if name not in ended} if ended else {}
    for result in found.values():
        if result.certificate and not result.certificate.before[-1].ok:
            raise LabFault(f"{path.topology.name}: {result.verdict.reason}")
    return [
        Taken(
            path,
            client.name,
            name,
            direction,
            path.size_bytes(),
            f"{result.verdict.name}: {result.verdict.reason}",
            [kept_of(sample) for sample in result.samples],
        )
        for name, result in found.items()
    ]


def _over(result: CellResult, rounds: int) -> bool:
    """Whether the cell has all its samples, or a failed one, or none for a reason of the lab's."""
    return len(result.samples) == rounds or any(not sample.ok for sample in result.samples) or result.verdict.name == "INVALID"


def framing_of(cells: Sequence[Taken]) -> dict[tuple[str, str, str, str], float]:
    """For each server, client, protocol and direction: the body's part of its frames, the median of the lines without loss.

    Packets that were sent twice and arrived twice do not count as framing. There are some where a queue overflows; the median
    leaves those lines out.
    """
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for cell in cells:
        if not cell.path.loss_percent and (share := cell.content_share):
            found.setdefault((cell.path.server, cell.client, cell.protocol, cell.direction), []).append(share)
    return {key: statistics.median(shares) for key, shares in found.items()}


def rows_of(cells: Sequence[Taken]) -> list[dict[str, Any]]:
    """A row for each line, direction and client: what part of the line each protocol takes, and h3 over h2."""
    rows = list[dict[str, Any]]()
    by_key = {cell.key: cell for cell in cells}
    framing = framing_of(cells)
    for line, direction, client in dict.fromkeys((cell.path, cell.direction, cell.client) for cell in sorted(cells, key=_order)):
        found = {name: cell for name in PROTOCOLS if (cell := by_key.get((line, client, name, direction)))}
        shares = {name: None if cell.mean is None else cell.mean / line.ideal_byte_s() for name, cell in found.items()}
        h3, h2 = shares.get("h3"), shares.get("h2")
        ratio = (h3 or 0.0) / h2 if "h3" in found and h2 else None
        h2_content, h3_content = (framing.get((line.server, client, name, direction)) for name in ("h2", "h3"))
        framed = None
        if ratio is not None and not line.loss_percent:
            # Where h3 failed on every line, it is 0 of h2 in any framing.
            framed = ratio * h2_content / h3_content if h2_content and h3_content else ratio
        medians = median_ratio(found["h3"].rates, found["h2"].rates) if ratio else None
        rows.append(
            {
                **asdict(line),
                "direction": direction,
                "client": client,
                "n": max(len(cell.samples) for cell in found.values()),
                "size_bytes": line.size_bytes(),
                "shares": shares,
                "failed": {name: len(cell.samples) - len(cell.rates) for name, cell in found.items()},
                "drops": {name: cell.drops for name, cell in found.items()},
                # None where it was not run, 0 where h3 failed.
                "h3_to_h2": ratio,
                # As if both protocols had the same framing; with loss that is not what the lines differ by.
                "h3_to_h2_framed": framed,
                # The ratio of the medians and its 95 % interval, where there are samples enough.
                "medians": asdict(medians) if medians and medians.n >= LEAST_SAMPLES else None,
            }
        )
        rows[-1]["h3_to_h2_most"] = most_of(rows[-1])
    return rows


def most_of(row: Mapping[str, Any]) -> float | None:
    """The h3 / h2 that a row may still have: its interval's upper end, or the ratio with framing counted, or the ratio."""
    if row["medians"]:
        return float(row["medians"]["high"])
    ratio = row["h3_to_h2"] if row["h3_to_h2_framed"] is None else row["h3_to_h2_framed"]
    return None if ratio is None else float(ratio)


def _order(cell: Taken) -> tuple[str, float, float, float, str, bool]:
    path = cell.path
    return path.server, path.loss_percent, path.rate_mbit, path.rtt_ms, cell.direction, not cell.client.startswith("ferry")


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows in Markdown."""
    shares = [f"{name}, % of the line" for name in PROTOCOLS]
    ratios = ["h3 / h2", "framing counted", "of the medians"]
    heads = ["Mbit/s", "RTT, ms", "loss, %", "way", "client", "h3's server", "n", "MB", *shares, *ratios, "drops h2, h3"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        told = [_percent(row["shares"].get(name, 0), name in row["shares"]) for name in PROTOCOLS]
        drops = ", ".join("-" if (count := row["drops"].get(name)) is None else f"{count:.0f}" for name in ("h2", "h3"))
        ratios = ["-" if row[name] is None else f"{row[name]:.3f}" for name in ("h3_to_h2", "h3_to_h2_framed")]
        ratios.append("-" if row["medians"] is None else Estimate(**row["medians"]).told())
        line = [f"{row[name]:g}" for name in ("rate_mbit", "rtt_ms", "loss_percent")]
        who = [row[name] for name in ("direction", "client", "server")]
        size = f"{row['size_bytes'] / 1e6:.3g}"
        yield f"| {' | '.join([*line, *who, str(row['n']), size, *told, *ratios, drops])} |"


def _percent(share: float | None, there: bool) -> str:
    if not there:
        return "-"
    return "failed" if share is None else f"{share * 100:.3g}"


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For each client, direction and loss: on how many lines h3 keeps up with h2, and on which it does not.

    Without loss, framing is counted. With loss, h3 is worse if its complete interval is below 1, or its ratio without one.
    """
    groups: dict[tuple[str, str, str, bool], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["h3_to_h2"] is not None:
            groups.setdefault((row["server"], row["client"], row["direction"], bool(row["loss_percent"])), []).append(row)
    for (server, client, direction, lossy), found in sorted(groups.items()):
        bound = 1.0 if lossy else 0.95
        below = [row for row in found if row["h3_to_h2_most"] < bound]
        names = [f"{row['rate_mbit']:g} Mbit/s x {row['rtt_ms']:g} ms {row['h3_to_h2']:.3f}" for row in below]
        what = f"{client} and {server}, {direction}, {'with' if lossy else 'without'} loss"
        where = f"; below: {', '.join(names)}" if names else ""
        yield f"{what}: h3 has at least {bound:g} of h2 on {len(found) - len(below)} of {len(found)} lines{where}"


def _read(names: Sequence[str]) -> list[Taken]:
    found: dict[object, Taken] = {}
    for name in names:
        for kept in json.loads(Path(name).read_text(encoding="utf-8"))["samples"]:
            cell = Taken.read(cast("Mapping[str, Any]", kept))
            found[cell.key] = cell
    return list(found.values())


def _print(cells: Sequence[Taken]) -> None:
    rows = rows_of(cells)
    for line in (*table(rows), "", *summary(rows)):
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", nargs="+", type=float, default=[7, 50, 500], metavar="MBIT_S")
    parser.add_argument("--rtts", nargs="+", type=float, default=[2, 30, 100, 300], metavar="MS")
    parser.add_argument("--losses", nargs="+", type=float, default=[0, 1], metavar="PERCENT")
    parser.add_argument("--direction", nargs="+", choices=DIRECTIONS, default=DIRECTIONS)
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument(
        "--client", nargs="+", default=["ferry", "curl@debian13"], help=f"as `lab run` has them, or {' or '.join(PEERS)}"
    )
    parser.add_argument("--server", choices=get_args(Http3Server), default="nginx", help="of HTTP/3")
    parser.add_argument("-n", type=int, default=1, help="samples where nothing is lost; one seed gives one outcome")
    parser.add_argument("--lossy-n", type=int, default=3, help="samples where packets are lost at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further path after that much real time")
    parser.add_argument("--again", nargs="+", metavar="FILE", help="print the table of kept samples; of a cell the last counts")
    parser.add_argument("--to", metavar="FILE", help="with --again: write these samples and the rows of the table as JSON")
    options = parser.parse_args()
    if options.again:
        cells = _read(options.again)
        _print(cells)
        if options.to:
            written = {"samples": [asdict(cell) for cell in cells], "rows": rows_of(cells)}
            Path(options.to).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        return
    begun, cells, left = time.monotonic(), list[Taken](), list[str]()
    paths = [Line(*each, options.server) for each in itertools.product(options.rates, options.rtts, options.losses)]
    paths.sort(key=lambda path: (path.rate_mbit, path.loss_percent == 0, path.rtt_ms))
    kept = None
    for path, name, direction in itertools.product(paths, options.client, options.direction):
        label = f"{path.topology.name}, {name}, {direction}"
        if time.monotonic() - begun > options.minutes * 60:
            left.append(label)
            continue
        before = time.monotonic()
        rounds = options.lossy_n if path.loss_percent else options.n
        try:
            protocols = ("h3",) if name in PEERS else options.protocol
            client = parse_client(str(PEERS.get(name, name)))
            found = take(path, client, direction, protocols=protocols, rounds=rounds, seed=options.seed)
        except (LabFault, UsageProblem) as problem:
            left.append(f"{label}: {problem}")
            say(f"{label}: {problem}")
            continue
        cells += found
        told = ", ".join(f"{name} {_percent(share, True)} %" for row in rows_of(found) for name, share in row["shares"].items())
        say(f"{label}: {told}; {time.monotonic() - before:.0f} s")
        if kept is not None:
            kept.unlink(missing_ok=True)
        kept = keep(f"http3-{os.getpid()}", [asdict(cell) for cell in cells])
    _print(cells)
    print(f"\n{time.monotonic() - begun:.0f} s; raw samples: {kept}")
    for line in left:
        print(f"not run: {line}")


if __name__ == "__main__":
    one_line_end(main)
