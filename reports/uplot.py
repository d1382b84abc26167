"""uPlot, the charts of goodput over time: its files in `vendor/`, as they go into a page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_VENDOR = Path(__file__).with_name("vendor")


@cache
def script() -> str:
    """The library, minified."""
    return (_VENDOR / "uplot.iife.min.js").read_text(encoding="utf-8").strip()


@cache
def style() -> str:
    """Its style sheet, minified."""
    return (_VENDOR / "uplot.min.css").read_text(encoding="utf-8").strip()
