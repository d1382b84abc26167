"""`python -m tests.torment`: see `--help`.

Ends with exit 1 where something was left, changed or half, or a verdict was false.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.support.processes import adopting
from tests.torment import planted
from tests.torment.kills import Tally, Torment, rows
from tests.torment.wants import WANTS, lacking

_HEADING = """\
| command | kills | it still ran | whole results | temporary files | problems |
|---|--:|--:|--:|--:|--:|"""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torment", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="kill -9 this often, the rows in turn")
    parser.add_argument("--minutes", type=float, default=120, help="kill no more after that")
    parser.add_argument("--wants", type=int, default=3, help="take each of: disk, memory, time, clock, this often")
    parser.add_argument("--planted", type=int, default=0, help="judge this many cells whose truth is known, and do nothing else")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--row", action="append", default=[], help="only this row of tests/torment/rows.py; may be repeated")
    given = parser.parse_args(words)
    if given.planted:
        score = planted.judge(given.planted, given.seed)
        return 1 if score.false_pass or score.false_fail or score.invalid else 0
    problems = torment(given.kills, given.minutes, given.wants, given.seed, given.row)
    print("\n".join(problems) or "all is well")
    return 1 if problems else 0


def torment(kills: int, minutes: float, wants: int, seed: int, names: list[str]) -> list[str]:
    """Prints a table of rows; returns a line for each problem."""
    chosen, begun, problems = rows(names), time.monotonic(), []
    tallies = {row.name: Tally() for row in chosen}
    with adopting(), Torment(seed) as machine:
        for number in range(kills):
            if time.monotonic() - begun > minutes * 60:
                break
            row = chosen[number % len(chosen)]
            tally, known = tallies[row.name], len(tallies[row.name].problems)
            machine.kill(row, tally)
            for problem in tally.problems[known:]:
                print(problem, flush=True)
            if number % 20 == 19:
                print(f"[{time.monotonic() - begun:7.0f} s] {number + 1} kills", flush=True)
        print(f"seed {seed}\n{_HEADING}")
        for name, tally in tallies.items():
            print(f"| {name} | {tally.kills} | {tally.alive} | {tally.whole} | {tally.temporaries} | {len(tally.problems)} |")
            problems += tally.problems
        chance = random.Random(seed)
        for name, want in WANTS.items() if not names else ():
            if why := lacking(name):
                print(f"{name}: not tried: {why}")
                continue
            found = [problem for _ in range(wants) for problem in want(machine, chance)]
            print("\n".join([f"{name}: {wants} times, {len(found)} problems", *found]), flush=True)
            problems += found
    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
