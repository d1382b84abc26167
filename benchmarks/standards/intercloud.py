"""1,807 paths between regions of two clouds, predicted from one row per receiving cloud.

The data (Apache-2.0, not part of the project): `iperf -c`, ten seconds, between machines of AWS (t3.nano) and GCP (e2-small), and
the mean of five pings. Below some 500 Mbit/s what limits a row is its receiver's buffer. So one row of each receiving cloud sets
tcp_rmem here, and the same ten seconds of Linux's TCP over a link with their round trips predict the other rows, whatever sends.

The steps, fixed before the first prediction but for the sender's buffer in step 3:
1. Rows: into AWS from 20 ms on, into GCP from 60 ms on (all below some 500 Mbit/s): 791 and 1,016.
2. The row that sets the buffer is the one whose round trip is nearest to 100 ms, the first of the file where two are as near.
   It is not scored.
3. The largest receive buffer (the third number of tcp_rmem) is changed until ten seconds over that row's round trip give its
   rate to 0.2 %, or to 1 % at best of four tries. All else is Linux's default. The rate is what iperf's client prints: bytes
   taken by the socket over the time until the last was taken. In the first prediction the sender's buffer was not to limit: a
   mistake, because what lies unsent at the end is in iperf's figure. `--wide-sender` repeats it.
4. With that buffer, a flow for each round trip of `GRIDS`. Between them, rate x round trip is interpolated linearly in the round
   trip. `CHECKS` are flows between the points of the grid, which say how wrong the interpolation is.
5. The predictions are written to a file, and its digest is printed, before anything is scored.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from benchmarks.common import say
from benchmarks.standards.paths import LINUX_WRITE, WIDE, Buffers, FlowSeen, linked_path, run_flows
from benchmarks.standards.published import INTERCLOUD_WITHIN
from lab.assets import kernel
from lab.assets.traces import Published, download
from lab.judge.quantile import quantile
from lab.model import files
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

CLOUDS = ("AWS", "GCP")
FROM_MS: Mapping[str, float] = {"AWS": 20.0, "GCP": 60.0}
NEAREST_TO_MS = 100.0
GRIDS: Mapping[str, tuple[float, ...]] = {
    "AWS": (20, 25, 32, 40, 50, 64, 80, 100, 125, 160, 200, 250, 320, 400),
    "GCP": (60, 75, 90, 110, 135, 165, 200, 250, 320, 400),
}
CHECKS: Mapping[str, tuple[float, ...]] = {"AWS": (28, 72, 180, 285), "GCP": (67, 150, 225, 285)}
CLASSES_MS = (20.0, 60.0, 100.0, 150.0, 200.0, 250.0, 300.0, 400.0)
SECONDS = 10.0
RATE = "10 Gbit/s"
# Linux's largest receive buffer by default. More cannot be on the way.
_MOST_IN_FLIGHT_BYTES = 6 << 20
_FIT_TRIES, _FIT_WITHIN = 4, 0.002
_FIT_ENOUGH = 0.01
"""The rate goes in steps of 1.5 % of the buffer's: a nearer one there may not be."""
_NEIGHBOURS = 41
# 4 MiB of payload. The machines of the data merge segments and need little more; the lab merges none, and a frame of 1,448 bytes
# takes 2,304 of the buffer.
_LINUX_SENDER_BYTES = (4 << 20) * 2304 // 1448


class Dataset(Published):
    """A file that others have published and no topology may name: it is kept apart from traces."""

    @property
    def path(self) -> Path:
        return cache_dir() / "published" / self.name


DATA = Dataset(
    "results.csv",
    "https://raw.githubusercontent.com/doitintl/intercloud-throughput/4046e3d6af0ee3c37c0fb13ca66baa932425a6ca/results_202202",
    "0f471ac71717a6952d3775dd5def98e32b573c255c7f76d34dc16d23be77be99",
    "iperf between 47 regions of AWS and GCP, February 2022",
)


@dataclass(frozen=True)
class Row:
    """One iperf between two regions."""

    from_cloud: str
    to_cloud: str
    rtt_ms: float
    bit_s: float

    @property
    def in_flight_bytes(self) -> float:
        return in_flight_bytes(self.bit_s, self.rtt_ms)


def in_flight_bytes(bit_s: float, rtt_ms: float) -> float:
    """Payload on the way at that rate: rate x round trip."""
    return bit_s / 8 * rtt_ms / 1e3


def read_data(path: Path | None) -> list[Row]:
    """The rows of the given file, or of the published one, which is downloaded if need be. Raises UsageProblem, LabFault."""
    if path is None:
        if not DATA.here:
            download(DATA)
        path = DATA.path
    elif files.digest(path) != DATA.sha256:
        raise UsageProblem(f"{path} is not the file of {DATA.url}", remedy=f"its SHA-256 is {DATA.sha256}")
    return parse_rows(path.read_text(encoding="utf-8"), str(path))


def parse_rows(text: str, origin: str) -> list[Row]:
    """The column is called bitrate_Bps and holds bit/s; where it held what its name says, more would be on the way than Linux's
    receive buffer takes. Raises UsageProblem for a file in which that is so.
    """
    rows = []
    for number, line in enumerate(csv.DictReader(io.StringIO(text)), 2):
        try:
            row = Row(line["from_cloud"], line["to_cloud"], float(line["avgrtt"]), float(line["bitrate_Bps"]))
        except (KeyError, TypeError, ValueError):
            raise UsageProblem(f"{origin}:{number}: not a row of this data set") from None
        if row.rtt_ms <= 0 or row.bit_s <= 0 or not math.isfinite(row.rtt_ms * row.bit_s):
            raise UsageProblem(f"{origin}:{number}: a rate and a round trip are above 0")
        rows.append(row)
    for cloud in CLOUDS:
        of = [row.in_flight_bytes for row in scored_rows(rows, cloud)]
        if of and statistics.median(of) > _MOST_IN_FLIGHT_BYTES:
            raise UsageProblem(
                f"{origin}: {statistics.median(of) / 1e6:.1f} MB would be on the way into {cloud}: its rates are not in bit/s"
            )
    return rows


def scored_rows(rows: Sequence[Row], cloud: str) -> list[Row]:
    """Those that a receiver in this cloud limits."""
    return [row for row in rows if row.to_cloud == cloud and row.rtt_ms >= FROM_MS[cloud]]


def chosen(rows: Sequence[Row], cloud: str) -> Row:
    """The row that sets the buffer."""
    found = scored_rows(rows, cloud)
    if not found:
        raise UsageProblem(f"no rows into {cloud}")
    return min(found, key=lambda row: abs(row.rtt_ms - NEAREST_TO_MS))


@dataclass(frozen=True)
class Curve:
    """What is predicted for a cloud's receivers: rate by round trip."""

    points: tuple[tuple[float, float], ...]
    """(round trip in ms, bit/s), ascending."""

    def bit_s(self, rtt_ms: float) -> float:
        """Raises LabFault outside the grid: nothing is extrapolated."""
        times = [rtt for rtt, _ in self.points]
        if not times[0] <= rtt_ms <= times[-1]:
            raise LabFault(f"{rtt_ms:g} ms is outside the grid of {times[0]:g} to {times[-1]:g} ms")
        after = max(1, bisect_left(times, rtt_ms))
        (left, left_bit_s), (right, right_bit_s) = self.points[after - 1 : after + 1]
        part = (rtt_ms - left) / (right - left)
        return (left_bit_s * left * (1 - part) + right_bit_s * right * part) / rtt_ms


@dataclass(frozen=True)
class Prediction:
    """What is predicted for one receiving cloud, and how that was made."""

    cloud: str
    row: Row
    rmem_bytes: int
    fitted: tuple[tuple[int, float], ...]
    """Buffers tried over the row's round trip, and the rates they gave."""
    curve: Curve
    checks: tuple[tuple[float, float], ...]

    @property
    def interpolation_error(self) -> float:
        """The largest distance of a flow between two points from what is interpolated there."""
        return max(abs(self.curve.bit_s(rtt) / bit_s - 1) for rtt, bit_s in self.checks)


Measure = Callable[[float, int], float]
"""Round trip in ms and largest receive buffer in bytes to bit/s."""


def ten_seconds(rtt_ms: float, rmem_bytes: int, seed: int, *, wide: bool = False) -> FlowSeen:
    """One flow. `wide`: its sender may have as much as it likes unsent; otherwise Linux's 4 MiB, those on the way included."""
    read = f"4096 131072 {rmem_bytes}"
    write = " ".join([*LINUX_WRITE.split()[:2], WIDE.split()[2] if wide else str(_LINUX_SENDER_BYTES)])
    link = {"rate": RATE, "rtt": f"{rtt_ms:g} ms"}
    with linked_path(link, seed, buffers=Buffers(read, write)) as network:
        (flow,) = run_flows(network, count=1, seconds=SECONDS, interval_s=1.0)
    return flow


def fit(row: Row, measure: Measure) -> tuple[int, list[tuple[int, float]]]:
    """The largest receive buffer with which that row's round trip gives its rate; and what was tried. Raises LabFault."""
    tried: list[tuple[int, float]] = []
    # Some three fifths of a buffer of full frames are payload (since Linux 6.6 it is counted).
    rmem = round(row.in_flight_bytes / 0.6)
    for _ in range(_FIT_TRIES):
        found = measure(row.rtt_ms, rmem)
        tried.append((rmem, found))
        say(f"into {row.to_cloud}: {rmem} B give {found / 1e6:.2f} Mbit/s over {row.rtt_ms:g} ms, {row.bit_s / 1e6:.2f} wanted")
        if abs(found / row.bit_s - 1) <= _FIT_WITHIN:
            return rmem, tried
        rmem = round(rmem * row.bit_s / found)
    best, nearest = min(tried, key=lambda each: abs(each[1] / row.bit_s - 1))
    if abs(nearest / row.bit_s - 1) <= _FIT_ENOUGH:
        return best, tried
    raise LabFault(f"no receive buffer gives {row.bit_s / 1e6:.2f} Mbit/s over {row.rtt_ms:g} ms: {tried}")


def predict(cloud: str, row: Row, measure: Measure, jobs: int) -> Prediction:
    rmem, tried = fit(row, measure)
    with ThreadPoolExecutor(jobs) as pool:
        times = [*GRIDS[cloud], *CHECKS[cloud]]
        rates = dict(zip(times, pool.map(lambda rtt: measure(rtt, rmem), times), strict=True))
    curve = Curve(tuple((rtt, rates[rtt]) for rtt in GRIDS[cloud]))
    found = Prediction(cloud, row, rmem, tuple(tried), curve, tuple((rtt, rates[rtt]) for rtt in CHECKS[cloud]))
    say(f"into {cloud}: {rmem} B; between the points of the grid at most {found.interpolation_error:.2%} off")
    return found


def write_predictions(found: Sequence[Prediction], path: Path, seed: int) -> str:
    """Returns the file's SHA-256."""
    document = {
        "source": DATA.url,
        "source_sha256": DATA.sha256,
        "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "kernel": {"release": kernel.facts().release, "sha256": kernel.facts().sha256, "seed": seed},
        "clouds": [
            {
                "to": each.cloud,
                "row": {"from": each.row.from_cloud, "rtt_ms": each.row.rtt_ms, "bit_s": each.row.bit_s},
                "tcp_rmem_bytes": each.rmem_bytes,
                "fitted": each.fitted,
                "grid_rtt_ms_bit_s": each.curve.points,
                "checks_rtt_ms_bit_s": each.checks,
            }
            for each in found
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_predictions(path: Path) -> list[Prediction]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["source_sha256"] != DATA.sha256:
        raise UsageProblem(f"{path} predicts another file")
    return [
        Prediction(
            each["to"],
            Row(each["row"]["from"], each["to"], each["row"]["rtt_ms"], each["row"]["bit_s"]),
            each["tcp_rmem_bytes"],
            tuple((rmem, bit_s) for rmem, bit_s in each["fitted"]),
            Curve(tuple((rtt, bit_s) for rtt, bit_s in each["grid_rtt_ms_bit_s"])),
            tuple((rtt, bit_s) for rtt, bit_s in each["checks_rtt_ms_bit_s"]),
        )
        for each in document["clouds"]
    ]


@dataclass(frozen=True)
class Score:
    """How well rows were predicted. Errors are of the prediction, relative to what was measured."""

    rows: int
    within: float
    """The share within `INTERCLOUD_WITHIN`."""
    median_error: float
    median_absolute_error: float
    p90_absolute_error: float


def score(errors: Sequence[float]) -> Score:
    absolute = [abs(error) for error in errors]
    p90 = quantile(absolute, 0.9)
    if p90 is None:
        raise LabFault("no rows to score")
    within = sum(error <= INTERCLOUD_WITHIN for error in absolute) / len(absolute)
    return Score(len(errors), within, statistics.median(errors), statistics.median(absolute), p90)


def errors_of(prediction: Prediction, rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """The rows into that cloud, except the row that set the buffer, with the prediction's relative error."""
    left = [row for row in scored_rows(rows, prediction.cloud) if row != prediction.row]
    return [(row, prediction.curve.bit_s(row.rtt_ms) / row.bit_s - 1) for row in left]


def by_round_trip(pairs: Sequence[tuple[Row, float]]) -> list[dict[str, float]]:
    """The errors in classes of round trips, as far as there are rows."""
    found = []
    for low, high in pairwise(CLASSES_MS):
        errors = [error for row, error in pairs if low <= row.rtt_ms < high]
        if errors:
            found.append({"from_ms": low, "to_ms": high, "n": len(errors), "median": round(statistics.median(errors), 4)})
    return found


def share_at_best(rows: Sequence[Row]) -> float:
    """The share within the bound of a predictor that knows these rows: for each, the value of rate x round trip that would serve
    the most of the rows with the nearest round trips. No predictor by round trip alone that changes slowly with it does better.
    """
    ordered = sorted(rows, key=lambda row: row.rtt_ms)
    hits = 0
    for index, row in enumerate(ordered):
        first = max(0, min(index - _NEIGHBOURS // 2, len(ordered) - _NEIGHBOURS))
        near = [each.in_flight_bytes for each in ordered[first : first + _NEIGHBOURS]]
        hits += abs(_best_value(near) / row.in_flight_bytes - 1) <= INTERCLOUD_WITHIN
    return hits / len(ordered)


def _best_value(values: Sequence[float]) -> float:
    """The middle of the values that one prediction can serve at once; of several such sets, the first largest."""
    ordered = sorted(values)
    reach = (1 + INTERCLOUD_WITHIN) / (1 - INTERCLOUD_WITHIN)
    runs = [[each for each in ordered[start:] if each <= ordered[start] * reach] for start in range(len(ordered))]
    best = max(runs, key=len)
    # Within the bound of both ends: from (1 - w) x the largest to (1 + w) x the least.
    return (best[-1] * (1 - INTERCLOUD_WITHIN) + best[0] * (1 + INTERCLOUD_WITHIN)) / 2


def shares_of_other_rows(errors: Mapping[str, Sequence[float]]) -> list[float]:
    """What the share would be had another row set the buffer, for each row: to first order all predictions of its cloud are then
    wrong by this row's error less. The other cloud's stay as they are.
    """
    total = sum(map(len, errors.values()))
    hits = {cloud: sum(abs(error) <= INTERCLOUD_WITHIN for error in found) for cloud, found in errors.items()}
    shares = []
    for cloud, found in errors.items():
        rest = sum(hits.values()) - hits[cloud]
        for other in found:
            own = sum(abs((1 + error) / (1 + other) - 1) <= INTERCLOUD_WITHIN for error in found)
            shares.append((own + rest) / total)
    return shares
