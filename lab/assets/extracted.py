"""Programs that are not installed: their Debian packages, downloaded by apt and extracted into the cache.

Works without root, and starts no daemon. apt verifies Debian's signatures and digests. Libraries that the machine lacks are
extracted too; a wrapper script then sets LD_LIBRARY_PATH.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.assets import store
from lab.assets.store import Progress
from lab.model.errors import LabFault
from lab.model.files import digest
from lab.model.paths import cache_dir

_FOLDERS = ("usr/sbin", "usr/bin", "usr/lib/openssh", "usr/lib/proftpd", "usr/libexec", "sbin", "bin")
_BIN = "shown"
"""Every program of a folder under its own name, for PATH."""
_PLACES = "extracted-*"
_LIBRARIES = "lib-extra"
_ROUNDS = 8  # libraries of libraries; curl needs five on a minimal Debian


def find(name: str) -> Path | None:
    """A program from the newest extraction with valid checksums."""
    places = sorted(cache_dir().glob(_PLACES), key=lambda place: place.stat().st_mtime, reverse=True)
    for place in places:
        manifest = store.load(place)
        if manifest and name in manifest["programs"]:
            return place / str(manifest["programs"][name])
    return None


def folder_for_path(program: Path) -> Path:
    """The folder that shows this program and all others of its extraction: a place for PATH."""
    return next(folder for folder in program.parents if folder.parent == cache_dir()) / _BIN


def build(programs: Mapping[str, str], progress: Progress) -> Path:
    """Extract `programs` (name -> Debian package) into a folder of the cache, and return it. One line for each package."""
    part = f"programs-{'-'.join(sorted(programs))}"
    with store.locked(progress, part) as cache, store.staging(cache, part) as work:
        packages = list(dict.fromkeys(programs.values()))
        progress(f"downloading {', '.join(packages)} (extracted, not installed)")
        debs = _download(packages, work / "debs")
        sums = {deb.name: digest(deb) for deb in debs}
        tree = work / "tree"
        for deb in debs:
            _extract(deb, tree)
        paths = {name: _program(tree, name) for name in programs}
        # sshd has parts of its own there.
        binaries = [*paths.values(), *(path for path in tree.glob("usr/lib/openssh/*") if path.is_file())]
        libraries = _add_missing_libraries(binaries, debs, work, tree)
        for name, path in paths.items():
            _show(tree, name, path, wrapped=libraries)
        if libraries:
            paths = {name: tree / _BIN / name for name in paths}
        for folder in ("usr/share", "usr/lib/systemd", "lib", "etc", "var"):  # not used by the lab
            shutil.rmtree(tree / folder, ignore_errors=True)
        versions = dict(_name_and_version(deb) for deb in debs)
        facts = {
            "programs": {name: str(path.relative_to(tree)) for name, path in paths.items()},
            "packages": versions,
            "sha256": sums,
        }
        store.write_manifest(tree, facts, store.digests(tree))
        final = cache / f"extracted-{hashlib.sha256(repr((sorted(paths), sorted(versions.items()))).encode()).hexdigest()[:12]}"
        store.publish(tree, final)
        for deb in debs:
            progress(f"{deb.name}, sha256 {sums[deb.name]}")
    return final


def _download(packages: Sequence[str], into: Path) -> list[Path]:
    """`apt-get download`, with fresh package lists if the machine has none or only outdated ones."""
    into.mkdir(parents=True, exist_ok=True)
    before = set(into.glob("*.deb"))
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=20"]
    code, output = store.run([*command, "download", *packages], cwd=into)
    if code != 0:
        state = into.parent / "apt"
        for folder in ("lists/partial", "cache/archives/partial"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        command += ["-o", f"Dir::State::lists={state / 'lists'}", "-o", f"Dir::Cache={state / 'cache'}"]
        code, output = store.run([*command, "update"])
        if code == 0:
            code, output = store.run([*command, "download", *packages], cwd=into)
    if code != 0:
        raise LabFault(f"cannot download {', '.join(packages)}: {store.reason(output)}", remedy="is the Debian mirror reachable?")
    return sorted(set(into.glob("*.deb")) - before)


def _extract(deb: Path, tree: Path) -> None:
    tree.mkdir(exist_ok=True)
    code, output = store.run(["dpkg-deb", "-x", deb, tree])
    if code != 0:
        raise LabFault(f"cannot extract {deb.name}: {store.reason(output)}")


def _program(tree: Path, name: str) -> Path:
    for folder in _FOLDERS:
        path = tree / folder / name
        if path.is_file():
            return path
    raise LabFault(f"the extracted packages hold no {name}")


def _add_missing_libraries(binaries: Sequence[Path], debs: Sequence[Path], work: Path, tree: Path) -> bool:
    """Copy the libraries that ldd does not find into the tree; True if there were any.

    Only those: a second libc next to the machine's would break more than it repairs.
    """
    extra = tree / _LIBRARIES
    parents = list(debs)
    for _ in range(_ROUNDS):
        lacking = missing_libraries(binaries, extra)
        if not lacking:
            return extra.is_dir()
        needed = sorted({package for deb in parents for package in _library_packages(deb)})
        if not needed:
            break
        parents = _download(needed, work / "libraries")
        for deb in parents:
            _extract(deb, work / "library-tree")
        extra.mkdir(exist_ok=True)
        for soname in lacking:
            if found := next((path for path in (work / "library-tree").rglob(soname) if path.is_file()), None):
                shutil.copyfile(found, extra / soname)
    lacking = missing_libraries(binaries, extra)
    if lacking:
        raise LabFault(f"no package found for {', '.join(lacking)}", remedy="install the packages by hand")
    return True


def missing_libraries(binaries: Sequence[Path], extra: Path) -> list[str]:
    """The sonames that ldd finds neither on this machine nor in `extra`."""
    names: set[str] = set()
    for binary in binaries:
        _, output = store.run(["env", f"LD_LIBRARY_PATH={extra}", "ldd", binary])
        names.update(re.findall(r"^\s*(\S+) => not found", output, flags=re.MULTILINE))
    return sorted(names)


def _library_packages(deb: Path) -> list[str]:
    """The library packages that a package depends on, the first of alternatives. libc is always the machine's."""
    code, output = store.run(["dpkg-deb", "-f", deb, "Depends", "Pre-Depends"])
    if code != 0:
        raise LabFault(f"cannot read {deb.name}: {store.reason(output)}")
    names = re.findall(r"(?:^|:|,)\s*(lib[a-z0-9.+-]+|zlib1g)", output, flags=re.MULTILINE)
    return [name for name in dict.fromkeys(names) if not name.startswith(("libc6", "libnginx-mod"))]


def _show(tree: Path, name: str, binary: Path, *, wrapped: bool) -> None:
    """Show a program among those for PATH. `wrapped`: by a script with its absolute path, because sshd runs itself again."""
    path = tree / _BIN / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if not wrapped:
        path.symlink_to(Path("..") / binary.relative_to(tree))
        return
    # With its checksum the script's own stands for the program: results record it.
    path.write_text(
        f"#!/bin/sh\n# runs the program with SHA-256 {digest(binary)}\n"
        'here=$(cd "$(dirname "$0")/.." && pwd)\n'
        f'export LD_LIBRARY_PATH="$here/{_LIBRARIES}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
        f'exec "$here/{binary.relative_to(tree)}" "$@"\n'
    )
    path.chmod(0o755)


def _name_and_version(deb: Path) -> tuple[str, str]:
    name, version, _ = deb.stem.split("_")
    return name, version.replace("%3a", ":")
