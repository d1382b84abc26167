"""Release builds of ferry in the cache, by what they were made of: a second clone of the same sources compiles nothing.

Linking ferry takes some two minutes of processor time, and cargo does it again in each new folder, because it compares times.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.assets import store
from lab.assets.store import Progress
from lab.model.errors import RoughwaterError
from lab.model.files import digest, replacing
from lab.model.paths import cache_dir

_PREFIX = "ferry-"
_PART = "ferry"
# A branch, its base, and some more, of 11 MB each.
_MOST = 4
# Variables that change what rustc makes of the same sources.
_VARIABLES = ("RUSTFLAGS", "RUSTC", "RUSTC_WRAPPER")
_FAMILIES = ("CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CARGO_ENCODED_RUSTFLAGS", "CC", "CFLAGS")


def key(root: Path, sources: Iterable[Path], compiler: str, environment: Mapping[str, str]) -> str:
    """SHA-256 of each source's path and content, the compiler's version, the variables that change a build. Raises OSError."""
    made_of = hashlib.sha256(compiler.encode())
    for name, value in sorted(environment.items()):
        if name in _VARIABLES or name.startswith(_FAMILIES):
            made_of.update(f"\0{name}={value}".encode(errors="surrogateescape"))
    for path in sorted(path for path in sources if path.is_file()):
        made_of.update(f"\0{path.relative_to(root)}\0{digest(path)}".encode(errors="surrogateescape"))
    return made_of.hexdigest()


def take(name: str, program: Path) -> bool:
    """Copy the build of that key to `program`, if the cache has it intact."""
    try:
        kept = _folder(name)
        if store.load(kept) is None:
            return False
        program.parent.mkdir(parents=True, exist_ok=True)
        with replacing(program) as temporary:
            shutil.copy2(kept / program.name, temporary)
        os.utime(kept)
    except (RoughwaterError, OSError):
        return False
    return True


def keep(name: str, program: Path, progress: Progress) -> None:
    """Copy `program` to the cache, and remove the builds that were not used for longest. A cache that refuses costs only time."""
    try:
        with store.locked(progress, _PART) as cache:
            with store.installing(_folder(name), _PART) as (tree, _):
                shutil.copy2(program, tree / program.name)
            builds = sorted(cache.glob(f"{_PREFIX}*"), key=lambda each: each.stat().st_mtime, reverse=True)
            for old in builds[_MOST:]:
                shutil.rmtree(old, ignore_errors=True)
    except (RoughwaterError, OSError) as error:
        progress(f"ferry is built, and not kept for other checkouts: {error}")


def _folder(name: str) -> Path:
    return cache_dir() / f"{_PREFIX}{name[:12]}"
