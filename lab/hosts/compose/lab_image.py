"""Content of the lab's own image: sources, Python packages, a launcher. `images` builds it like the others.

Its backend is the virtual one, so a container of it needs no capability, no network and no writable root. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from lab.assets import store
from lab.assets.store import Progress
from lab.model.errors import LabFault
from lab.model.files import digest
from lab.model.paths import package_root, shipped_root

ROLE = "lab"
SUITE = "bookworm"
HOME = "usr/lib/roughwater"
LOCK = "requirements.lock"
_PYTHON = "3.11"  # the suite's
_PACKAGES = ("lab", "reports")
_SHIPPED = ("topologies", "suites", "images/kernel")
_LAUNCHER = b"""#!/usr/bin/python3 -I
from lab.cli.main import main

main()
"""
_PIP_S = 900.0
# Images take minutes, and nothing else in the cache is made of them: a lab that needs a client of its own does not wait for them.
CACHE_PART = "images"


def parts() -> dict[str, bytes]:
    """Place in the image -> content."""
    files = {f"{HOME}/{place}": path.read_bytes() for place, path in _sources()}
    return files | {
        "usr/lib/python3/dist-packages/roughwater.pth": b"/usr/lib/roughwater\n/usr/lib/roughwater/site\n",
        "usr/local/bin/lab": _LAUNCHER,
    }


def site(cache: Path, progress: Progress) -> Path:
    """A folder with the locked packages, for the image's Python; in the cache, which the caller has locked."""
    place = cache / f"site-{_PYTHON}-{digest(_lock())[:12]}"
    if place.is_dir():
        return place
    progress("lab: downloading its Python packages")
    with store.staging(cache, CACHE_PART) as work:
        staged = work / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
        locked: list[str | Path] = ["--require-hashes", "--requirement", _lock()]
        code, output = store.run(
            [*pip, f"--python-version={_PYTHON}", "--target", staged, *locked], timeout_s=_PIP_S, scratch=work
        )
        if code:
            raise LabFault(f"pip cannot download the lab's Python packages: {store.reason(output)}")
        store.publish(staged, place)
    return place


def _lock() -> Path:
    return shipped_root() / LOCK


def _sources() -> Iterator[tuple[str, Path]]:
    """Files by their place below HOME, which is laid out as a checkout is."""
    installed = package_root() / "lab" / "shipped"
    for root, names in ((package_root(), _PACKAGES), (shipped_root(), _SHIPPED)):
        for name in names:
            for path in sorted((root / name).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts and installed not in path.parents:
                    yield str(path.relative_to(root)), path
