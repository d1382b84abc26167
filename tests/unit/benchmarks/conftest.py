"""Makes `benchmarks` importable however pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))  # `benchmarks` is not an installed package
