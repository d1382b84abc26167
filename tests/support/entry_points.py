"""This tree's entry points as a folder for PYTHONPATH: what is tested does not depend on when `.venv` was made."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def entry_points(folder: Path) -> Path:
    """Write the metadata of a distribution with the entry points of pyproject.toml into the folder, and return the folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    made = folder / f"{project['name']}-0.dist-info"
    made.mkdir(parents=True, exist_ok=True)
    (made / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n", encoding="utf-8")
    return folder
