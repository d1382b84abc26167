"""`curl ... | python3 gaps.py`: the largest number of bytes that arrived within 100 ms, and the longest pause."""

import os
import time
from itertools import pairwise

seen = [(time.monotonic(), len(data)) for data in iter(lambda: os.read(0, 1 << 20), b"")]
times = [at for at, _ in seen]
most, first, held = 0, 0, 0
for at, size in seen:
    held += size
    while at - times[first] > 0.1:
        held -= seen[first][1]
        first += 1
    most = max(most, held)
pause = max((later - earlier for earlier, later in pairwise(times)), default=0.0)
print(f"most in 100 ms: {most / 1e3:.0f} kB; longest pause: {pause * 1e3:.0f} ms; {sum(size for _, size in seen)} bytes")
