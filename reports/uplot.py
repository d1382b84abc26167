"""uPlot 1.6.31 (MIT, github.com/leeoniya/uPlot), out of the PyPI package youplot that carries it; pyproject.toml pins it."""

from __future__ import annotations

from functools import cache
from importlib import resources

from lab.errors import LabFault

VERSION = "1.6.31"
_PACKAGE = "youplot==1.0.0"


@cache
def script() -> str:
    """The library, to be put into a page as it is. Raises LabFault, one line, when it is missing or another version."""
    text = _read("uplot.iife.min.js")
    if f"(v{VERSION})" not in text[:200]:
        raise LabFault(f"the uPlot that youplot carries is not {VERSION}", remedy=f"pip install {_PACKAGE}, or make setup")
    if "</script" in text.lower():
        raise LabFault("the uPlot that youplot carries cannot be put into a page", remedy=f"pip install {_PACKAGE}")
    return text.strip()


@cache
def style() -> str:
    """Its style sheet. Raises as `script`."""
    return _read("uplot.min.css").strip()


def _read(name: str) -> str:
    try:
        return (resources.files("youplot") / "vendor" / name).read_text(encoding="utf-8")
    except (ModuleNotFoundError, OSError):
        raise LabFault(
            f"uPlot {VERSION} is missing: there is no youplot/vendor/{name}", remedy=f"pip install {_PACKAGE}, or make setup"
        ) from None
