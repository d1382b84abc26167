"""Versions of clients that PyPI has: Python libraries, and programs in a wheel. Each is a virtual environment in the cache.

`python/NAME-VERSION.lock` has a version with all that it needs, by digest; `python/lock.sh` writes it. The environment has the
system's Python where there is one, because the user of a host may not be able to read another.
"""

from __future__ import annotations

import hashlib
import sys
import venv
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from lab.assets import store
from lab.assets.curl_versions import Package, order
from lab.assets.store import Progress
from lab.assets.tools import host_program
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

_LOCKS = Path(__file__).with_name("python")
_LONGEST_INSTALL_S = 600.0


def versions(package: str) -> dict[str, Package]:
    """The versions that have a lock, oldest first."""
    found = (path.stem.removeprefix(f"{package}-") for path in _LOCKS.glob(f"{package}-[0-9]*.lock"))
    return {version: Package(package, version, "", version, platform="any") for version in sorted(found, key=order)}


def place(package: str, version: str) -> Path:
    """The directory of its environment; the name has a digest of the lock and of the Python it is for."""
    recipe = f"{host_program('python3')}\n{_lock(package, version).read_text()}"
    return cache_dir() / f"{package}-{version}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def find(package: str, version: str, program: str) -> Path | None:
    """The `program` of the environment from the cache, its checksums verified: `/usr/bin/python3` is its Python."""
    directory = place(package, version)
    found = directory / "bin" / PurePosixPath(program).name
    return found if found.exists() and store.load(directory) else None


def build(package: str, version: str, progress: Progress) -> None:
    """Install it unless it is in the cache. Raises UsageProblem where pip is missing, LabFault where it fails."""
    final = place(package, version)
    if store.load(final):
        return
    if find_spec("pip") is None:
        raise UsageProblem(f"{package} cannot be installed without pip", remedy=f"{sys.executable} -m ensurepip")
    with store.locked(progress, final.name), store.installing(final) as (tree, facts):
        progress(f"installing {package} {version} from PyPI")
        _make_environment(tree)
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", tree / "bin" / "python3", "install", "--quiet"]
        pip += ["--require-hashes", "--only-binary=:all:", "--requirement", _lock(package, version)]
        code, said = store.run(pip, timeout_s=_LONGEST_INSTALL_S, scratch=tree.parent)
        if code:
            raise LabFault(f"{package} {version} cannot be installed: {store.reason(said)}")
        facts.update(package=package, version=version)


def _make_environment(tree: Path) -> None:
    """Without a pip of its own: a system's Python may have none to give."""
    python = Path(host_program("python3"))
    if python == Path(sys.executable).resolve():
        venv.create(tree, symlinks=True)
        return
    code, said = store.run([str(python), "-m", "venv", "--without-pip", str(tree)], timeout_s=_LONGEST_INSTALL_S)
    if code:
        raise LabFault(f"{python} cannot make an environment: {store.reason(said)}", remedy="sudo apt-get install python3-venv")


def _lock(package: str, version: str) -> Path:
    return _LOCKS / f"{package}-{version}.lock"
