"""Qualifications of a client against itself, or of a planted one against it: how often does the gate say which word?

python -m benchmarks.qualify_self [--candidate curl] [--baseline curl] [--seeds 200] [--to FILE] [OPTION OF lab qualify...]

Each seed is one `lab qualify --quick`, and one line of FILE, so that a run that was stopped goes on where it was. Alarms of equal
clients are false: the exit code is 1 if the lower end of their 95 % interval (Wilson) is above the gate's stated rate. A night.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.judge.worse import GATE_ALPHA
from lab.model.answer import Answer

WORDS = {0: "QUALIFIED", 1: "NOT QUALIFIED", 3: "UNDECIDED", 4: "INVALID"}


def one_gate(candidate: str, baseline: str, seed: int, options: Sequence[str]) -> dict[str, object]:
    """The outcome of one seed: exit code, headline, and every figure that is not simply fine. Its run is thrown away."""
    words = ["qualify", candidate, "--baseline", baseline, "--quick", "--seed", str(seed), "--json", *options]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from lab.cli.main import main; main()", *words]
        done = subprocess.run(
            command, env={**os.environ, "ROUGHWATER_RESULTS": folder}, capture_output=True, text=True, check=False
        )
    found: dict[str, object] = {"seed": seed, "exit_code": done.returncode}
    if done.returncode not in WORDS:
        return {**found, "problem": done.stderr.strip().splitlines()[-1:]}
    answer = Answer.model_validate_json(done.stdout[done.stdout.index("{") :])
    notes = [f"{part.id.partition('--')[2]}: {note}" for part in answer.parts for note in part.notes]
    return {**found, "reason": answer.judged.reason, "notes": notes}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidate", default="curl")
    parser.add_argument("--baseline", default="curl")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks/qualify-self.jsonl"))
    told, options = parser.parse_known_args(argv)
    told.to.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in told.to.read_text().splitlines()] if told.to.exists() else []
    seeds = {each["seed"] for each in known}
    for seed in range(1, told.seeds + 1):
        if seed in seeds:
            continue
        known.append(one_gate(told.candidate, told.baseline, seed, options))
        with told.to.open("a") as file:
            file.write(json.dumps(known[-1]) + "\n")
        print(f"seed {seed}: {known[-1].get('reason', known[-1].get('problem'))}", flush=True)
    return summary(known, equal=told.candidate == told.baseline)


def summary(gates: Sequence[dict[str, object]], *, equal: bool) -> int:
    """Print how often each word came; 1 where alarms of equal clients are shown to be more frequent than stated."""
    from scipy.stats import binomtest

    counts = Counter(WORDS.get(int(str(each["exit_code"])), "no verdict") for each in gates)
    judged = sum(counts[word] for word in ("QUALIFIED", "NOT QUALIFIED", "UNDECIDED"))
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    if not judged:
        return 1
    wilson = binomtest(counts["NOT QUALIFIED"], judged).proportion_ci(method="wilson")
    share = counts["NOT QUALIFIED"] / judged
    print(f"NOT QUALIFIED: {share:.1%} of {judged}, 95 % interval {wilson.low:.2%} to {wilson.high:.2%}")
    return int(equal and wilson.low > GATE_ALPHA)


if __name__ == "__main__":
    sys.exit(main())
