"""The features of a version of netem."""

from __future__ import annotations

import re

_SEED_SINCE = (6, 6)  # both the kernel's and iproute2's netem learnt `seed` in 6.6


def supports_seed(kernel_release: str, iproute2: str) -> bool:
    return _version(kernel_release) >= _SEED_SINCE and _version(iproute2) >= _SEED_SINCE


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else (0, 0)
