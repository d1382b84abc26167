"""inferno's two programs that draw a flame graph from a perf recording: built by cargo into the cache on first use.

cargo checks the crate against the registry's checksum and, with --locked, the dependencies against the crate's Cargo.lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.assets import engine, store
from lab.assets.store import Progress
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

VERSION = "0.12.8"
_COLLAPSE, _DRAW = "inferno-collapse-perf", "inferno-flamegraph"
_LONGEST_BUILD_S = 1200.0


@dataclass(frozen=True)
class Inferno:
    """`collapse` reads the output of `perf script`, `draw` that of `collapse`. Both use standard input and output."""

    collapse: Path
    draw: Path


def place() -> Path:
    return cache_dir() / f"inferno-{VERSION}"


def find() -> Inferno | None:
    """The programs from the cache, their checksums verified."""
    return _programs() if store.load(place()) else None


def build(progress: Progress) -> Inferno:
    """The programs, built unless they are in the cache. Raises UsageProblem without cargo, LabFault with cargo's error."""
    with store.locked(progress, place().name):
        if ready := find():
            return ready
        cargo = engine.find_cargo()
        if cargo is None:
            raise UsageProblem("a flame graph needs cargo to build inferno with", remedy=engine.remedy())
        progress(f"building inferno {VERSION} (first time: about 2 minutes)")
        with store.installing(place()) as (tree, facts):
            work, root = tree.parent, tree.parent / "root"
            facts["version"] = VERSION
            argv: list[str | Path] = [cargo, "install", "--locked", "--quiet", "--root", root, "--target-dir", work / "target"]
            argv += ["--version", f"={VERSION}", "inferno", "--bin", _COLLAPSE, "--bin", _DRAW]
            code, output = store.run(argv, timeout_s=_LONGEST_BUILD_S, scratch=work, env=engine.environment(cargo))
            if code:
                raise LabFault(f"inferno {VERSION} cannot be built: {store.reason(output)}")
            for name in (_COLLAPSE, _DRAW):
                (root / "bin" / name).rename(tree / name)
        return _programs()


def _programs() -> Inferno:
    return Inferno(place() / _COLLAPSE, place() / _DRAW)
