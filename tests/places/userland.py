"""A Debian 12 with every client, interpreter and server of the twenty cells, from Debian's packages, once into the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.assets import store
from lab.model.errors import LabFault
from tests.support.bare_debian import archive

_SUITE = "bookworm"
_PACKAGES = "curl,nginx,openjdk-17-jre-headless,openssh-client,openssh-server,python3,rclone,time,wget"
_NOT_KEPT = ("dev", "proc", "run", "sys", "tmp", "var/cache", "var/lib/apt", "usr/share/doc", "usr/share/locale")
_LONGEST_S = 3600.0


def unpack(ferry: Path, into: Path) -> Path:
    """The userland at `into`, readable by all, with this ferry on its PATH. Raises LabFault, LackingError."""
    into.mkdir(parents=True)
    excluded = [f"--exclude=./{name}/*" for name in _NOT_KEPT]
    source = archive("places", _SUITE, _PACKAGES, timeout_s=_LONGEST_S)
    code, output = store.run(["tar", "-xf", source, "-C", into, "--no-same-owner", *excluded])
    if code:
        raise LabFault(f"the userland cannot be unpacked: {store.reason(output)}", remedy="free some space")
    for path in into.rglob("*"):
        if not path.is_symlink() and (missing := (0o555 if path.is_dir() else 0o444) & ~path.stat().st_mode):
            path.chmod(path.stat().st_mode | missing)
    place = into / "usr/local/bin/ferry"
    shutil.copy(ferry, place)
    return into
