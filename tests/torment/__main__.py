"""`python -m tests.torment`: see `--help`.

Ends with exit 1 where something was left, changed or half, or a verdict was false.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from lab.model import files
from tests.support.processes import adopting
from tests.torment import ends, own_engine, planted, planted_wires
from tests.torment.compare import compare
from tests.torment.kills import PHASES, Tally, Torment, rows
from tests.torment.rows import Row
from tests.torment.wants import WANTS, lacking

_COLUMNS = ("kills", *PHASES, "complete results", "temporary files", "problems")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torment", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=1000, help="kill a running command with kill -9 this often, the rows in turn"
    )
    parser.add_argument("--minutes", type=float, default=120, help="kill no more after that")
    parser.add_argument("--wants", type=int, default=3, help="take each want of tests/torment/wants.py this often")
    parser.add_argument("--want", action="append", default=[], choices=WANTS, help="only this want; may be repeated")
    parser.add_argument("--planted", type=int, default=0, help="judge this many cells whose truth is known, and do nothing else")
    parser.add_argument(
        "--wires", type=int, default=0, help="judge this many generated wires whose truth is known, and do nothing else"
    )
    parser.add_argument(
        "--ends", type=int, default=0, help="cut a run off so often by each kind of end, resume it, and do nothing else"
    )
    parser.add_argument("--real-ends", type=int, default=0, help="the same in real time, on a quiet machine")
    parser.add_argument("--compare", type=int, default=0, help="whole cells and wires, this many of each kind")
    parser.add_argument("--kept", type=Path, help="keep the counts of --wires, --kills or --ends here, and go on from them")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the number of the first kill, which decides its draws")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--row", action="append", default=[], help="only this row of tests/torment/rows.py; may be repeated")
    given = parser.parse_args(words)
    # A shell that runs this in the background has it ignored, and each lab would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if given.planted:
        score = planted.judge(given.planted, given.seed)
        return 1 if score.false_pass or score.false_fail or score.invalid else 0
    if given.wires:
        return 1 if planted_wires.judge(given.wires, given.seed, given.kept).beyond else 0
    if given.ends or given.real_ends:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        with adopting():
            wanted = {"virtual": given.ends, "real": given.real_ends}
            return 1 if ends.end_all(wanted, given.seed, given.kept, given.minutes) else 0
    if given.compare:
        return 1 if compare(given.compare, given.seed) else 0
    # All that it started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    problems = torment(given)
    print("\n".join(problems) or "all is well")
    return 1 if problems else 0


def torment(given: argparse.Namespace) -> list[str]:
    """Prints a table of rows in Markdown; returns a line for each problem."""
    chosen, begun = rows(given.row), time.monotonic()
    first, tallies = _kept(given, chosen)
    wants = given.want or ([] if given.row else [*WANTS])
    killed = given.kills and any(row.containers for row in chosen)
    starved = given.wants and any(name.startswith("engine") for name in wants)
    with adopting(), Torment(given.seed, containers=bool(killed or starved) and not own_engine.lacking()) as machine:
        able = []
        for row in chosen if given.kills else ():
            if why := machine.lacking(row):
                print(f"{row.name}: not tried: {why}", flush=True)
            else:
                able.append(row)
        for number in count(first) if able else ():
            done = sum(tally.kills for tally in tallies.values())
            if done >= given.kills or time.monotonic() - begun > given.minutes * 60:
                break
            row = able[number % len(able)]
            tally, known = tallies[row.name], len(tallies[row.name].problems)
            machine.kill(row, number, tally)
            for problem in tally.problems[known:]:
                print(problem, flush=True)
            if given.kept:
                kept = {"seed": given.seed, "next": number + 1, "tallies": {name: vars(each) for name, each in tallies.items()}}
                files.write_text(given.kept, json.dumps(kept, indent=1))
            if number % 20 == 0:
                print(f"[{time.monotonic() - begun:7.0f} s] {done} kills", flush=True)
        print(f"seed {given.seed}\n{_table(tallies)}")
        problems = [problem for tally in tallies.values() for problem in tally.problems]
        chance = random.Random(given.seed)
        for name in wants:
            if why := lacking(name):
                print(f"{name}: not tried: {why}")
                continue
            found = [problem for _ in range(given.wants) for problem in WANTS[name](machine, chance)]
            print("\n".join([f"{name}: {given.wants} times, {len(found)} problems", *found]), flush=True)
            problems += found
    return problems


def _kept(given: argparse.Namespace, chosen: Sequence[Row]) -> tuple[int, dict[str, Tally]]:
    """The number of the next kill, and the counts so far."""
    tallies = {row.name: Tally() for row in chosen}
    if given.kept is None or not given.kept.exists():
        return given.first, tallies
    kept = json.loads(given.kept.read_text())
    if kept["seed"] != given.seed or kept["tallies"].keys() != tallies.keys():
        raise SystemExit(f"torment: {given.kept} is of seed {kept['seed']}, or of other rows")
    return kept["next"], {name: Tally(**tally) for name, tally in kept["tallies"].items()}


def _table(tallies: Mapping[str, Tally]) -> str:
    lines = [f"| command | {' | '.join(_COLUMNS)} |", f"|---|{'--:|' * len(_COLUMNS)}"]
    counts = {
        name: [each.kills, *each.phases.values(), each.whole, each.temporaries, len(each.problems)]
        for name, each in tallies.items()
    }
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(map(str, row))} |" for name, row in counts.items())])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
