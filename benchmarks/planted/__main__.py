"""Regressions that are planted in ferry: how often does `lab qualify` see each, and by which figure?

python -m benchmarks.planted [--seeds 5] [--plant TEXT]... [--to FILE]

The candidate is a shell script around ferry (planted.sh) that is slower, makes a round trip or a burst more, or spoils a file;
the baseline is the same script without a plant. A gate is one `lab qualify` of the rows that it is looked for in (planted.robot),
and one line of FILE, so that a run that was stopped goes on where it was. Prints the table of power. In virtual time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import table
from benchmarks.qualify_self import WORDS, one_gate
from lab.clients.ferry import find_ferry
from lab.model.paths import results_dir
from lab.model.scratch import scratch_folder

_HERE = Path(__file__).parent


class Plant(NamedTuple):
    """A regression: the variables of planted.sh that make it, and the tags of the rows that it is looked for in."""

    name: str
    what: str
    variables: dict[str, int]
    rows: tuple[str, ...]


PLANTS = (
    Plant("nothing", "the same script as the baseline", {}, ("limit", "free", "far", "fault")),
    Plant("slower-3", "3 % slower: below its limit, or 3 % later done", {"SLOWER": 3}, ("limit", "free")),
    Plant("slower-5", "5 % slower", {"SLOWER": 5}, ("limit", "free")),
    Plant("slower-10", "10 % slower", {"SLOWER": 10}, ("limit", "free")),
    Plant("round-trip", "one more round trip before the first request", {"ROUND_TRIP": 1}, ("free", "far")),
    Plant("burst", "one more burst of 128 KiB, half a second after its start", {"BURST": 128 << 10}, ("limit",)),
    Plant("wrong-file", "a byte too many in one of 50 files, exit code 0", {"WRONG_ONE_IN": 50}, ("fault",)),
)
_DEFAULTS: dict[str, int | str] = {"SLOWER": 0, "ROUND_TRIP": "", "BURST": "", "WRONG_ONE_IN": 0}


def script(folder: Path, name: str, variables: dict[str, int]) -> Path:
    """The program `ferry-NAME`."""
    path = folder / f"ferry-{name}"
    told = _DEFAULTS | variables
    first, _, rest = (_HERE / "planted.sh").read_text().partition("\n")
    lines = [first, f"FERRY={find_ferry()}", *(f"{name}={value}" for name, value in told.items())]
    path.write_text("\n".join([*lines, rest]))
    path.chmod(0o755)
    return path


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--plant", action="append", help="only plants with this text in their names")
    parser.add_argument("--to", type=Path, default=results_dir() / "benchmarks/planted.jsonl")
    asked = parser.parse_args(words)
    plants = [plant for plant in PLANTS if not asked.plant or any(text in plant.name for text in asked.plant)]
    asked.to.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in asked.to.read_text().splitlines()] if asked.to.exists() else []
    with scratch_folder("roughwater-planted-") as folder:
        folder.chmod(0o755)
        baseline = script(folder, "plain", {})
        for seed in range(1, asked.seeds + 1):
            for plant in plants:
                if any((each["plant"], each["seed"]) == (plant.name, seed) for each in known):
                    continue
                planted = script(folder, plant.name, plant.variables)
                rows = [word for tag in plant.rows for word in ("--include", tag)]
                options = ["--suite", str(_HERE / "planted.robot"), *rows]
                gate = one_gate(f"ferry-{plant.name}={planted}", f"ferry-plain={baseline}", seed, options)
                known.append({"plant": plant.name, **gate})
                with asked.to.open("a") as file:
                    file.write(json.dumps(known[-1]) + "\n")
                print(f"{plant.name}, seed {seed}: {gate.get('reason', gate.get('problem'))}", flush=True)
    print(power(plants, known))
    return 0


def power(plants: Sequence[Plant], gates: Sequence[dict[str, object]]) -> str:
    """A line for each plant: how many gates saw it, and by which figures in how many of them."""
    rows = []
    for plant in plants:
        mine = [each for each in gates if each["plant"] == plant.name]
        words = [WORDS.get(int(str(each["exit_code"])), "no verdict") for each in mine]
        notes = next((each["notes"] for each in mine if each.get("notes")), [])
        first = (
            "; ".join(str(note).partition(": ")[2] for note in notes if "regression" in str(note))
            if isinstance(notes, list)
            else ""
        )
        rows.append(
            [plant.name, plant.what, str(len(mine)), str(words.count("NOT QUALIFIED")), str(words.count("UNDECIDED")), first]
        )
    return table(["plant", "is", "gates", "NOT QUALIFIED", "UNDECIDED", "regressions of the first gate"], rows)


if __name__ == "__main__":
    sys.exit(main())
