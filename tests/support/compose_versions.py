"""Every Compose of this machine by version: `docker-compose`, `docker compose`, and Debian 13's package where it can be had.

Debian 13's is Compose 2. It is extracted into the cache, once, and not installed; where that fails, a caller does without.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from lab.assets import store, tools
from lab.model.errors import LabFault, RoughwaterError
from lab.model.paths import cache_dir

_SUITE = "trixie"
_PACKAGE = "docker-compose"
_PROGRAM = "usr/libexec/docker/cli-plugins/docker-compose"


@cache
def composes() -> dict[str, list[str]]:
    """`1.29` or `2` -> the words that start it."""
    found: dict[str, list[str]] = {}
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and (version := _version(words)):
            found.setdefault(version, words)
    if "2" not in found and (program := _of_debian()) and (version := _version([str(program)])):
        found.setdefault(version, [str(program)])
    return found


def _version(words: list[str]) -> str:
    done = subprocess.run([*words, "version", "--short"], capture_output=True, text=True, check=False, timeout=60)
    matched = re.match(r"v?(1\.\d+|\d+)", done.stdout)
    return matched[1] if done.returncode == 0 and matched else ""


def _of_debian() -> Path | None:
    """It runs with Debian 12's libc."""
    place = cache_dir() / f"compose-{_SUITE}"
    program = place / "docker-compose"
    if store.load(place) is not None:
        return program
    try:
        mmdebstrap = tools.require("mmdebstrap")
        with store.locked(print, place.name), store.installing(place) as (result, facts):
            tree = result.parent / "tree"
            code, output = store.run(
                [
                    mmdebstrap,
                    "--mode=chrootless",
                    "--variant=extract",
                    "--skip=check/chrootless",
                    '--aptopt=APT::Sandbox::User "root"',
                    f"--include={_PACKAGE}",
                    _SUITE,
                    tree,
                ],
                scratch=result.parent,
            )
            facts["suite"] = _SUITE
            if code:
                raise LabFault(f"no Compose of Debian {_SUITE}: {store.reason(output)}")
            shutil.copy2(tree / _PROGRAM, result / "docker-compose")
    except RoughwaterError as problem:
        print(problem)
        return None
    return program
