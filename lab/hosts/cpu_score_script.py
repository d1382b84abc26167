"""Runs on a host: how quick its processor is at two fixed, bounded pieces of work. Standard library only.

usage: cpu_score_script.py ROUNDS

Prints a line `sha256 MB/S` per round (64 MiB hashed, over the CPU time that took), then `aes128gcm MB/S` where openssl is.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time

_BLOCK = bytes(range(256)) * 4096
_BLOCKS = 64


def sha256_mbps() -> float:
    """CPU time, not wall time: other processes must not lower the score."""
    digest = hashlib.sha256()
    started = time.process_time()
    for _ in range(_BLOCKS):
        digest.update(_BLOCK)
    digest.digest()
    return _BLOCKS * len(_BLOCK) / 1e6 / max(time.process_time() - started, 1e-9)


def aes_mbps() -> float | None:
    """openssl's own benchmark for one second; None where openssl is missing or too old for these options."""
    argv = ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", "16384", "-evp", "aes-128-gcm"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
        return next(float(line.split(":")[3]) / 1e6 for line in done.stdout.splitlines() if line.startswith("+F:"))
    except (OSError, subprocess.TimeoutExpired, StopIteration, ValueError, IndexError):
        return None


if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        print(f"sha256 {sha256_mbps():.3f}", flush=True)
    aes = aes_mbps()
    if aes is not None:
        print(f"aes128gcm {aes:.3f}")
