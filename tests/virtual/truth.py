"""`python -m tests.virtual.truth [ROUNDS] [SEED]`: deviations of a known size, planted in ferry, and the verdicts on them.

A round has one client per factor of its limit; protocol, direction, size and limit of each cell are drawn by the seed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from tests.support.liars import DIRECTIONS, PROTOCOLS, Liar, limited

FACTORS = (0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.12)
TOLERANCE = 0.05


def expected(factor: float) -> str:
    """The verdict on a client that does `factor` times its limit."""
    return "PASS" if abs(factor - 1) < TOLERANCE else "FAIL"


def main(words: list[str]) -> int:
    rounds = int(words[0]) if words else 20
    seed = int(words[1]) if len(words) > 1 else 1
    draw = random.Random(seed)
    right, begun = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for index in range(rounds):
            agree = 0
            with Session(RunDir.create(f"truth-{index}", results=folder), Options(clock="virtual", seed=seed + index)) as session:
                for factor in FACTORS:
                    protocol, direction = draw.choice(PROTOCOLS), draw.choice(DIRECTIONS)
                    size, limit = f"{draw.randrange(2_000, 8_000)} kB", f"{draw.randrange(500, 4_000)} kB/s"
                    cell = limited(Liar(f"x{factor:g}", factor=factor).write(folder), protocol, direction, size, limit)
                    judged = session.run_cell(cell).verdict
                    agree += judged.name == expected(factor)
                    what = f"{protocol} {direction} {size} at {limit}"
                    print(f"round {index + 1}, {factor:g} of {what}: {judged.name}: {judged.reason}", flush=True)
            right += agree == len(FACTORS)
            print(f"round {index + 1}: {agree} of {len(FACTORS)} right", flush=True)
    print(f"{right} of {rounds} rounds right, seed {seed}, {time.monotonic() - begun:.0f} s")
    return 0 if right == rounds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
