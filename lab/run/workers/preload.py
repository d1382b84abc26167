"""For Dask's own deployments: `dask worker tcp://... --preload lab.run.workers.preload` offers what `lab worker` would."""

from __future__ import annotations

import sys
from typing import Any

from lab.run.workers.serve import offers


async def dask_setup(worker: Any) -> None:
    """Dask calls this before the worker tells its scheduler what it offers."""
    found, problems = offers()
    for problem in problems:
        print(f"lab: {problem}", file=sys.stderr, flush=True)
    state = worker.state
    state.total_resources.update(found)
    state.available_resources.update(found)
