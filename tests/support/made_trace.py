"""Makes `topologies/traces/made-lte.csv`: a series that looks like a phone's on LTE, and was not recorded anywhere.

.venv/bin/python -m tests.support.made_trace
"""

from __future__ import annotations

import math
import random

from lab.model.paths import shipped_topologies_dir

_STEPS, _STEP_MS, _SEED = 300, 200, 7
_HEAD = """# Made by tests/support/made_trace.py, not recorded: rates walk at random around 14 and 5 Mbit/s, with two stalls.
time_ms,down_mbit_s,up_mbit_s,rtt_ms
"""
_STALLS = ((18_000, 19_200), (41_000, 41_600))


def made() -> str:
    """The file's text; the same every time."""
    walk = random.Random(_SEED)
    level = {"down": 0.0, "up": 0.0}
    rtt = 50
    rows = []
    for step in range(_STEPS):
        now = step * _STEP_MS
        stalled = any(begin <= now < end for begin, end in _STALLS)
        level = {way: 0.9 * before + walk.gauss(0, 0.25) for way, before in level.items()}
        if step % 10 == 0:
            rtt = 45 + 2 * walk.randrange(20)
        down, up = (0.0 if stalled else mean * math.exp(level[way]) for way, mean in (("down", 14), ("up", 5)))
        rows.append(f"{now},{min(down, 60):.2f},{min(up, 20):.2f},{rtt}\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    path = shipped_topologies_dir() / "traces" / "made-lte.csv"
    path.write_text(made(), encoding="utf-8")
    print(f"wrote {path}")
