"""ferry, built from `engine/` with this machine's cargo. Incremental; silent and quick when nothing has changed.

The build stays in `engine/target`, where a Rust developer expects it; how it gets onto a host is `lab.client.ferry`'s business.
Standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lab.assets import store
from lab.assets.store import Progress
from lab.errors import LabFault
from lab.paths import project_root

# Debian's packages of a current Rust (rustc-web comes with it); Debian 12's own cargo is older than any dependency wants.
PACKAGE = "cargo-web"
# rustup's, where a shell's profile has not been read; after them the usual folders, where Debian's is.
FOLDERS = ("~/.cargo/bin", "/usr/local/bin", "/usr/bin")
# Not what a release build of ferry is made of.
_NO_SOURCES = ("target", "fuzz", "peers", "docs")
_LONGEST_BUILD_S = 3600.0


def engine_dir() -> Path:
    return project_root() / "engine"


def program() -> Path:
    """The release build, whether it is there or not. `lab.client.ferry.find_ferry` says the same to clients."""
    return engine_dir() / "target" / "release" / "ferry"


@cache
def least_rust() -> str:
    """`rust-version` of the workspace: the one place that says it."""
    manifest = tomllib.loads((engine_dir() / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["rust-version"])


@cache
def is_recent(cargo: Path) -> bool:
    """Whether `cargo --version` tells at least what the workspace asks for. A cargo that does not run is none."""
    try:
        done = subprocess.run(
            [cargo, "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=engine_dir(),
            env=environment(cargo),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.match(r"cargo (\d+(?:\.\d+)+)", done.stdout)
    return done.returncode == 0 and found is not None and _version(found[1]) >= _version(least_rust())


def environment(cargo: Path) -> dict[str, str]:
    """cargo takes `rustc`, `cargo-fmt` and the rest from PATH: they must be its own, not those of an older one before it."""
    return {**os.environ, "PATH": os.pathsep.join((str(cargo.parent), os.environ.get("PATH", "/usr/bin:/bin")))}


def find_cargo() -> Path | None:
    """The first cargo that is recent enough: PATH's, rustup's, Debian's."""
    return next((cargo for cargo in cargos() if is_recent(cargo)), None)


def up_to_date() -> bool:
    """Whether the last build that ended well began after the last change of a source. A stat per file, some milliseconds."""
    return os.access(program(), os.X_OK) and newer_than_sources(_stamp())


def newer_than_sources(stamp: Path) -> bool:
    try:
        built = stamp.stat().st_mtime
        return all(path.stat().st_mtime <= built for path in _sources())
    except OSError:
        return False


def build(progress: Progress) -> None:
    """Raises LabFault with everything cargo said when it cannot."""
    if up_to_date():
        return
    cargo = find_cargo()
    if cargo is None:
        raise LabFault(f"no cargo of Rust {least_rust()} or newer to build ferry with", remedy=remedy())
    progress(f"building ferry ({'what has changed' if program().exists() else 'first time: some 2 minutes'})")
    began = time.time()
    argv: list[str | Path] = [cargo, "build", "--release", "--locked", "--quiet", "-p", "ferry"]
    code, output = store.run(argv, timeout_s=_LONGEST_BUILD_S, cwd=engine_dir(), env=environment(cargo))
    if code or not program().exists():
        raise LabFault(f"ferry cannot be built with {cargo} (exit code {code}):\n{output.strip()}")
    mark(_stamp(), began)


def mark(stamp: Path, began: float) -> None:
    """A build that began then has ended well. A source saved while cargo ran may have been read before: it counts as newer."""
    stamp.touch()
    os.utime(stamp, (began, began))


def remedy() -> str:
    return f"sudo apt-get install {PACKAGE}, or make setup, or Rust {least_rust()} or newer from rustup.rs"


def cargos() -> Iterator[Path]:
    """Every one that can be found, recent or not: PATH's, rustup's, Debian's."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *(str(Path(folder).expanduser()) for folder in FOLDERS)]
    for folder in dict.fromkeys(folders):
        if folder and (found := shutil.which("cargo", path=folder)):
            yield Path(found).absolute()


def _sources() -> Iterator[Path]:
    """Every file and folder (a file that was deleted changes its folder)."""
    for place in engine_dir().iterdir():
        if place.name in _NO_SOURCES or place.name.startswith("."):
            continue
        yield place
        if place.is_dir():
            yield from place.rglob("*")


def _stamp() -> Path:
    return engine_dir() / "target" / ".throughline-built"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
