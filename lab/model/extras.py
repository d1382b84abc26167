"""The commands that add a package to the Python environment that the lab runs in.

No index of packages has the lab under its own name. A remedy therefore names the packages of an extra, or a wheel's file.
"""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

# Extras that bring packages of others, as pyproject.toml has them (tests/unit/docs/test_distributions.py compares).
EXTRAS = {"distributed": "distributed>=2024.8", "s3": "s3fs>=2024.6"}


def install_command(*packages: str) -> str:
    """The command line that installs packages, or files, next to the lab.

    Where the environment has no pip of its own, as in the package for Debian, it is the system's pip.
    """
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else ["pip", "--python", sys.executable]
    return shlex.join([*pip, "install", *packages])


def install_extra(name: str) -> str:
    """The command line that installs the packages of this extra of the lab."""
    return install_command(EXTRAS[name])
