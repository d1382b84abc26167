"""The SFTP servers and proxies that only tests need: fetched like the lab's own, extracted into the cache and never installed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.assets import extracted, tools
from lab.model.errors import LabFault
from lab.model.paths import cache_dir

# Program -> Debian package. One bundle each, so that one can be missing without the other.
BUNDLES: Mapping[str, Mapping[str, str]] = {
    "proftpd": {"proftpd": "proftpd-core", "mod_sftp.so": "proftpd-mod-crypto"},
    "microsocks": {"microsocks": "microsocks"},
    "tinyproxy": {"tinyproxy": "tinyproxy-bin"},
    "dropbear": {"dropbear": "dropbear-bin", "dropbearconvert": "dropbear-bin"},
}


class LackingError(Exception):
    """This machine cannot have it: a reason to skip a test."""


def fetch(name: str) -> Path:
    """The folder of a bundle in the cache, downloaded when it is not there; LackingError tells why it cannot be."""
    programs = BUNDLES[name]
    if not all(extracted.find(program) for program in programs):
        try:
            return extracted.build(programs, print)
        except LabFault as fault:
            raise LackingError(f"{name} cannot be fetched: {fault}") from None
    found = extracted.find(name)
    assert found is not None
    return _bundle_of(found)


def copied(program: Path, into: Path) -> Path:
    """A copy of the program that every user may execute, because a home folder with the cache is closed to other users.

    Programs of a bundle are copied with their libraries. Installed programs are not copied.
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
    found = extracted.find(name) or tools.find(name)
    if found is None:
        raise LackingError(f"there is no {name} ({tools.remedy(name)})")
    return found


def _bundle_of(program: Path) -> Path:
    return next(folder for folder in program.parents if folder.parent == cache_dir())
