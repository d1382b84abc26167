"""The means to build a release: a clone of the commit, an environment that depends on nothing else, and pinned tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lab.assets import engine, store, tools, windows
from lab.assets.store import Progress
from lab.model.clock import EPOCH_S
from lab.model.errors import LabFault, UsageProblem
from lab.model.files import digest
from lab.model.paths import cache_dir

# Made by lab/assets/lock.sh from the dependency group `release` of pyproject.toml.
LOCK = Path(__file__).with_name("tools.lock")
_LONGEST_S = 7200.0

Words = list[str | Path]


@dataclass(frozen=True)
class Workshop:
    """A clone of one commit, and how to run programs on it.

    `root` is the clone. `epoch` is the commit's time, which stands for every time that a build writes into a file. `tools` has
    maturin, twine and the others. `cargo_build` is where cargo keeps what it compiles.
    """

    root: Path
    epoch: int
    tools: Path
    cargo: Path
    cargo_build: Path

    @property
    def environment(self) -> dict[str, str]:
        """For every program: pinned tools first on PATH, one clock, one locale."""
        path = os.pathsep.join((str(self.tools), str(self.cargo.parent), os.environ.get("PATH", "/usr/bin:/bin")))
        foreign = ("UV_", "PYTHON", "ROUGHWATER_", "CARGO_BUILD_", "RUSTFLAGS", "CFLAGS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {**kept, "PATH": path, "SOURCE_DATE_EPOCH": str(self.epoch), "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def rust_environment(self) -> dict[str, str]:
        """For cargo: the folders of this machine do not get into programs (rustc's remapping, and the C compiler's).

        The clone needs none: cargo names its files by relative paths. So cargo may use again what it compiled for another clone.
        """
        homes = {_cargo_home(): "/cargo", self.cargo_build: "/compiled"}
        return {
            **self.environment,
            "CARGO_BUILD_BUILD_DIR": str(self.cargo_build),
            "RUSTFLAGS": " ".join(f"--remap-path-prefix={place}={name}" for place, name in homes.items()),
            "CFLAGS": " ".join(f"-ffile-prefix-map={place}={name}" for place, name in homes.items()),
        }

    def run(self, argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
        """The output of a program. Raises LabFault with its end if it fails."""
        code, output = self.ask(argv, cwd=cwd, env=env)
        if code:
            words = " ".join(str(word) for word in argv[:4])
            raise LabFault(f"{words} ... ended with exit code {code}:\n{tail(output)}")
        return output

    def ask(
        self, argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Exit code and output of a program that may fail."""
        program = shutil.which(str(argv[0]), path=self.environment["PATH"]) or argv[0]
        return store.run([program, *argv[1:]], timeout_s=_LONGEST_S, cwd=cwd or self.root, env=env or self.environment)


def tail(output: str, lines: int = 25) -> str:
    return "\n".join(output.strip().splitlines()[-lines:])


def require_clean(root: Path) -> None:
    """Raise UsageProblem if the checkout has changes or files that its commit has not: they would not be released."""
    changed = _git(root, "status", "--porcelain").splitlines()
    if changed:
        first = ", ".join(line[3:] for line in changed[:3])
        raise UsageProblem(f"the checkout has {len(changed)} uncommitted changes ({first})", remedy="commit or stash them")


def require_tools(*, with_windows: bool) -> Path:
    """The cargo to build with. Raises UsageProblem, which names everything that is missing, with the command that installs it."""
    if find_spec("pytest") is None:
        raise UsageProblem("a release tries its package for Debian with pytest, and .venv has none", remedy="make release")
    lacking = [tool.package for tool in tools.missing(tool for tool in tools.TOOLS if tool.group in ("release", "git"))]
    if with_windows and windows.find_toolchain() is None:
        lacking += windows.missing_packages()
    cargo = engine.find_cargo()
    if cargo is None:
        lacking.append(engine.PACKAGE)
    if lacking or cargo is None:
        packages = " ".join(dict.fromkeys(lacking))
        raise UsageProblem(f"a release needs {packages}", remedy=f"sudo apt-get install --no-install-recommends {packages}")
    return cargo


def clone(root: Path, into: Path, *, cargo: Path, bin_folder: Path, keep_compiled: bool) -> Workshop:
    """A workshop with the commit of `root`. With `keep_compiled` cargo finds what it compiled for an earlier release."""
    shutil.rmtree(into, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    _git(root, "clone", "--quiet", "--no-checkout", str(root), str(into))
    _git(into, "checkout", "--quiet", "--detach", commit(root))
    epoch = int(_git(into, "log", "-1", "--format=%ct"))
    if epoch > EPOCH_S:
        raise UsageProblem("virtual time would begin before this release's files", remedy="move EPOCH_S in lab/model/clock.py")
    compiled = _cargo_home() / "roughwater-release" if keep_compiled else into / "engine/compiled"
    return Workshop(root=into, epoch=epoch, tools=bin_folder, cargo=cargo, cargo_build=compiled)


def commit(root: Path) -> str:
    return _git(root, "rev-parse", "HEAD").strip()


def tracked(root: Path) -> list[str]:
    """Every file of the commit, by its path."""
    return [name for name in _git(root, "ls-files", "-z").split("\0") if name]


def install_tools(progress: Progress) -> Path:
    """The folder of the programs of tools.lock, in the cache. Raises LabFault with pip's reason."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with store.locked(progress, "release-tools") as cache:
        folder = cache / f"release-tools-{version}-{digest(LOCK)[:12]}"
        complete = folder / ".complete"
        if not complete.exists():
            progress(f"installing the tools of {LOCK.name} into {folder} (150 MB)")
            pip: Words = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", LOCK]
            venv: Words = [sys.executable, "-m", "venv", "--clear", folder]
            for argv in (venv, pip):
                code, output = store.run(argv, timeout_s=_LONGEST_S)
                if code:
                    raise LabFault(f"the tools of a release cannot be installed: {store.reason(output)}")
            complete.touch()
    return folder / "bin"


def work_folder(root: Path) -> Path:
    return root / "build" / "release"


def _cargo_home() -> Path:
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").absolute()


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageProblem(f"git {words[0]}: {store.reason(done.stderr)}", remedy="release from a clone of the repository")
    return done.stdout


def uv_cache() -> Path:
    return cache_dir() / "release-uv"
