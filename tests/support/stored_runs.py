"""Runs to make reports of: the real ones of tests/data, and one of many cells that is made of them."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lab.judge.tolerance import LookPlan, judge_samples
from lab.model.results import CellResult, Sample
from lab.store.stored_run import StoredRun, read_run_folder

DATA = Path(__file__).resolve().parents[1] / "data"


def unpack(target: Path, version: str = "1.0") -> list[Path]:
    """The stored runs of a schema version as folders below `target`, as the lab left them; in the order of their names."""
    stored = DATA / f"results-{version}"
    for packed in stored.glob("2*/**/*.gz"):
        file = target / packed.relative_to(stored).with_suffix("")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.decompress(packed.read_bytes()))
    runs = sorted(each for each in target.iterdir() if each.is_dir())
    for run in runs:
        (run / "cells").mkdir(exist_ok=True)
    return runs


def many_cells(source: Path, *, cells: int = 200, samples: int = 10, seed: int = 1) -> StoredRun:
    """A run with many cells and samples: copies of a stored one, their series varied by up to a tenth."""
    chance = random.Random(seed)
    stored = [cell for cell in read_run_folder(source).cells if any(sample.series for sample in cell.samples)]
    made = [_another(stored[number % len(stored)], number, len(stored), samples, chance) for number in range(cells)]
    return replace(StoredRun(path=source), cells=made)


def _another(cell: CellResult, number: int, clients: int, samples: int, chance: random.Random) -> CellResult:
    client = f"{cell.client.name}-{number // clients}"
    taken = [_shaken(cell.samples[at % len(cell.samples)], at, chance) for at in range(samples)]
    return cell.model_copy(
        update={
            "id": f"{client}--{cell.id.partition('--')[2]}--{number}",
            "client": cell.client.model_copy(update={"name": client}),
            "samples": taken,
            "verdict": judge_samples(taken, cell.expectation, LookPlan(looks=(samples,))),
        }
    )


def _shaken(sample: Sample, index: int, chance: random.Random) -> Sample:
    series = sample.series
    if series is not None:
        rates = [rate * chance.uniform(0.9, 1.1) for rate in series.goodput_bit_s]
        series = series.model_copy(update={"goodput_bit_s": rates})
    return sample.model_copy(
        update={
            "index": index,
            "series": series,
            "started_at": sample.started_at + timedelta(minutes=index),
            "wall_s": sample.wall_s * chance.uniform(0.99, 1.01),
        }
    )
