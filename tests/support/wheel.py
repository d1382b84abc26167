"""A wheel with one module, as pip installs it, and its lock file."""

from __future__ import annotations

import zipfile
from pathlib import Path

from lab.model.files import digest


def make_wheel(folder: Path, name: str, version: str, source: str) -> Path:
    """`name` is both the package's and the module's."""
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr(f"{name}.py", source)
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")
    return wheel


def lock_wheel(wheel: Path, locks: Path) -> None:
    """Write its lock: the file itself, by digest."""
    name, version = wheel.name.split("-")[:2]
    (locks / f"{name}-{version}.lock").write_text(f"{name} @ {wheel.as_uri()} --hash=sha256:{digest(wheel)}\n")
