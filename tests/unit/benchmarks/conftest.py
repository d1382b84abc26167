"""Makes `benchmarks` importable however pytest was started."""

from __future__ import annotations
