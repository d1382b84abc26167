"""inferno's two programs that make a flame graph out of what perf recorded: built by cargo into the cache, on first use.

cargo checks the crate against the registry's checksum and, with --locked, its dependencies against the crate's own Cargo.lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.assets import engine, store
from lab.assets.store import Progress
from lab.errors import LabFault, UsageProblem
from lab.paths import cache_dir

VERSION = "0.12.8"
_COLLAPSE, _DRAW = "inferno-collapse-perf", "inferno-flamegraph"
_LONGEST_BUILD_S = 1200.0


@dataclass(frozen=True)
class Inferno:
    """`collapse` reads `perf script`'s output, `draw` what that prints; both from standard input, to standard output."""

    collapse: Path
    draw: Path


def place() -> Path:
    return cache_dir() / f"inferno-{VERSION}"


def find() -> Inferno | None:
    """The programs from the cache, their checksums verified."""
    directory = place()
    return Inferno(directory / _COLLAPSE, directory / _DRAW) if store.load(directory) else None


def build(progress: Progress) -> Inferno:
    """The programs, made unless the cache has them whole. Raises UsageProblem without cargo, LabFault with cargo's own words."""
    with store.locked(progress) as cache:
        if ready := find():
            return ready
        cargo = engine.find_cargo()
        if cargo is None:
            raise UsageProblem("a flame graph needs cargo to build inferno with", remedy=engine.remedy())
        progress(f"building inferno {VERSION} (first time: some 2 minutes)")
        with store.staging(cache) as work:
            root, tree = work / "root", work / "tree"
            tree.mkdir()
            argv: list[str | Path] = [cargo, "install", "--locked", "--quiet", "--root", root, "--target-dir", work / "target"]
            argv += ["--version", f"={VERSION}", "inferno", "--bin", _COLLAPSE, "--bin", _DRAW]
            code, output = store.run(argv, timeout_s=_LONGEST_BUILD_S, scratch=work, env=engine.environment(cargo))
            if code:
                raise LabFault(f"inferno {VERSION} cannot be built: {store.reason(output)}")
            for name in (_COLLAPSE, _DRAW):
                (root / "bin" / name).rename(tree / name)
            store.write_manifest(tree, {"version": VERSION}, store.digests(tree))
            store.publish(tree, place())
    found = find()
    if found is None:
        raise LabFault(f"inferno {VERSION} was built into {place()}, but is not whole there", remedy="check the disk")
    return found
