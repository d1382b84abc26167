"""Checks of what a release consists of. Each returns a Check; none raises for a bad artefact."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.assets.release import inventory
from lab.assets.release.packages import MANYLINUX, wheel_of_sdist
from lab.assets.release.workshop import Workshop, tail
from lab.model.files import digest

SUMS = "SHA256SUMS"
# The places in the wheel of the folders and files of a checkout that a lab needs. They are written down a second time on purpose:
# pyproject.toml says what the wheel gets, this table what it must have.
MUST_SHIP = {
    "lab/": "lab/",
    "reports/": "reports/",
    "images/": "lab/shipped/images/",
    "suites/": "lab/shipped/suites/",
    "topologies/": "lab/shipped/topologies/",
    "Vagrantfile": "lab/shipped/Vagrantfile",
    "docker-compose.yml": "lab/shipped/docker-compose.yml",
    "requirements.lock": "lab/shipped/requirements.lock",
}
# Works in a checkout only.
MAY_LACK = ("lab/assets/release/",)


@dataclass(frozen=True)
class Check:
    """`name` is the program or the question, `found` one line of what it says."""

    name: str
    ok: bool
    found: str


def version_of_wheel(wheel: Path, version: str) -> Check:
    """Check that name, metadata and the project agree on the version."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next((name for name in archive.namelist() if name.endswith(".dist-info/METADATA")), "")
        text = archive.read(metadata).decode() if metadata else ""
    found = re.search(r"^Version: (\S+)$", text, re.MULTILINE)
    inside, named = found[1] if found else "none", wheel.name.split("-")[1]
    return Check("version", inside == named == version, f"metadata {inside}, file name {named}, project {version}")


def contents(wheel: Path, tracked: Iterable[str]) -> Check:
    """Check that the lab's wheel has every file of the commit that an installed lab may need."""
    wanted = set[str]()
    for name in tracked:
        prefix = next((each for each in MUST_SHIP if name.startswith(each)), "")
        if prefix and not name.startswith(MAY_LACK):
            wanted.add(MUST_SHIP[prefix] + name.removeprefix(prefix))
    with zipfile.ZipFile(wheel) as archive:
        lacking = sorted(wanted - set(archive.namelist()))
    absent = [place for place in MUST_SHIP.values() if not any(each.startswith(place) for each in wanted)]
    if lacking or absent:
        first = (lacking or absent)[0]
        return Check("contents", False, f"{len(lacking)} files of the commit are missing, {first} for example")
    return Check("contents", True, f"all {len(wanted)} files of the commit that an installed lab needs")


def twine(shop: Workshop, path: Path) -> Check:
    code, output = shop.ask(["twine", "--no-color", "check", "--strict", path])
    return Check("twine check", code == 0, "PASSED" if code == 0 else _last(output))


def wheel_contents(shop: Workshop, wheel: Path) -> Check:
    code, output = shop.ask(["check-wheel-contents", "--config", shop.root / "pyproject.toml", wheel])
    return Check("check-wheel-contents", code == 0, _last(output).rpartition(": ")[2])


def manylinux(shop: Workshop, wheel: Path) -> Check:
    """Check that the wheel's tag is true: auditwheel reads the symbols that the wheel's program takes from glibc."""
    code, output = shop.ask(["auditwheel", "show", wheel])
    said = " ".join(output.split())
    found = re.search(r'following platform tag: "(\w+)"', said)
    tag = found[1] if found else ""
    policy = re.match(r"manylinux_(\d+)_(\d+)_x86_64", tag)
    claimed = re.match(r"manylinux_(\d+)_(\d+)", MANYLINUX)
    true = bool(policy and claimed and _numbers(policy) <= _numbers(claimed)) and MANYLINUX in wheel.name
    return Check("auditwheel show", code == 0 and true, tag or _last(output))


def sdist_gives_the_wheel(shop: Workshop, sdist: Path, wheel: Path, work: Path) -> Check:
    again = wheel_of_sdist(shop, sdist, work)
    equal = digest(again) == digest(wheel)
    return Check("builds the wheel", equal, "the same bytes" if equal else f"another wheel: {digest(again)}")


def lintian(shop: Workshop, deb: Path) -> Check:
    """Errors and warnings fail; what the package overrides is in lab/assets/release/debian/lintian-overrides, with its reason."""
    code, output = shop.ask(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", deb])
    findings = re.findall(r"^[EW]: .*$", output, re.MULTILINE)
    if code == 0 and not findings:
        return Check("lintian", True, "no error, no warning")
    return Check("lintian", False, f"{len(findings)} findings:\n{tail(output, 40)}")


def inventory_of_lab(path: Path, lock: str) -> Check:
    wanted, found = inventory.locked(inventory.dependencies(lock)), inventory.components(path)
    return _same_components(found, wanted, "requirements.lock")


def inventory_of_ferry(path: Path, lock: str) -> Check:
    """Each component must be a crate of Cargo.lock, in that version."""
    names = re.findall(r'^name = "(.+)"\nversion = "(.+)"$', lock, re.MULTILINE)
    found = inventory.components(path)
    strange = [f"{name} {version}" for name, version in found.items() if (name, version) not in names]
    if strange or not found:
        return Check("components", False, f"not in Cargo.lock: {', '.join(strange) or 'all'}")
    return Check("components", True, f"{len(found)} crates of Cargo.lock")


def write_sums(folder: Path) -> Path:
    """SHA256SUMS of every file in the folder, in the format of `sha256sum --check`."""
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.name != SUMS]
    made = folder / SUMS
    made.write_text("".join(lines), encoding="ascii")
    return made


def sums(folder: Path) -> Check:
    """Check that SHA256SUMS has every file of its folder, and that each file has its digest."""
    lines = [line.split("  ", 1) for line in (folder / SUMS).read_text(encoding="ascii").splitlines()]
    entries = {name: expected for expected, name in lines}
    present = {path.name for path in folder.iterdir()} - {SUMS}
    wrong = [name for name in entries if name not in present or digest(folder / name) != entries[name]]
    wrong += [f"{name} (no digest)" for name in sorted(present - entries.keys())]
    return Check("digests", not wrong, f"{len(entries)} files match" if not wrong else f"do not match: {', '.join(wrong)}")


def reproduced(first: Path, second: Path) -> Check:
    """Check that a build from another clone gave the same bytes."""
    if not second.exists():
        return Check("second build", False, f"made no {second.name}")
    equal = digest(first) == digest(second)
    return Check("second build", equal, "the same bytes" if equal else f"other bytes: {digest(second)}")


def _same_components(found: dict[str, str], wanted: dict[str, str], source: str) -> Check:
    differing = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    if differing:
        return Check("components", False, f"differ from {source}: {', '.join(differing)}")
    return Check("components", bool(found), f"the {len(found)} packages of {source}")


def _numbers(policy: re.Match[str]) -> tuple[int, int]:
    return int(policy[1]), int(policy[2])


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
