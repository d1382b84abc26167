"""The User-Mode Linux router: a Debian kernel with netem that runs as a process, for machines whose kernel has none.

Built from packages that are downloaded and extracted, never installed: mmdebstrap in chrootless mode with the "extract"
variant runs no package scripts and needs no root, no user namespace and no subordinate ids. Debian 13 (kernel 6.12,
iproute2 6.15) is preferred because its netem takes a seed; Debian 12 (6.1) is the fallback. `linux.uml` needs a newer glibc
than Debian 12 has, so it runs in the chroot `root/`, which holds only the kernel, its loader, its libc and the initramfs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.assets import initrd, store
from lab.assets.store import Progress
from lab.assets.tools import require
from lab.link.netem import supports_seed
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

SUITES = ("trixie", "bookworm")
PACKAGES = ("user-mode-linux", "iproute2", "busybox-static")
SUITE_VARIABLE = "ROUGHWATER_UML_SUITE"

KERNEL = "usr/bin/linux.uml"
INITRD = "initrd.gz"
_MOUNT_POINTS = ("dev", "proc", "run", "tmp")
_PART = "uml"
_LAYOUT = 1  # raise when the directory's layout changes in a way the text of init does not show


@dataclass(frozen=True)
class UmlAsset:
    """A built router. `root` is the chroot; inside it the kernel is /usr/bin/linux.uml and the initramfs /initrd.gz."""

    directory: Path
    root: Path
    kernel_release: str
    iproute2: str
    supports_seed: bool
    suite: str
    packages: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def kernel(self) -> Path:
        return self.root / KERNEL

    @property
    def initrd(self) -> Path:
        return self.root / INITRD


def find() -> UmlAsset | None:
    """The router from the cache, its checksums verified; None if it is missing or damaged."""
    return next((asset for suite in wanted_suites() if (asset := _load(_place(suite), suite))), None)


def build(progress: Progress, *, force: bool = False) -> UmlAsset:
    """The router, built if it is not in the cache (or if forced), from the first suite that can be downloaded."""
    suites = wanted_suites()
    if platform.machine() != "x86_64":
        raise LabFault(f"the UML router needs an x86-64 machine, this is {platform.machine()}", remedy="use --router kernel")
    mmdebstrap = require("mmdebstrap")
    with store.locked(progress, _PART):
        if not force and (ready := find()):
            return ready
        failures: list[str] = []
        for suite in suites:
            try:
                return _build(suite, mmdebstrap, progress)
            except LabFault as fault:
                failures.append(f"{suite}: {fault.message}")
                progress(f"no UML router from {failures[-1]}")
    raise LabFault("cannot build the UML router: " + "; ".join(failures), remedy="is the Debian mirror reachable?")


def wanted_suites() -> tuple[str, ...]:
    """Debian's suites to try, newest first, or the suite that the environment names."""
    forced = os.environ.get(SUITE_VARIABLE, "")
    if forced and forced not in SUITES:
        raise UsageProblem(f"{SUITE_VARIABLE}={forced}: no such suite", remedy=f"one of {', '.join(SUITES)}")
    return (forced,) if forced else SUITES


def _place(suite: str) -> Path:
    """The directory's name has a digest of the recipe, so that a lab with another init does not use this router."""
    recipe = "\n".join((initrd.INIT, *PACKAGES, str(_LAYOUT)))
    return cache_dir() / f"uml-{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _load(directory: Path, suite: str) -> UmlAsset | None:
    manifest = store.load(directory)
    root = directory / "root"
    if manifest is None or not all((root / name).is_dir() for name in _MOUNT_POINTS):
        return None
    try:
        return UmlAsset(
            directory=directory,
            root=root,
            kernel_release=manifest["kernel_release"],
            iproute2=manifest["iproute2"],
            supports_seed=manifest["supports_seed"],
            suite=suite,
            packages=manifest["packages"],
        )
    except KeyError:
        return None


def _build(suite: str, mmdebstrap: Path, progress: Progress) -> UmlAsset:
    final = _place(suite)
    with store.installing(final, _PART) as (result, facts):
        progress(f"downloading the UML router from Debian {suite} (about 30 MB)")
        debian = result.parent / "debian"
        _extract(suite, mmdebstrap, debian)
        facts.update(assemble(debian, result), suite=suite)
    asset = _load(final, suite)
    if asset is None:
        raise LabFault(f"{final} lacks a mount point", remedy="check the disk")
    progress(f"UML router: kernel {asset.kernel_release}, iproute2 {asset.iproute2}{_seed_note(asset)}")
    return asset


def _seed_note(asset: UmlAsset) -> str:
    return "" if asset.supports_seed else " (its netem takes no seed, so losses are not reproducible)"


def _extract(suite: str, mmdebstrap: Path, tree: Path) -> None:
    options = {"APT::Sandbox::User": "root", "Acquire::Retries": "2", "Acquire::http::Timeout": "20"}
    code, output = store.run(
        [
            mmdebstrap,
            "--mode=chrootless",
            "--variant=extract",
            # mmdebstrap refuses chrootless mode as root because of package scripts; this variant runs none.
            # The package files stay, because their names have the versions.
            "--skip=check/chrootless,cleanup/apt/cache",
            *(f'--aptopt={name} "{value}"' for name, value in options.items()),
            f"--include={','.join(PACKAGES)}",
            suite,
            tree,
        ],
        scratch=tree.parent,
    )
    if code != 0:
        raise LabFault(store.reason(output))


def assemble(tree: Path, result: Path) -> dict[str, Any]:
    """Copy the files that are needed at run time from the 200 MB that were downloaded; return facts about them.

    `tree` may be the root of a system that has PACKAGES installed, as in a stage of images/router/Dockerfile.
    """
    root = result / "root"
    kernel = initrd.program(tree, "linux.uml")
    copies = {KERNEL: kernel, initrd.LOADER: initrd.loader(tree)}
    copies.update({f"{initrd.LIBRARIES}/{soname}": path for soname, path in initrd.libraries(tree, kernel).items()})
    for name, source in copies.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, root / name)
        (root / name).chmod(0o755)
    for name in _MOUNT_POINTS:
        (root / name).mkdir()
    (root / INITRD).write_bytes(initrd.build(tree))

    versions = _package_versions(tree)
    release, _ = initrd.modules(tree)
    iproute2 = versions.get("iproute2", "").partition("-")[0]
    return {
        "packages": {name: versions.get(name, "") for name in PACKAGES},
        "kernel_release": release,
        "iproute2": iproute2,
        "supports_seed": supports_seed(release, iproute2),
    }


def _package_versions(tree: Path) -> dict[str, str]:
    """From the names of the package files: name_version_arch.deb, the colon of an epoch written %3a."""
    names = (path.stem.split("_") for path in (tree / "var/cache/apt/archives").glob("*.deb"))
    return {parts[0]: parts[1].replace("%3a", ":") for parts in names if len(parts) == 3}
