"""Makes `tests.support` importable however pytest was started."""

from __future__ import annotations
