"""The userland of Debian 13 that tests of HTTP/3 run in."""

from __future__ import annotations

import pytest

from lab.assets import userlands
from lab.assets.userlands import Userland
from lab.model.errors import LabFault, UsageProblem

NAME = "debian:13"


def require() -> Userland:
    """Built at its first use, which takes minutes; then from the cache. Skips the test where it cannot be had."""
    try:
        return userlands.get(NAME, print)
    except (LabFault, UsageProblem) as problem:
        pytest.skip(f"no userland of Debian 13 here: {problem}")
