"""More packages in a userland of the lab: extracted over a copy of its root, as an ordinary user, in seconds.

apt resolves them against the root's own list, and checks signatures and digests. No script of a package runs: a server's user,
its default configuration and its links of alternatives are not made.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.assets import store
from lab.assets.store import Progress
from lab.model.errors import LabFault, UsageProblem
from lab.model.files import digest
from lab.model.paths import cache_dir

MARK = "+"
"""Between a userland and the packages that are added to it: `debian:13+rsync`."""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
STATUS = "var/lib/dpkg/status"
"""dpkg's list of packages, in a root."""
NOT_WANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")
"""Files of packages that no userland has."""
_INSTALLED = "Status: install ok installed"
_LAYOUT = 1
_DOWNLOAD_S = 600


def place_of(base_digest: str, name: str) -> Path:
    """The folder of the cache for that root with its packages."""
    recipe = json.dumps([base_digest, name, _LAYOUT])
    return (
        cache_dir()
        / f"userland-{name.replace(':', '-').replace(MARK, '-')[:60]}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    )


def extract_into(root: Path, sources: Sequence[str], packages: Sequence[str], work: Path, progress: Progress) -> dict[str, str]:
    """Add packages, and what they depend on, to the root; SHA-256 by the name of each package's file.

    Raises UsageProblem for a package that apt does not know, LabFault where it cannot be downloaded.
    """
    debs = _download(root, sources, packages, work)
    progress(f"adding {len(debs)} packages: {', '.join(deb.name.partition('_')[0] for deb in debs)}")
    for deb in debs:
        _extract(deb, root)
    _note(root, debs)
    return {deb.name: digest(deb) for deb in debs}


def copy_root(root: Path, into: Path) -> None:
    """A copy of a root whose files are links to the same content; what replaces one leaves the other alone."""
    code, output = store.run(["cp", "-al", root, into])
    if code != 0:
        raise LabFault(f"the userland cannot be copied: {store.reason(output)}", remedy="free some space")


def _download(root: Path, sources: Sequence[str], packages: Sequence[str], work: Path) -> list[Path]:
    """The files of these packages and of what they need besides the root's own."""
    apt = work / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "etc"):
        (apt / folder).mkdir(parents=True)
    (apt / "etc/sources.list").write_text("".join(f"{line}\n" for line in sources))
    options = {
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "APT::Get::Assume-Yes": "true",
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "20",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
        "Dir::Cache": str(apt / "cache"),
        "Dir::Etc": str(apt / "etc"),
        "Dir::Etc::Trusted": _KEYRING,
        "Dir::State": str(apt),
        "Dir::State::Lists": str(apt / "lists"),
        "Dir::State::Status": str(root / STATUS),
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    code, output = store.run([*command, "update"], timeout_s=_DOWNLOAD_S)
    if code == 0:
        code, output = store.run([*command, "install", "--download-only", *packages], timeout_s=_DOWNLOAD_S)
    if "Unable to locate package" in output:
        unknown = output.partition("Unable to locate package ")[2].split()[0]
        raise UsageProblem(f"Debian has no package {unknown} there", remedy="write a name of packages.debian.org")
    if code != 0:
        raise LabFault(f"cannot download {', '.join(packages)}: {store.reason(output)}", remedy="is the Debian mirror reachable?")
    return sorted((apt / "cache/archives").glob("*.deb"))


def _extract(deb: Path, root: Path) -> None:
    """Unpack as tar does, not dpkg: a folder that is a link in the root stays one, and a file that is replaced is a new one."""
    exclude = " ".join(f"--exclude={shlex.quote('.' + pattern)}" for pattern in NOT_WANTED)
    unpack = f"tar -x -C {shlex.quote(str(root))} --keep-directory-symlink --no-same-owner --no-same-permissions {exclude}"
    command = f"set -o pipefail; dpkg-deb --fsys-tarfile {shlex.quote(str(deb))} | {unpack}"
    code, output = store.run(["bash", "-c", command])
    if code != 0:
        raise LabFault(f"cannot extract {deb.name}: {store.reason(output)}", remedy="free some space")


def _note(root: Path, debs: Iterable[Path]) -> None:
    """Put the packages on the root's list, which other tools read and the record of a cell has."""
    status = root / STATUS
    text = status.read_text(encoding="utf-8", errors="replace")
    for deb in debs:
        code, fields = store.run(["dpkg-deb", "-f", deb])
        if code != 0:
            raise LabFault(f"cannot read {deb.name}: {store.reason(fields)}")
        first, _, rest = fields.strip().partition("\n")
        text += f"\n{first}\n{_INSTALLED}\n{rest}\n"
    status.unlink()
    status.write_text(text, encoding="utf-8")
