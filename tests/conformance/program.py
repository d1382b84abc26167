"""Runs `ferry-conformance`, and reads the packages that hold other people's cases."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin

from lab.assets import store
from lab.assets.engine import environment, find_cargo
from lab.model import files
from lab.model.paths import cache_dir, project_root

_MIRROR = "http://deb.debian.org/debian"
DATA = project_root() / "tests" / "data" / "conformance"


@dataclass(frozen=True)
class Source:
    """Where the cases came from: a package of Cargo.lock (`crate`), one of PyPI (`sdist`: "NAME VERSION"), one of Debian
    (`debian`: the path of its upstream archive on a mirror), a file next to sources.json (`file`), the last three with a
    `sha256`; or restated."""

    name: str
    repository: str
    licence: str
    commit: str = ""
    crate: str = ""
    sdist: str = ""
    debian: str = ""
    file: str = ""
    sha256: str = ""

    @property
    def cell(self) -> str:
        """A link, the version and the licence."""
        kind = "" if self.sdist or self.crate or self.debian else "made by " if self.file else "restated from "
        debian = PurePosixPath(self.debian).name
        version = f"crate {self.crate} {crate(self.crate)[0]}" if self.crate else self.sdist or debian or self.commit[:10]
        return f"{kind}[{self.repository.removeprefix('https://github.com/')}]({self.repository}) {version}, {self.licence}"


@functools.cache
def sources() -> dict[str, Source]:
    """Every source by its name."""
    text = (DATA / "sources.json").read_text(encoding="utf-8")
    return {each["name"]: Source(**each) for each in json.loads(text)}


@functools.cache
def crate(name: str) -> tuple[str, Path]:
    """The version and the folder of a package that Cargo.lock pins: cargo has checked its digest."""
    cargo = find_cargo()
    assert cargo, "no cargo: run `make setup`"
    asked = [str(cargo), "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]
    done = subprocess.run(
        asked, cwd=project_root() / "engine", env=environment(cargo), capture_output=True, text=True, check=True, timeout=600
    )
    (found,) = [each for each in json.loads(done.stdout)["packages"] if each["name"] == name]
    return found["version"], Path(found["manifest_path"]).parent


@functools.cache
def sdist(name: str) -> Path:
    """The source package of PyPI that a source names: downloaded once, and checked by its digest each time."""
    source = sources()[name]
    package, version = source.sdist.split()
    archive = cache_dir() / "conformance" / f"{package}-{version}.tar.gz"
    if not archive.exists():
        index = f"https://pypi.org/pypi/{package}/json"
        with urllib.request.urlopen(index, timeout=60) as answer:
            (url,) = [each["url"] for each in json.load(answer)["releases"][version] if each["packagetype"] == "sdist"]
        archive.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(urljoin(index, url), timeout=300) as answer:
            part = archive.with_suffix(".part")
            part.write_bytes(answer.read())
            part.rename(archive)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != source.sha256:
        raise AssertionError(f"{archive} is not the package of sources.json: its SHA-256 is {found}; remove it")
    return archive


@functools.cache
def package(name: str) -> Path:
    """The source package of Debian that a source names: downloaded once by apt, and checked by its digest each time."""
    source = sources()[name]
    archive = cache_dir() / "conformance" / PurePosixPath(source.debian).name
    if not archive.exists():
        print(f"downloading {archive.name} ({_MIRROR})", file=sys.stderr)
        archive.parent.mkdir(parents=True, exist_ok=True)
        part = archive.with_suffix(".part")
        # apt's own proxies and certificates; the digest is ours.
        words = ["/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "download-file", f"{_MIRROR}/{source.debian}", part]
        code, said = store.run([*words, f"SHA256:{source.sha256}"])
        if code:
            raise AssertionError(f"cannot download {archive.name}: {store.reason(said)}; is the Debian mirror reachable?")
        part.rename(archive)
    found = files.digest(archive)
    if found != source.sha256:
        raise AssertionError(f"{archive} is not the package of sources.json: its SHA-256 is {found}; remove it")
    return archive


def download_all() -> None:
    """Every source package, for a machine that has no network later."""
    for name, source in sources().items():
        if source.sdist:
            sdist(name)
        elif source.debian:
            package(name)


def vendored(name: str) -> Path:
    """The file of cases that lies next to sources.json, checked by its digest."""
    source = sources()[name]
    path = DATA / source.file
    found = files.digest(path)
    if found != source.sha256:
        raise AssertionError(f"{path} is not the file of sources.json: its SHA-256 is {found}")
    return path


def members(name: str, folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Paths below the first `folder` and texts of a source package's files that end with `suffix`, sorted by path."""
    with tarfile.open(sdist(name)) as tar:
        for entry in sorted(tar.getmembers(), key=lambda each: each.name):
            file = tar.extractfile(entry) if f"/{folder}/" in entry.name and entry.name.endswith(suffix) else None
            if file is not None:
                yield entry.name.partition(f"/{folder}/")[2], file.read().decode()


@functools.cache
def _program() -> str:
    folder = project_root() / "engine"
    cargo = find_cargo()
    assert cargo, "no cargo: run `make setup`"
    # With the features that the engine's tests were built with: without `--tests` there are fewer, and all is compiled again.
    # Without optimization it also ends where a number overflows.
    build = [str(cargo), "build", "--locked", "--quiet", "--workspace", "--bins", "--tests"]
    subprocess.run(build, cwd=folder, env=environment(cargo), check=True, timeout=600)
    return str(folder / "target" / "debug" / "ferry-conformance")


def answers(cases: Sequence[dict[str, Any]]) -> list[Any]:
    """What ferry's crates make of each case."""
    given = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([_program()], input=given, capture_output=True, text=True, check=True, timeout=300)
    made = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(made) == len(cases), done.stderr
    return made
