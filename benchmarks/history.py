"""How fast `lab history`, `lab trend` and their kin answer over many stored cells, interpreter start included.

python -m benchmarks.history CELL.json [--runs 5000] [--cells 20] [-n 5] [--folder FOLDER]

Makes a folder of runs of plain files, each a valid result derived from the cell given (some KB, not 100: without series, raw
reports and certificate), with seeded noise and one step of -5 % per cell in the middle; indexes them by the command itself, which
reads and validates every file, and times each command `-n` times. A folder that is already there is used as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from benchmarks.common import keep, say, table
from lab.model.results import CellResult, RunRecord, Sample
from lab.store.run_dir import RUN_FILE, read_cell

_STEP = math.log(0.95)
_BETWEEN_RUNS, _WITHIN_RUN = 0.01, 0.003


def main() -> None:
    """Print the medians and keep every time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cell", type=Path)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("-n", "--samples", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="roughwater-history-") as temporary:
        folder = asked.folder or Path(temporary) / "results"
        if not folder.exists():
            started = time.monotonic()
            make_store(folder, read_cell(asked.cell), runs=asked.runs, cells=asked.cells)
            say(f"made {asked.runs} runs of {asked.cells} cells in {time.monotonic() - started:.0f} s")
        measure(folder, asked.samples)


def measure(folder: Path, samples: int) -> None:
    """The first command makes the index. The others use it; for one of them a run has changed."""
    first = _timed(folder, ["history"])
    say(f"first `lab history`, with the index to make: {first:.1f} s")
    run = max(path for path in folder.iterdir() if not path.name.startswith("."))
    cell = next(iter((run / "cells").glob("*.json"))).stem
    commands = {
        "lab --help": ["--help"],
        "lab history": ["history"],
        "lab history --verdict FAIL": ["history", "--verdict", "FAIL"],
        "lab history --sql (all cells)": [
            "history",
            "--sql",
            "SELECT client, verdict, count(*), avg(cpu_s_per_gb) FROM cells GROUP BY ALL",
        ],
        "lab trend CELL": ["trend", cell],
        "lab trend (all series)": ["trend"],
    }
    times = {name: [_timed(folder, words) for _ in range(samples)] for name, words in commands.items()}
    changed = []
    for _ in range(samples):
        # As a rename into it would: the run's signature is another.
        os.utime(run / "cells")
        changed.append(_timed(folder, ["history"]))
    times["lab history, one run changed"] = changed
    rows = [[name, f"{statistics.median(each):.2f}", f"{min(each):.2f}", f"{max(each):.2f}"] for name, each in times.items()]
    say(table(["command", "median s", "least", "most"], rows))
    say(f"kept in {keep('history', {'first_s': first, 'times_s': times})}")


def make_store(folder: Path, base: CellResult, *, runs: int, cells: int) -> None:
    """Write the runs, oldest first."""
    dice = random.Random(8)
    for number in range(runs):
        at = base.started_at - timedelta(hours=runs - number)
        path = folder / f"{at:%Y%m%dT%H%M%S}-nightly-{number:04x}"
        (path / "cells").mkdir(parents=True)
        ids = []
        for cell_id, text in _cells(base, at - base.started_at, dice, count=cells, stepped=number >= runs // 2):
            (path / "cells" / f"{cell_id}.json").write_text(text)
            ids.append(cell_id)
        record = RunRecord(
            run=path.name,
            command=["lab", "run", "nightly"],
            lab_version=base.lab_version,
            git_revision=None,
            started_at=at,
            ended_at=at,
            cells=ids,
            verdicts=dict.fromkeys(ids, base.verdict.name),
            exit_code=0,
        )
        (path / RUN_FILE).write_text(record.model_dump_json())


def _cells(base: CellResult, later: timedelta, dice: random.Random, *, count: int, stepped: bool) -> Iterator[tuple[str, str]]:
    for number in range(count):
        topology = base.topology.model_copy(update={"name": f"line-{number:02d}"})
        cell_id = base.id.replace(f"--{base.topology.name}--", f"--{topology.name}--")
        level = math.exp((_STEP if stepped else 0.0) + dice.gauss(0, _BETWEEN_RUNS))
        made = base.model_copy(
            update={
                "id": cell_id,
                "topology": topology,
                "certificate": None,
                "samples": [_sample(sample, level * math.exp(dice.gauss(0, _WITHIN_RUN))) for sample in base.samples],
                "started_at": base.started_at + later,
                "ended_at": base.ended_at + later,
                "before": base.before.model_copy(update={"hosts": {}}),
                "after": base.after.model_copy(update={"hosts": {}}),
            }
        )
        yield cell_id, json.dumps(made.model_dump(mode="json"))


def _sample(sample: Sample, factor: float) -> Sample:
    speed = (sample.body_byte_s or 1e6) * factor
    client = sample.client.model_copy(update={"raw": {}}) if sample.client else None
    return sample.model_copy(update={"body_byte_s": speed, "series": None, "client": client})


def _timed(folder: Path, words: Sequence[str]) -> float:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "lab.cli.main", *words],
        env={**os.environ, "ROUGHWATER_RESULTS": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    # `lab trend` says with 1 that it found the step.
    if done.returncode not in (0, 1):
        raise SystemExit(f"lab {' '.join(words)}: {done.stderr[-500:]}")
    return seconds


if __name__ == "__main__":
    main()
