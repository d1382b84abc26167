"""Linux's TCP in virtual time, and clients on it, against what others have published. All bands were committed before the runs.

python -m benchmarks.standards [--part rfc9438]... [--jobs 2]

rfc9438     average windows of RFC 9438, section 5.1, tables 1 and 2: 12 cells
intercloud  1,807 paths between regions of AWS and GCP, predicted from one row per receiving cloud; --data FILE, else it is
            downloaded by digest; --prediction FILE scores predictions that exist, --predict-only makes them; with --wide-sender
            the sender's buffer is not limited, as in the first, blind prediction
two-flows   heistp/l4s-tests: two CUBIC flows with round trips of their own in one pfifo, 12 rows
one-flow    L4STeam's lab of IETF 109: one CUBIC flow through fq_codel with ECN, 11 rows
reports     what users have reported of OpenSSH and rclone with exact conditions

Without --part all of them. The exit code is 1 if a figure is out of its band. To find causes in rfc9438:
[--cell reno:100ms:1000]... [--seed 1] [--quickack] [--early 2.0] [--set fast_convergence=0]...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, astuple
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.common import keep, one_line_end, say, table
from benchmarks.standards import intercloud, other_labs, reports, rfc9438
from benchmarks.standards.published import INTERCLOUD_SHARE, INTERCLOUD_WITHIN, NOT_RUN, ONE_FLOW, REPORTS, TWO_FLOWS
from lab.assets import kernel
from lab.assets.tools import require
from lab.model.errors import UsageProblem
from lab.model.paths import results_dir
from lab.store.provenance import machine_facts


def run_rfc9438(options: argparse.Namespace) -> bool:
    asked = rfc9438.Asked(options.seed, options.early, options.quickack, tuple(options.settings))
    return rfc9438.run(options.cell or rfc9438.all_cells(), asked, options.jobs)


def run_intercloud(options: argparse.Namespace) -> bool:
    rows = intercloud.read_data(options.data)
    if options.prediction:
        predictions = intercloud.read_predictions(options.prediction)
    else:
        raw: dict[str, object] = {}

        def measure(rtt_ms: float, rmem_bytes: int) -> float:
            flow = intercloud.ten_seconds(rtt_ms, rmem_bytes, options.seed, wide=options.wide_sender)
            raw[f"{rtt_ms:g} ms, {rmem_bytes} B"] = flow.kept()
            return flow.written_bit_s

        predictions = [
            intercloud.predict(cloud, intercloud.chosen(rows, cloud), measure, options.jobs) for cloud in intercloud.CLOUDS
        ]
        path = results_dir() / "benchmarks" / f"intercloud-prediction{'-wide-sender' * options.wide_sender}.json"
        digest = intercloud.write_predictions(predictions, path, options.seed)
        print(f"predictions: {path}, SHA-256 {digest}")
        print(f"raw samples: {keep('standards-intercloud-flows', raw)}")
    return True if options.predict_only else _score(predictions, rows)


def _score(predictions: list[intercloud.Prediction], rows: list[intercloud.Row]) -> bool:
    found = {each.cloud: intercloud.errors_of(each, rows) for each in predictions}
    groups: dict[str, list[tuple[intercloud.Row, float]]] = {"all": [pair for pairs in found.values() for pair in pairs]}
    for to, pairs in found.items():
        groups |= {f"{source} to {to}": [pair for pair in pairs if pair[0].from_cloud == source] for source in intercloud.CLOUDS}
    scores = {name: intercloud.score([error for _, error in pairs]) for name, pairs in groups.items()}
    best = {name: intercloud.share_at_best([row for row, _ in pairs]) for name, pairs in groups.items() if name != "all"}
    counts = {name: len(pairs) for name, pairs in groups.items() if name != "all"}
    per_source = sum(best[name] * counts[name] for name in best) / sum(counts.values())
    clouds = {cloud: intercloud.share_at_best([row for row, _ in pairs]) for cloud, pairs in found.items()}
    per_cloud = sum(clouds[cloud] * len(pairs) for cloud, pairs in found.items()) / sum(counts.values())
    others = intercloud.shares_of_other_rows({cloud: [error for _, error in pairs] for cloud, pairs in found.items()})
    enough = sum(share >= INTERCLOUD_SHARE for share in others) / len(others)
    print(
        table(
            ["rows", "n", f"within {INTERCLOUD_WITHIN:.0%}", "median error", "median |error|", "p90 |error|"],
            [
                [
                    name,
                    f"{each.rows}",
                    f"{each.within:.1%}",
                    f"{each.median_error:+.1%}",
                    f"{each.median_absolute_error:.1%}",
                    f"{each.p90_absolute_error:.1%}",
                ]
                for name, each in scores.items()
            ],
        )
    )
    print(f"at best, by round trip and receiving cloud: {per_cloud:.1%}; by both clouds: {per_source:.1%}")
    print(f"had another row set its buffer: {enough:.0%} of the rows would have given at least {INTERCLOUD_SHARE:.0%}")
    kept = {
        "scores": {name: asdict(each) for name, each in scores.items()},
        "by_round_trip": {name: intercloud.by_round_trip(pairs) for name, pairs in groups.items() if name != "all"},
        "at_best": {"by receiving cloud": per_cloud, "by both clouds": per_source},
        "other_rows": {"share_with_enough": enough, "least": min(others), "most": max(others)},
        "predictions": [{**asdict(each), "interpolation_error": each.interpolation_error} for each in predictions],
    }
    # Apart, because these are nearly the rows themselves, which are not the project's to ship.
    errors = [(*astuple(row), error) for _, pairs in found.items() for row, error in pairs]
    print(f"errors by row: {keep('standards-intercloud-errors', errors)}")
    print(f"scores: {keep('standards-intercloud', kept)}")
    return scores["all"].within >= INTERCLOUD_SHARE


def run_two_flows(options: argparse.Namespace) -> bool:
    require("nft")
    rows = [row for row in TWO_FLOWS if not options.row or row.name in options.row]
    results, raw = other_labs.two_flows(rows, options.jobs)
    lines = [
        [each.row.name, f"{each.row.total:.2f}", f"{each.total:.2f}", f"{each.row.share:.3f}", f"{each.share:.3f}", each.word]
        for each in results
    ]
    print(table(["row", "published, sum", "measured, sum", "published, share", "measured, share", "band"], lines))
    print(f"raw samples: {keep('standards-two-flows', {'rows': [each.kept() for each in results], 'raw': raw})}")
    return all(each.word == "in the band" for each in results)


def run_one_flow(options: argparse.Namespace) -> bool:
    rows = [row for row in ONE_FLOW if not options.row or row.name in options.row]
    results, raw = other_labs.one_flow(rows, options.jobs)
    lines = [
        [
            each.row.name,
            f"{each.row.published:.3f}",
            f"{each.mbit_s:.3f}",
            f"{each.mbit_s / each.row.published - 1:+.2%}",
            each.word,
        ]
        for each in results
    ]
    print(table(["row", "published Mbit/s", "measured Mbit/s", "difference", "band"], lines))
    print(f"raw samples: {keep('standards-one-flow', {'rows': [each.kept() for each in results], 'raw': raw})}")
    return all(each.word == "in the band" for each in results)


def run_reports(options: argparse.Namespace) -> bool:
    wanted = [report for report in REPORTS if not options.row or report.name in options.row]
    results = reports.run_reports(wanted, options.jobs)
    lines = [
        [
            each.report.name,
            f"{each.report.published_mb_s:.2f}",
            f"{each.report.expected_mb_s:.2f}",
            f"{each.mb_s:.2f}",
            each.client,
            each.word,
        ]
        for each in results
    ]
    print(table(["report", "published MB/s", "expected MB/s", "measured MB/s", "client", "band"], lines))
    print("not run:", *(f"{name}: {why}" for name, why in NOT_RUN), sep="\n  ")
    kept = {
        "rows": [each.kept() for each in results],
        "raw": {each.report.name: each.raw for each in results},
        "not_run": NOT_RUN,
    }
    print(f"raw samples: {keep('standards-reports', kept)}")
    return all(each.word == "in the band" for each in results)


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "rfc9438": run_rfc9438,
    "intercloud": run_intercloud,
    "two-flows": run_two_flows,
    "one-flow": run_one_flow,
    "reports": run_reports,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="all where none is given")
    parser.add_argument("--jobs", type=int, default=2, help="cells at once, each a machine of its own")
    parser.add_argument("--row", action="append", help="only this row of two-flows, one-flow or reports, by its name")
    parser.add_argument("--data", type=Path, help="intercloud: the published file; otherwise it is downloaded")
    parser.add_argument("--prediction", type=Path, help="intercloud: score these predictions, make none")
    parser.add_argument("--predict-only", action="store_true", help="intercloud: write the predictions, score nothing")
    parser.add_argument("--wide-sender", action="store_true", help="intercloud: the sender's buffer is not limited")
    parser.add_argument("--cell", action="append", type=rfc9438.Cell.parse, help="rfc9438: ALGORITHM:RTT:PERIOD; default: twelve")
    parser.add_argument("--seed", type=int, default=1, help="rfc9438, intercloud")
    parser.add_argument("--set", action="append", default=[], dest="settings", help="rfc9438: a parameter of tcp_cubic")
    parser.add_argument("--early", type=float, default=2.0, help="rfc9438: the first loss, in windows of the table")
    parser.add_argument("--quickack", action="store_true", help="rfc9438: the receiver acknowledges every segment")
    options = parser.parse_args()
    if options.prediction and options.predict_only:
        raise UsageProblem("--prediction and --predict-only are one or the other")
    # The options of the RFC's cells chose that part before there were others.
    chosen = options.part or (["rfc9438"] if options.cell else list(PARTS))
    inside = True
    for part in chosen:
        say(f"== {part}")
        inside &= PARTS[part](options)
        print(f"\n{datetime.now(UTC):%Y-%m-%d}, {' '.join(['python -m benchmarks.standards', *sys.argv[1:]])}")
        print(f"guest: Linux {kernel.facts().release}, {kernel.facts().sha256[:12]}; host: {machine_facts()}\n")
    if not inside:
        sys.exit(1)


if __name__ == "__main__":
    one_line_end(main)
