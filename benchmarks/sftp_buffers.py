"""What a careless --buffer-size costs over SFTP: seven sizes, 4 KiB to 16 MiB, on three links, up and down.

python -m benchmarks.sftp_buffers [-n 5] [--most 10] [--quick] [--topology T]... [--client C]... [--direction D]...

Each is a study of the lab's own (`lab/judge/sweep.py`: an interleaved round of all sizes, the slowest mean against the fastest,
an interval that does not rest on which one that was), judged after n rounds, and once more after --most where that left it open.
Its cells, certificates and samples are an ordinary run's in results/; beside its verdict the plain min / max of the medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.claims import Claim, Estimate, claims_table
from benchmarks.common import keep, one_line_end, say, table
from benchmarks.sftp import MB, Choice, parser
from lab.errors import LabFault, UsageProblem
from lab.judge.tolerance import LookPlan
from lab.result.store import RunDir
from lab.result.study import StudyResult
from lab.runner.progress import Lines
from lab.runner.session import Options, Session
from lab.spec.load import load_topology
from lab.spec.models import ClientSpec, Transfer
from lab.spec.study import BufferStudy
from lab.spec.units import Ratio, Size

SAMPLES, MOST = 5, 10
BUFFERS = tuple(Size.parse(text) for text in ("4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"))
FLOOR = 0.95
# Megabytes that take some seconds: 2 s and 4 s at 200 Mbit/s, slow start of 100 ms included.
SIZES = {"link-local": 200.0, "metro-200": 50.0, "far-200": 100.0}
HEADINGS = ["link", "transfer", "client", "n", *map(str, BUFFERS), "min / max of medians", "clock"]


def looks(n: int, most: int) -> LookPlan:
    """Two looks at Pocock's alpha for four, which errs on the safe side; one, as it is, where there is nothing more to take."""
    return LookPlan(looks=(n, most)) if most > n else LookPlan.single(n)


def claim(study: StudyResult) -> Claim:
    """The lab's own ratio (of geometric means) and interval. A transfer that failed, or a link that was none, is no ratio."""
    seen = study.verdict.interval
    measured = Estimate(seen.mean, seen.low, seen.high, seen.n) if seen else None
    return Claim(
        f"{study.topology.name} {study.transfer.direction}: {study.client.name}, slowest / fastest of {len(study.arms)} buffers",
        "at least",
        FLOOR,
        measured,
        failed=int(study.verdict.name == "FAIL" and measured is None),
        problem=study.verdict.reason if study.verdict.name == "INVALID" else "",
    )


def medians(study: StudyResult) -> dict[str, float]:
    return {arm.setting: statistics.median(arm.byte_s) for arm in study.arms if arm.byte_s}


def row(study: StudyResult) -> list[str]:
    found = medians(study)
    cells = [f"{found[str(buffer)] / MB:.2f}" if str(buffer) in found else "-" for buffer in BUFFERS]
    worst = f"{min(found.values()) / max(found.values()):.3f}" if found else "-"
    rounds = str(min(len(arm.byte_s) for arm in study.arms))
    name = f"sftp {study.transfer.direction} {study.transfer.size}"
    return [study.topology.name, name, study.client.name, rounds, *cells, worst, study.clock or "-"]


def studies(choice: Choice, topologies: Sequence[str]) -> list[BufferStudy]:
    return [
        BufferStudy(
            client=ClientSpec.parse(client),
            topology=load_topology(topology),
            transfer=Transfer(protocol="sftp", direction=direction, size=choice.size(SIZES[topology])),
            buffers=BUFFERS,
            floor=Ratio(FLOOR),
        )
        for topology in topologies
        for client in choice.clients
        for direction in choice.directions
    ]


def main() -> None:
    made = parser(__doc__, samples=SAMPLES)
    made.add_argument("--most", type=int, default=MOST, help="rounds, where the first look leaves it open")
    made.add_argument("--topology", action="append", choices=SIZES, help="default: all; with --quick link-local and metro-200")
    options = made.parse_args()
    # An interval needs two.
    choice = Choice.of(options, SAMPLES, least=2, clients=["ferry"])
    plan = looks(choice.n, 0 if choice.quick else options.most)
    run = RunDir.create("bench-sftp-buffers")
    done: list[StudyResult] = []
    with Session(run, Options(router=options.router, looks=plan), progress=Lines()) as session:
        for study in studies(choice, options.topology or list(SIZES)[: 2 if choice.quick else None]):
            try:
                done.append(session.run_study(study))
            except UsageProblem as problem:
                say(f"{study.id} is left out: {problem}")
            except LabFault as fault:
                say(f"{study.id} is INVALID: {fault}")
    claims = [claim(each) for each in done]
    print(f"\nMB/s of the body by --buffer-size, medians; n rounds of all sizes; everything of each is in {run.path}")
    print(table(HEADINGS, [row(each) for each in done]))
    print(f"\nratios of geometric means, intervals of {plan.confidence:.3g} confidence (lab/judge/sweep.py)")
    print(claims_table(claims))
    for result in done:
        for warning in result.verdict.warnings:
            print(f"{result.id}: {warning}")
    kept = [{"study": each.model_dump(mode="json"), "claim": claim(each).kept(), "run": str(run.path)} for each in done]
    print(f"raw samples: {keep('sftp-buffers', kept)}")


if __name__ == "__main__":
    one_line_end(main)
