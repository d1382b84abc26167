"""Many seeds: `python -m tests.engine.versions --seeds 2000 --from 1`, or one with its steps: `--seed 17`.

Exit code 1 where anything was violated. With `--kept FILE` the seeds that were good are remembered, and not played again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from lab.clients.ferry import CONFIG_VARIABLE
from tests.engine.versions.draws import draw
from tests.engine.versions.play import play, repeat
from tests.engine.versions.stage import staged


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.versions", description=__doc__)
    parser.add_argument(
        "--seed", type=int, action="append", default=[], help="play this seed, and print its steps; may be repeated"
    )
    parser.add_argument("--seeds", type=int, default=20, help="play so many seeds")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first of them")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no seed after that")
    parser.add_argument("--way", default="", help="only seeds whose way begins like this")
    parser.add_argument("--kept", type=Path, help="remember in this file which seeds are done, and what they have found")
    given = parser.parse_args(words)
    os.environ[CONFIG_VARIABLE] = "none"
    seeds = given.seed or [seed for seed in range(given.first, given.first + given.seeds) if draw(seed).way.startswith(given.way)]
    done: dict[str, list[str]] = json.loads(given.kept.read_text()) if given.kept and given.kept.exists() else {}
    tell = print if given.seed else lambda _: None
    began, used = time.monotonic(), os.times()
    with staged() as stage:
        for seed in seeds:
            if str(seed) in done or time.monotonic() - began > given.minutes * 60:
                continue
            problems = done[str(seed)] = play(stage, seed, tell)
            for problem in problems:
                print(f"{draw(seed)}\n  {problem}\n  {repeat(seed)}", flush=True)
            if given.kept:
                given.kept.write_text(json.dumps(done))
    now = os.times()
    spent, wall = sum(now[:4]) - sum(used[:4]), time.monotonic() - began
    bad = {seed: found for seed, found in done.items() if found}
    kinds = Counter((draw(int(seed)).way, found[0].split(":")[0]) for seed, found in bad.items())
    print(f"{len(done)} seeds, {len(bad)} with a violation; {spent:.1f} s of processor time, {wall:.0f} s")
    for (way, kind), count in sorted(kinds.items()):
        print(f"{way}\t{kind}\t{count}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
