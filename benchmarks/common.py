"""What the benchmarks share: where raw samples go."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from lab.paths import results_dir
from lab.result.provenance import machine_facts


def keep(name: str, samples: object) -> Path:
    """Write the raw samples with the machine's facts beside them."""
    folder = results_dir() / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    path.write_text(json.dumps({"machine": machine_facts(), "samples": samples}, indent=2, default=str) + "\n")
    return path
