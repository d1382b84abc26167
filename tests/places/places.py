"""The places: labs in several forms, of several Pythons and users, on the host's root and on those of two Debians."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common import extracted
from lab import __version__
from lab.assets import engine, store
from lab.assets.release import debian as package
from lab.assets.release.workshop import LOCK, Words, Workshop, uv_cache
from lab.clients.ferry import find_ferry
from lab.model.clock import EPOCH_S
from lab.model.errors import EXIT_FAIL, LabFault, UsageProblem
from lab.model.paths import cache_dir, project_root
from lab.model.scratch import scratch_folder
from tests.places import cells, userland
from tests.places.came import Came, found_in
from tests.support.bare_debian import USER_ID, Debian, LackingError, unpack
from tests.virtual.boots import busy_loops

_PIP = ("pip", "install", "--quiet")
_RUN_S = 5400.0
_OPTIONS = ("--clock", "virtual", "--max-samples", "5", "--pcap")
_SBIN = "export PATH=/usr/sbin:/sbin:$PATH"
_USERLAND = "userland"


@dataclass
class Made:
    """What places share, made at its first use: a wheel, a .deb, the userland, and environments of Pythons."""

    folder: Path
    _kept: dict[str, Path] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[Path], Path]) -> Path:
        if name not in self._kept:
            self._kept[name] = make(self.folder / name)
        return self._kept[name]

    @property
    def userland(self) -> Path:
        return self.once(_USERLAND, lambda into: userland.unpack(find_ferry(), into))

    @property
    def shop(self) -> Workshop:
        """The checkout as it is, with the uv of a release."""
        tools = self.once("tools", _tools)
        cargo = engine.find_cargo() or Path("/usr/bin/cargo")
        return Workshop(project_root(), EPOCH_S, tools, cargo, self.folder / "unused")

    @property
    def wheel(self) -> Path:
        return self.once("wheel", _wheel)

    @property
    def deb(self) -> Path:
        """The package of `make deb`, with this checkout's ferry in place of a build for older systems."""
        shop, wheel, ferry, work = self.shop, self.wheel, self.folder / "ferry.whl", self.folder / "deb-tree"
        with zipfile.ZipFile(ferry, "w") as archive:
            archive.write(find_ferry(), "ferry.data/scripts/ferry")
        return self.once(
            "deb", lambda into: package.build(shop, __version__, wheel=wheel, ferry=ferry, work=work, out=_new(into))
        )

    def installed(self, python: str) -> Path:
        """The Python of an environment that has the wheel, from the locked packages. Raises LackingError."""
        shop, wheel = self.shop, self.wheel
        found = find_python(python)

        def make(into: Path) -> Path:
            uv = _uv(shop)
            into_it: Words = ["--link-mode=copy", "--python", into / "bin/python"]
            lock = shop.root / "requirements.lock"
            shop.run([*uv, "venv", "--quiet", "--python", found, into])
            shop.run([*uv, *_PIP, "--no-build", *into_it, "--require-hashes", "--requirement", lock])
            shop.run([*uv, *_PIP, "--no-deps", *into_it, wheel])
            return into / "bin/python"

        return self.once(f"python-{python}", make)


def find_python(version: str) -> Path:
    """An interpreter of that version: from PATH, pyenv's or uv's. Raises LackingError."""
    named = shutil.which(f"python{version}")
    own = [Path(named)] if named else []
    for pattern in (f".pyenv/versions/{version}.*/bin/python3", f".local/share/uv/python/cpython-{version}*/bin/python3"):
        own += sorted(Path.home().glob(pattern))
    for each in own:
        # A shim of pyenv's is there for versions that are not chosen, too.
        if subprocess.run([each, "-V"], capture_output=True, check=False).returncode == 0:
            return each
    raise LackingError(f"there is no Python {version} (PATH, pyenv, uv)")


Ran = Mapping[str, Came]
Run = Callable[[Made, Sequence[str], bool], Ran]
"""Runs these cells, with the userland's programs or the machine's own, and returns what came of them."""


@dataclass(frozen=True)
class Place:
    """`own`: it has the host's root, and with it the machine's programs."""

    name: str
    what: str
    run: Run
    own: bool = True


def _checkout(made: Made, ids: Sequence[str], in_userland: bool) -> Ran:
    environment = {**os.environ, "PYTHONPATH": str(project_root())}
    with _place("checkout", in_userland) as folder:
        return _ran([sys.executable, "-m", "lab.cli.main"], ids, folder, environment, made if in_userland else None)


def _busy(made: Made, ids: Sequence[str], in_userland: bool) -> Ran:
    python = made.installed("3.12")
    with _place("busy", in_userland) as folder, busy_loops(longest_cpu_s=int(_RUN_S)):
        return _ran([python, "-m", "lab.cli.main"], ids, folder, _installed_environment(), made if in_userland else None)


def _elsewhere(made: Made, ids: Sequence[str], in_userland: bool) -> Ran:
    python = made.installed("3.13")
    environment = _installed_environment() | {
        "PATH": f"/nowhere:{os.environ['PATH']}:/nowhere/else",
        "LANG": "tr_TR.UTF-8",
        "TZ": "Asia/Tokyo",
        "SOMETHING": "x" * 5000,
        "http_proxy": "http://nowhere:1",
    }
    with _place("/".join(["a longer name " * 9, "and", "deeper", "still"]), in_userland) as folder:
        return _ran([python, "-m", "lab.cli.main"], ids, folder, environment, made if in_userland else None)


def _user(made: Made, ids: Sequence[str], in_userland: bool) -> Ran:
    """As a user who has a home, and a cache with copies of what the lab's has."""
    if os.geteuid():
        raise LackingError("to become another user needs root")
    shop, wheel = made.shop, made.wheel
    uid = 54321
    with _place("user", in_userland) as folder:
        home = folder.parent / "home of a user"
        home.mkdir()
        for pattern in ("kernel-*", "extracted-*"):
            for path in cache_dir().glob(pattern):
                if path.is_dir():
                    shutil.copytree(path, home / "cache" / path.name, symlinks=True)
        uv = _uv(shop)
        python = home / "lab/bin/python"
        lock: Words = ["--require-hashes", "--requirement", shop.root / "requirements.lock"]
        shop.run([*uv, "venv", "--quiet", "--python", "/usr/bin/python3", home / "lab"])
        without: Words = ["--no-deps", wheel]
        for more in (lock, without):
            shop.run([*uv, *_PIP, "--link-mode=copy", "--python", python, *more])
        shutil.copy(find_ferry(), home / "ferry")
        for path in (folder, home, *folder.rglob("*"), *home.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
        environment = _installed_environment() | {
            "HOME": str(home),
            "ROUGHWATER_CACHE": str(home / "cache"),
            "ROUGHWATER_FERRY": str(home / "ferry"),
        }
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        return _ran([*become, python, "-m", "lab.cli.main"], ids, folder, environment, made if in_userland else None)


def _debian(suite: str, user: str) -> Run:
    """The .deb in a Debian that has Python alone; it downloads what its cells need."""

    def run(made: Made, ids: Sequence[str], in_userland: bool) -> Ran:
        assert in_userland
        with scratch_folder("roughwater-") as folder:
            folder.chmod(0o755)
            debian = unpack(suite, folder, wheels=False)
            shutil.copy(made.deb, debian.root / "roughwater.deb")
            shutil.copytree(made.userland, debian.root / _USERLAND, symlinks=True)
            uid = 0 if user == "root" else USER_ID
            work = cells.write(debian.root / "home" / user / "cells", None)
            for path in (work, *work.rglob("*")):
                os.chown(path, uid, uid)
            _in(debian, f"{_SBIN}; dpkg --install /roughwater.deb", "root")
            words = " ".join(["lab", "run", *ids, *_OPTIONS, "--userland", f"/{_USERLAND}"])
            _in(debian, f"cd cells && {words}", user)
            return found_in(work / "results")

    return run


def _in(debian: Debian, script: str, user: str) -> None:
    code, said = debian.run(script, user=user, timeout_s=_RUN_S)
    if code not in (0, EXIT_FAIL):
        raise LabFault(f"{script[:40]}... ended with exit code {code}:\n{said[-1000:]}")


PLACES = (
    Place("checkout", "this checkout, its Python, its caller", _checkout),
    Place("wheel, 3.12, busy", "the wheel in Python 3.12, next to four busy loops", _busy),
    Place("wheel, 3.13, elsewhere", "the wheel in Python 3.13, in a long path, with another environment", _elsewhere),
    Place("wheel, system's, user", "the wheel in the system's Python, of an ordinary user with a cache of its own", _user),
    Place("deb, Debian 12", "the .deb in a bare Debian 12, root", _debian("bookworm", "root"), own=False),
    Place("deb, Debian 13", "the .deb in a bare Debian 13, an ordinary user", _debian("trixie", "user"), own=False),
)


@contextmanager
def _place(name: str, in_userland: bool) -> Iterator[Path]:
    """A folder with the cells' files, which all users may read."""
    ferry, rclone = find_ferry(), extracted({"rclone": "rclone"})["rclone"]
    with scratch_folder("roughwater-") as folder:
        folder.chmod(0o755)
        yield cells.write(folder / name, None if in_userland else {"ferry": ferry, "rclone": rclone})


def _installed_environment() -> dict[str, str]:
    """Without what leads to the checkout, but with its ferry and the cache."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROUGHWATER_"))}
    return {**mine, "ROUGHWATER_FERRY": str(find_ferry()), "ROUGHWATER_CACHE": str(cache_dir())}


def _ran(lab: Sequence[str | Path], ids: Sequence[str], folder: Path, environment: Mapping[str, str], made: Made | None) -> Ran:
    words: Words = [*lab, "run", *ids, *_OPTIONS, *(["--userland", made.userland] if made else [])]
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_RUN_S)
    if done.returncode not in (0, EXIT_FAIL):
        raise UsageProblem(f"the cells ended with exit code {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    return found_in(folder / "results")


def _tools(into: Path) -> Path:
    """The folder of uv, as the release's lock has it."""
    entry = re.search(r"^uv==.*(?:\n    --hash.*)*", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert entry
    wanted = into.with_suffix(".lock")
    wanted.write_text(entry[0] + "\n", encoding="utf-8")
    pip: Words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        into,
        "--require-hashes",
        "--requirement",
        wanted,
    ]
    _must(pip)
    return into / "bin"


def _wheel(into: Path) -> Path:
    pip: Words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", into]
    _must([*pip, project_root()])
    (made,) = into.glob("*.whl")
    return made


def _must(words: Sequence[str | Path]) -> None:
    code, output = store.run(words, timeout_s=_RUN_S)
    if code:
        raise LabFault(f"{' '.join(map(str, words[1:4]))} failed: {store.reason(output)}")


def _uv(shop: Workshop) -> Words:
    return [shop.tools / "uv", "--no-config", "--cache-dir", uv_cache()]


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
