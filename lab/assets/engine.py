"""ferry, built from `engine/` with cargo. Incremental, and silent when nothing has changed.

The build stays in `engine/target`, where a Rust developer expects it; `lab.clients.ferry` brings it to hosts. A copy goes to the
cache (`ferry_builds`), for other checkouts of the same sources.
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

from lab.assets import ferry_builds, store
from lab.assets.store import Progress
from lab.model.errors import LabFault
from lab.model.paths import package_root

# Debian's package of a current Rust (it brings rustc-web); Debian 12's cargo is too old for the dependencies.
PACKAGE = "cargo-web"
# rustup's folder, in case no shell profile has added it to PATH; then the usual folders, which have Debian's.
FOLDERS = ("~/.cargo/bin", "/usr/local/bin", "/usr/bin")
# Folders that a release build of ferry does not use.
_NO_SOURCES = ("target", "fuzz", "peers", "docs")
_LONGEST_BUILD_S = 3600.0


def engine_dir() -> Path:
    """The engine's sources. They are not there where the lab is installed."""
    return package_root() / "engine"


def program() -> Path:
    """The path of the release build, which may not exist."""
    return engine_dir() / "target" / "release" / "ferry"


@cache
def least_rust() -> str:
    """`rust-version` of the workspace."""
    manifest = tomllib.loads((engine_dir() / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["rust-version"])


@cache
def is_recent(cargo: Path) -> bool:
    """True if this cargo runs and is at least the version that the workspace needs."""
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
    """The environment for a cargo: it must find `rustc`, `cargo-fmt` and others of the same installation first on PATH."""
    return {**os.environ, "PATH": os.pathsep.join((str(cargo.parent), os.environ.get("PATH", "/usr/bin:/bin")))}


def find_cargo() -> Path | None:
    """The first cargo that is recent enough, from PATH, rustup or Debian."""
    return next((cargo for cargo in cargos() if is_recent(cargo)), None)


def up_to_date() -> bool:
    """True if the program is there, and no source has changed since its last successful build began. Takes a few milliseconds."""
    return os.access(program(), os.X_OK) and newer_than_sources(_stamp())


def newer_than_sources(stamp: Path) -> bool:
    try:
        built = stamp.stat().st_mtime
        return all(path.stat().st_mtime <= built for path in _sources())
    except OSError:
        return False


def build(progress: Progress) -> None:
    """Build ferry if its sources have changed. Raises LabFault with cargo's output."""
    if up_to_date():
        return
    cargo = _require_cargo("build ferry")
    began = time.time()
    made_of = _made_of(cargo)
    if ferry_builds.take(made_of, program()):
        progress("ferry is the cache's build of these sources")
        mark(_stamp(), began)
        return
    progress(f"building ferry ({'what has changed' if program().exists() else 'first time: about 2 minutes'})")
    argv: list[str | Path] = [cargo, "build", "--release", "--locked", "--quiet", "-p", "ferry"]
    code, output = store.run(argv, timeout_s=_LONGEST_BUILD_S, cwd=engine_dir(), env=environment(cargo))
    if code or not program().exists():
        raise LabFault(f"ferry cannot be built with {cargo} (exit code {code}):\n{output.strip()}")
    mark(_stamp(), began)
    # A source that was saved meanwhile may be in the program or not.
    if _made_of(cargo) == made_of:
        ferry_builds.keep(made_of, program(), progress)


def _made_of(cargo: Path) -> str:
    """The key of a build with that cargo: its sources and the compiler."""
    environ = environment(cargo)
    done = subprocess.run(
        ["rustc", "-vV"], capture_output=True, text=True, timeout=30, check=False, cwd=engine_dir(), env=environ
    )
    sources = [*_sources(), engine_dir() / ".cargo" / "config.toml"]
    return ferry_builds.key(engine_dir(), sources, done.stdout, environ)


def fetch(workspace: Path) -> None:
    """Download the crates that a workspace's lock file names. Raises LabFault with cargo's output."""
    cargo = _require_cargo("download crates")
    argv: list[str | Path] = [cargo, "fetch", "--locked", "--quiet"]
    code, output = store.run(argv, timeout_s=_LONGEST_BUILD_S, cwd=workspace, env=environment(cargo))
    if code:
        raise LabFault(f"the crates of {workspace} cannot be downloaded (exit code {code}):\n{output.strip()}")


def _require_cargo(purpose: str) -> Path:
    if cargo := find_cargo():
        return cargo
    raise LabFault(f"no cargo of Rust {least_rust()} or newer to {purpose} with", remedy=remedy())


def mark(stamp: Path, began: float) -> None:
    """Record a successful build that began at `began`. A source saved during the build counts as changed."""
    stamp.touch()
    os.utime(stamp, (began, began))


def remedy() -> str:
    return f"sudo apt-get install {PACKAGE}, or make setup, or Rust {least_rust()} or newer from rustup.rs"


def cargos() -> Iterator[Path]:
    """Every cargo of PATH, rustup and Debian, recent or not."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *(str(Path(folder).expanduser()) for folder in FOLDERS)]
    for folder in dict.fromkeys(folders):
        if folder and (found := shutil.which("cargo", path=folder)):
            yield Path(found).absolute()


def _sources() -> Iterator[Path]:
    """Every file and folder. Folders, because deleting a file changes its folder."""
    for place in engine_dir().iterdir():
        if place.name in _NO_SOURCES or place.name.startswith("."):
            continue
        yield place
        if place.is_dir():
            yield from place.rglob("*")


def _stamp() -> Path:
    return engine_dir() / "target" / ".roughwater-built"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
