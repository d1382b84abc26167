"""Many runs on disk, made of one complete cell with seeded noise, as `RunDir` writes them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lab.model.results import CellResult, RunRecord, Sample
from lab.store.run_dir import RunDir
from tests.unit.store.conftest import AT, cell, make_cell, make_cell_fixture, record

__all__ = ["cell", "make_cell_fixture", "record"]

CELL = "ferry--dsl-50--http1-get-5MiB--fill"


def fast_sample(sample: Sample, speed: float) -> Sample:
    """The sample at another speed, bytes per second."""
    seconds = sample.expected_bytes / speed
    return sample.model_copy(update={"body_byte_s": speed, "body_s": seconds, "wall_s": seconds + 0.1, "deviation": None})


def run_cell(speeds: Sequence[float], at: datetime, *, version: str = "0.1.0", revision: str = "a" * 40) -> CellResult:
    """An unlimited cell of ferry with these body rates."""
    base = make_cell(tuple([None] * len(speeds)), cell_id=CELL, limited=False)
    made = base.model_copy(
        update={
            "client": base.client.model_copy(update={"name": "ferry", "version": f"ferry {version}", "sha256": version * 8}),
            "samples": [fast_sample(sample, speed) for sample, speed in zip(base.samples, speeds, strict=True)],
            "started_at": at,
            "ended_at": at + timedelta(minutes=1),
            "before": base.before.model_copy(update={"machine": {"kernel": "6.1", "git_revision": revision, "git_dirty": False}}),
        }
    )
    return CellResult.model_validate_json(made.model_dump_json())


def write_history(
    results: Path, *, runs: int = 30, step_at: int | None = 15, change: float = -0.05, cv: float = 0.01, seed: int = 8
) -> list[RunDir]:
    """A run a day; from run `step_at` on another version, whose speed is `change` off."""
    dice = random.Random(seed)
    made = []
    for day in range(runs):
        stepped = step_at is not None and day >= step_at
        level = 5e6 * (1 + change if stepped else 1) * dice.lognormvariate(0, cv)
        at = AT + timedelta(days=day)
        run = RunDir.create("nightly", results=results, now=at)
        speeds = [level * dice.lognormvariate(0, 0.002) for _ in range(5)]
        version, revision = ("0.1.1", "d" * 40) if stepped else ("0.1.0", "a" * 40)
        run.write_cell(run_cell(speeds, at, version=version, revision=revision))
        made.append(run)
    return made


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(folder))
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def finish(record: RunRecord) -> Callable[[RunDir], None]:
    def write(run: RunDir) -> None:
        run.write_run(record)

    return write
