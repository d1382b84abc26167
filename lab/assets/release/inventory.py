"""The content of the packages: the lab's locked dependencies, and a CycloneDX inventory (SBOM) of each package."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from lab.assets.release.workshop import Words, Workshop
from lab.model.errors import LabFault

BUILDER = "hatchling"


def dependencies(lock: str) -> str:
    """A lock file without the builder and what only the builder needs, which setup.sh installs and users do not."""
    blocks = re.findall(r"^[a-z0-9].*\n(?:^ .*\n)*", lock if lock.endswith("\n") else f"{lock}\n", re.MULTILINE)
    via = {_name(block): set(re.findall(r"^ +#(?: via)? +([a-z0-9.-]+)", block, re.MULTILINE)) - {"via"} for block in blocks}
    dropped = {BUILDER}
    while more := {name for name, who in via.items() if who and who <= dropped} - dropped:
        dropped |= more
    return "".join(block for block in blocks if _name(block) not in dropped)


def locked(lock: str) -> dict[str, str]:
    """Package -> version."""
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, re.MULTILINE))


def of_lab(shop: Workshop, version: str, out: Path) -> Path:
    """The inventory of `roughwater`: its locked dependencies. CycloneDX's own program writes and validates it."""
    made = out / f"roughwater-{version}.cdx.json"
    lock = shop.root.with_name("dependencies.lock")
    lock.write_text(dependencies((shop.root / "requirements.lock").read_text(encoding="utf-8")), encoding="utf-8")
    words: Words = ["cyclonedx-py", "requirements", "--output-reproducible", "--validate", "--output-format", "JSON"]
    shop.run([*words, "--pyproject", shop.root / "pyproject.toml", "--output-file", made, lock])
    found = _read(made)
    # pyproject.toml leaves the version to lab/__init__.py, where CycloneDX does not look.
    found["metadata"]["component"]["version"] = version
    _write(made, found)
    return made


def of_ferry(wheel: Path, version: str, out: Path) -> Path:
    """The inventory of `roughwater-ferry`: the crates of its wheel, which has it inside (PEP 770)."""
    made = out / f"roughwater_ferry-{version}.cdx.json"
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if "/sboms/" in name]
        if len(inside) != 1:
            raise LabFault(f"{wheel.name} has {len(inside)} inventories, and should have one")
        made.write_bytes(archive.read(inside[0]))
    return made


def components(inventory: Path) -> dict[str, str]:
    """Component -> version."""
    return {each["name"]: each.get("version", "") for each in _read(inventory).get("components", [])}


def _name(block: str) -> str:
    return block.partition("==")[0]


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
