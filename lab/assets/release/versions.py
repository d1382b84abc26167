"""The project's version: where it is written, and whether all places agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from lab.model.errors import UsageProblem

_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\S+))?$", re.MULTILINE)
_UNRELEASED = "Unreleased"


def written(root: Path) -> dict[str, str]:
    """File -> the version that it gives; an empty one where it gives none. The changelog's is that of its newest release."""
    package = re.search(r'^__version__ = "(.+)"$', _text(root / "lab/__init__.py"), re.MULTILINE)
    manifest = tomllib.loads(_text(root / "engine/Cargo.toml"))
    releases = [name for name, _, _ in _sections(root) if name != _UNRELEASED]
    return {
        "lab/__init__.py": package[1] if package else "",
        "engine/Cargo.toml": str(manifest.get("workspace", {}).get("package", {}).get("version", "")),
        "CHANGELOG.md": releases[0] if releases else "",
    }


def agreed(root: Path) -> str:
    """The version that all files give. Raises UsageProblem, which names each file's, if they differ."""
    found = written(root)
    if len(set(found.values())) > 1 or "" in found.values():
        list_ = ", ".join(f"{version or 'no version'} in {name}" for name, version in found.items())
        raise UsageProblem(f"the versions differ: {list_}", remedy="write the same version in all of them")
    return found["CHANGELOG.md"]


def unreleased(root: Path) -> bool:
    """True if the changelog has entries that belong to no release yet."""
    return any(name == _UNRELEASED and body.strip() for name, _, body in _sections(root))


def require_tag(root: Path, tag: str) -> None:
    """Raise UsageProblem unless `tag` may be published: it is this version's, whose entries are complete and have a date."""
    version = agreed(root)
    if tag != f"v{version}":
        raise UsageProblem(f"the tag is {tag}, and the version is {version}", remedy=f"tag the commit v{version}")
    if unreleased(root):
        raise UsageProblem("CHANGELOG.md has unreleased entries", remedy=f"move them below the heading [{version}]")
    dated = next(date for name, date, _ in _sections(root) if name == version)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", dated):
        raise UsageProblem(f"CHANGELOG.md has no date for {version}", remedy=f"## [{version}] - YYYY-MM-DD")


def notes(root: Path) -> str:
    """The changelog's entries of the newest release."""
    return next(body for name, _, body in _sections(root) if name != _UNRELEASED).strip()


def _sections(root: Path) -> list[tuple[str, str, str]]:
    """Name, date and text of every heading of the changelog, in its order."""
    text = _text(root / "CHANGELOG.md")
    found = list(_HEADING.finditer(text))
    ends = [after.start() for after in found[1:]] + [len(text)]
    return [(each[1], each[2] or "", text[each.end() : end]) for each, end in zip(found, ends, strict=True)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read: {error.strerror}", remedy="restore it") from error
