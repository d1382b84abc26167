"""Runs `ferry-conformance`, and reads the vendored archives."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lab.assets.engine import environment, find_cargo
from lab.model.paths import project_root

DATA = project_root() / "tests" / "data" / "conformance"


@dataclass(frozen=True)
class Source:
    """Where a vendored archive came from."""

    name: str
    repository: str
    commit: str
    licence: str
    sha256: str


@functools.cache
def sources() -> dict[str, Source]:
    """Every vendored archive by its name."""
    text = (DATA / "sources.json").read_text(encoding="utf-8")
    return {each["name"]: Source(**each) for each in json.loads(text)}


def members(name: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Paths and texts of an archive's files that end with `suffix`, sorted by path."""
    archive = DATA / f"{name}.tar.xz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sources()[name].sha256:
        raise AssertionError(f"{archive} is not the copy of sources.json: its SHA-256 is {found}")
    with tarfile.open(archive) as tar:
        for entry in sorted(tar.getmembers(), key=lambda each: each.name):
            file = tar.extractfile(entry) if entry.name.endswith(suffix) else None
            if file is not None:
                yield entry.name.removeprefix("./"), file.read().decode()


@functools.cache
def _program() -> str:
    folder = project_root() / "engine"
    cargo = find_cargo()
    assert cargo, "no cargo: run `make setup`"
    build = [str(cargo), "build", "--release", "--locked", "--quiet", "-p", "ferry-conformance"]
    subprocess.run(build, cwd=folder, env=environment(cargo), check=True, timeout=600)
    return str(folder / "target" / "release" / "ferry-conformance")


def answers(cases: Sequence[dict[str, Any]]) -> list[Any]:
    """What ferry's crates make of each case."""
    given = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([_program()], input=given, capture_output=True, text=True, check=True, timeout=300)
    made = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(made) == len(cases), done.stderr
    return made
