"""`python -m lab.assets.release`, which `make release` and `make deb` call.

Exit code 0: every check of every artefact is green. 1: one is not, or something cannot be built. 2, with one line: a program is
missing, the checkout has changes, the versions differ.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lab.assets.release import checks, debian, inventory, packages, trial, versions, workshop
from lab.assets.release.checks import Check
from lab.assets.release.workshop import Workshop
from lab.model.errors import EXIT_FAIL, EXIT_PASS, EXIT_USAGE, RoughwaterError, UsageProblem
from lab.model.files import digest
from lab.model.paths import project_root

T = TypeVar("T")


@dataclass
class Made:
    """The artefacts of one build."""

    wheel: Path
    sdist: Path
    ferry: Path
    ferry_windows: Path | None = None
    deb: Path | None = None
    inventories: list[Path] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        every = (self.wheel, self.sdist, self.ferry, self.ferry_windows, self.deb, *self.inventories)
        return [path for path in every if path]


def progress(message: str) -> None:
    print(f"release: {message}", flush=True)


def build(shop: Workshop, version: str, out: Path, *, everything: bool) -> Made:
    """Build all packages, or only the .deb and the packages that it is made of."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    wheel, sdist = _timed("the lab's wheel and source archive", lambda: packages.lab_packages(shop, out))
    ferry = _timed("ferry's wheel for Linux", lambda: packages.ferry_linux(shop, out))
    made = Made(wheel, sdist, ferry)
    if everything:
        made.ferry_windows = _timed("ferry's wheel for Windows", lambda: packages.ferry_windows(shop, ferry, out))
        made.inventories = [inventory.of_lab(shop, version, out), inventory.of_ferry(ferry, version, out)]
    tree = shop.root.with_name(f"{shop.root.name}-deb")
    made.deb = _timed("the .deb", lambda: debian.build(shop, version, wheel=wheel, ferry=ferry, work=tree, out=out))
    return made


def check(shop: Workshop, made: Made, version: str, root: Path, work: Path) -> dict[Path, list[Check]]:
    """Artefact -> its checks."""
    found: dict[Path, list[Check]] = {path: [] for path in made.files}
    for path in (made.wheel, made.ferry, made.ferry_windows):
        if path:
            found[path] += [checks.version_of_wheel(path, version), checks.twine(shop, path)]
    found[made.wheel] += [checks.contents(made.wheel, workshop.tracked(shop.root)), checks.wheel_contents(shop, made.wheel)]
    found[made.ferry] += [checks.manylinux(shop, made.ferry)]
    source = checks.sdist_gives_the_wheel(shop, made.sdist, made.wheel, _empty(work / "sdist"))
    found[made.sdist] += [checks.twine(shop, made.sdist), source]
    both = trial.wheels(shop, version, made.wheel.parent, work / "trial")
    for path in (made.wheel, made.ferry):
        found[path].append(both)
    if made.inventories:
        lab, ferry = made.inventories
        found[lab].append(checks.inventory_of_lab(lab, _text(shop.root / "requirements.lock")))
        found[ferry].append(checks.inventory_of_ferry(ferry, _text(shop.root / "engine/Cargo.lock")))
    if made.deb:
        deb = made.deb
        found[deb].append(_timed("lintian", lambda: checks.lintian(shop, deb)))
        found[deb].append(_timed("the .deb in Debian 12 and 13", lambda: trial.deb(root, deb)))
    return found


def release(root: Path, *, everything: bool) -> int:
    """Build, build again elsewhere, compare, check and print. Exit code."""
    version = versions.agreed(root)
    workshop.require_clean(root)
    cargo = workshop.require_tools(with_windows=everything)
    tools = workshop.install_tools(progress)
    work, out = workshop.work_folder(root), root / "dist"
    begun = time.monotonic()
    first = workshop.clone(root, work / "first", cargo=cargo, bin_folder=tools, keep_compiled=True)
    made = build(first, version, out, everything=everything)
    found = check(first, made, version, root, work)
    if everything:
        progress("building everything again, in another folder and from nothing")
        second = workshop.clone(root, work / "other/second", cargo=cargo, bin_folder=tools, keep_compiled=False)
        again = build(second, version, work / "other/dist", everything=True)
        for path in made.files:
            found[path].append(checks.reproduced(path, again.wheel.parent / path.name))
        shutil.rmtree(work / "other", ignore_errors=True)
    sums = checks.write_sums(out)
    found[sums] = [checks.sums(out)]
    print(listing(found), flush=True)
    red = sum(not each.ok for every in found.values() for each in every)
    verdict = f"{red} checks failed" if red else "every check is green"
    progress(f"roughwater {version}, commit {workshop.commit(root)[:12]}, in {out}, {time.monotonic() - begun:.0f} s: {verdict}")
    if versions.unreleased(root):
        progress(f"CHANGELOG.md has unreleased entries: a rehearsal of {version}, not to be published")
    return EXIT_FAIL if red else EXIT_PASS


def listing(found: dict[Path, list[Check]]) -> str:
    """Each artefact with its size, its SHA-256 and its checks."""
    lines = []
    for path, made in found.items():
        lines += ["", f"{path.name}", f"  {path.stat().st_size:,} bytes, sha256 {digest(path)}"]
        lines += [f"  {'ok  ' if each.ok else 'FAIL'}  {each.name}: {each.found}" for each in made]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.assets.release", description="Builds and checks a release.")
    parser.add_argument("--deb", action="store_true", help="only the .deb and what it is made of, once")
    parser.add_argument("--require-tag", metavar="TAG", help="build nothing; exit 0 if TAG may be published")
    parser.add_argument("--notes", action="store_true", help="build nothing; print the changelog of the newest release")
    arguments = parser.parse_args()
    os.umask(0o022)
    try:
        root = project_root()
        if arguments.require_tag:
            versions.require_tag(root, arguments.require_tag)
            return EXIT_PASS
        if arguments.notes:
            print(versions.notes(root))
            return EXIT_PASS
        return release(root, everything=not arguments.deb)
    except RoughwaterError as error:
        print(f"release: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageProblem) else EXIT_FAIL


def _timed(what: str, work: Callable[[], T]) -> T:
    begun = time.monotonic()
    result = work()
    progress(f"{what}: {time.monotonic() - begun:.0f} s")
    return result


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
