"""The servers of the neighbouring folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))  # `tests` is no installed package

from tests.unit.server.conftest import network, places, servers

__all__ = ["network", "places", "servers"]
