"""The SFTP servers that only tests want: fetched as the lab's own are, extracted into the cache and never installed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.assets import servers, tools
from lab.errors import LabFault
from lab.paths import cache_dir

# Program -> Debian package. A bundle each: one that cannot be had leaves the other.
BUNDLES: Mapping[str, Mapping[str, str]] = {
    "proftpd": {"proftpd": "proftpd-core", "mod_sftp.so": "proftpd-mod-crypto"},
    "dropbear": {"dropbear": "dropbear-bin", "dropbearconvert": "dropbear-bin"},
}


class LackingError(Exception):
    """This machine cannot have it: a reason to skip a test."""


def fetch(name: str) -> Path:
    """The folder of a bundle in the cache, downloaded when it is not there; LackingError tells why it cannot be."""
    programs = BUNDLES[name]
    if not all(servers.find(program) for program in programs):
        try:
            return servers.build(programs, print)
        except LabFault as fault:
            raise LackingError(f"{name} cannot be fetched: {fault}") from None
    found = servers.find(name)
    assert found is not None
    return _bundle_of(found)


def copied(program: Path, into: Path) -> Path:
    """The program where everybody may execute it: a home folder that holds the cache is closed to others.

    Programs of a bundle bring their libraries along; a machine's own are left where they are.
    """
    if not program.is_relative_to(cache_dir()):
        return program
    bundle = _bundle_of(program)
    copy = into / bundle.name
    if not copy.exists():
        shutil.copytree(bundle, copy)
        copy.chmod(0o755)
    return copy / program.relative_to(bundle)


def find(name: str) -> Path:
    """A program of a bundle, or one the lab has anyway."""
    if name in BUNDLES:
        fetch(name)
    found = servers.find(name) or tools.find(name)
    if found is None:
        raise LackingError(f"there is no {name} ({tools.remedy(name)})")
    return found


def _bundle_of(program: Path) -> Path:
    return next(folder for folder in program.parents if folder.parent == cache_dir())
