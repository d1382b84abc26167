"""A Debian 12 with every client, interpreter and server of the twenty cells, from Debian's packages, once into the cache."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from lab.assets import store
from lab.assets.tools import require
from lab.model.errors import LabFault

_SUITE = "bookworm"
_PACKAGES = "curl,nginx,openjdk-17-jre-headless,openssh-client,python3,rclone,time,wget"
_NOT_KEPT = ("dev", "proc", "run", "sys", "tmp", "var/cache", "var/lib/apt", "usr/share/doc", "usr/share/locale")
_PART = "places"
_LONGEST_S = 3600.0


def archive(suite: str, packages: str, name: str) -> Path:
    """A tar of that Debian in the cache, by mmdebstrap. Raises LabFault."""
    # A lock of its own: for minutes nothing else of the cache could be made.
    with store.locked(print, _PART) as cache:
        path = cache / f"{name}-{suite}-{hashlib.sha256(packages.encode()).hexdigest()[:8]}.tar"
        if not path.exists():
            with store.staging(cache, _PART) as work:
                part = work / path.name
                words: list[str | Path] = [
                    require("mmdebstrap"),
                    "--quiet",
                    "--variant=apt",
                    f"--include={packages}",
                    suite,
                    part,
                ]
                code, output = store.run(words, timeout_s=_LONGEST_S, scratch=work)
                if code:
                    raise LabFault(f"mmdebstrap cannot make {suite}: {store.reason(output)}")
                part.rename(path)
    return path


def unpack(ferry: Path, into: Path) -> Path:
    """The userland at `into`, readable by all, with this ferry on its PATH. Raises LabFault."""
    into.mkdir(parents=True)
    excluded = [f"--exclude=./{name}/*" for name in _NOT_KEPT]
    source = archive(_SUITE, _PACKAGES, "places")
    code, output = store.run(["tar", "-xf", source, "-C", into, "--no-same-owner", *excluded])
    if code:
        raise LabFault(f"the userland cannot be unpacked: {store.reason(output)}", remedy="free some space")
    for path in into.rglob("*"):
        if not path.is_symlink() and (missing := (0o555 if path.is_dir() else 0o444) & ~path.stat().st_mode):
            path.chmod(path.stat().st_mode | missing)
    place = into / "usr/local/bin/ferry"
    shutil.copy(ferry, place)
    return into
