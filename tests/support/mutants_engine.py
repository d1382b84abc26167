"""`python -m tests.support.mutants_engine [--seed N] [--count N] [PART...]`: cargo-mutants' mistakes in parts of the engine.

Draws mistakes by seed; cargo-mutants plants each in a copy of its own and runs the tests of the crate. Its words for each mistake
that no test sees, then the scores. `--count 0` takes all. cargo-mutants is not part of the set-up:
`cargo install --locked cargo-mutants@27.1.0`; `$CARGO_MUTANTS` names it where it is not on the PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.mutation import crates
from tests.support.mutation.copies import ROOT
from tests.support.mutation.score import Score

_ENGINE = "crates/ferry-engine/src"
# What repeats, resumes and never leaves a wrong file.
_RETRY = ("job/policy", "job/attempt", "job/ranges", "files/journal", "files/missing", "files/partial", "files/part")
PARTS: dict[str, tuple[str, ...]] = {
    "ferry-pacing": ("-p", "ferry-pacing"),
    "ferry-http": ("-p", "ferry-http"),
    "ferry-h2": ("-p", "ferry-h2"),
    "ferry-sftp": ("-p", "ferry-sftp"),
    "retry-resume": ("-p", "ferry-engine", *(word for name in _RETRY for word in ("-f", f"{_ENGINE}/{name}.rs"))),
}
"""Parts by the arguments of cargo-mutants that choose them."""
SEED = 24
COUNT = 60
_SEEN = {"CaughtMutant", "Timeout"}
_UNSEEN = "MissedMutant"


def look(part: str, count: int, seed: int, jobs: int, output: Path) -> Score:
    """Run a sample of a part's mistakes, or all. Those that do not compile are not counted."""
    names = [each["name"] for each in crates.listed(*PARTS[part])]
    drawn = names if count in (0, len(names)) else random.Random(seed).sample(names, min(count, len(names)))
    words = [
        *crates.tool(),
        *PARTS[part],
        "-j",
        str(jobs),
        "--colors",
        "never",
        "-o",
        str(output),
        "--minimum-test-timeout",
        "20",
    ]
    if len(drawn) < len(names):
        words += [word for name in drawn for word in ("-F", f"^{re.escape(name)}$")]
    # Each copy has its own folder for what is built; the workspace's is shared by all checkouts.
    own = {"CARGO_BUILD_BUILD_DIR": "target/build", "CARGO_PROFILE_DEV_DEBUG": "0", "PROPTEST_RNG_SEED": "2026"}
    done = subprocess.run(words, cwd=ROOT / "engine", env={**os.environ, **own}, check=False)
    outcomes = output / "mutants.out" / "outcomes.json"
    if done.returncode not in (0, 2, 3) or not outcomes.exists():
        raise SystemExit(f"mutants: {part}: cargo mutants ended with {done.returncode}")
    # cargo-mutants runs some that no argument chose (fields that it deletes).
    ran = [each for each in json.loads(outcomes.read_text())["outcomes"] if each["scenario"] != "Baseline"]
    summaries = [each["summary"] for each in ran if each["scenario"]["Mutant"]["name"] in drawn]
    seen, unseen = sum(each in _SEEN for each in summaries), summaries.count(_UNSEEN)
    # Some of what exists does not compile, in the sample's proportion.
    existing = round(len(names) * (seen + unseen) / len(summaries)) if summaries else 0
    return Score(seen, seen + unseen, existing)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="mistakes per part")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(words)
    scores = {}
    with tempfile.TemporaryDirectory(prefix="throughline-mutants-") as folder:
        for part in options.parts:
            scores[part] = look(part, options.count, options.seed, options.jobs, Path(folder, part))
            print(f"{part}, seed {options.seed}: {scores[part]}", flush=True)
    return 0 if all(score.share >= 0.9 for score in scores.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
