"""Userlands: root folders of systems. Debian's are built from packages into the cache; any other is a folder of the user's.

mmdebstrap installs the packages and hands over a tar, which is unpacked without owners: in virtual time the lab's user reads it.
apt checks Debian's signatures and digests. The manifest has the version and the digest of every package.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.assets import oci, store, userland_packages
from lab.assets.store import Progress
from lab.assets.tools import require
from lab.model.errors import LabFault, UsageProblem, did_you_mean
from lab.model.files import digest
from lab.model.image import ImageConfig
from lab.model.paths import cache_dir
from lab.model.userland import UserlandFacts

MIRROR = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"
_PACKAGES = ("aria2", "curl", "lftp", "nginx", "openssh-client", "openssh-server", "time", "wget", "wget2")
# A guest has its own, or no client's program reads them.
_NOT_KEPT = ("./dev", "./proc", "./run", "./sys", "./tmp", "./var/cache", "./var/lib/apt")
_LAYOUT = 1  # raise when a root changes in a way that the recipe does not show
_BUILD_S = 1800
_APK = "lib/apk/db/installed"


@dataclass(frozen=True)
class Recipe:
    """A userland that the lab builds."""

    name: str
    suite: str
    packages: tuple[str, ...]

    @property
    def place(self) -> Path:
        recipe = "\n".join((self.suite, *self.packages, *_NOT_KEPT, *userland_packages.NOT_WANTED, str(_LAYOUT)))
        name = self.name.replace(":", "-")
        return cache_dir() / f"userland-{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


RECIPES = {
    recipe.name: recipe
    for recipe in (Recipe("debian:12", "bookworm", _PACKAGES), Recipe("debian:13", "trixie", (*_PACKAGES, "python3-aioquic")))
}


@dataclass(frozen=True)
class Userland:
    """A root, and for a container image how it runs. The root of an image can be written to, in memory."""

    root: Path
    facts: UserlandFacts
    image: ImageConfig | None = None

    @property
    def name(self) -> str:
        return self.facts.name


def get(name: str, progress: Progress) -> Userland:
    """The userland of that name, built at its first use, or the folder at that path.

    Raises UsageProblem for an unknown name or folder, LabFault where it cannot be built.
    """
    if name.startswith(oci.PREFIX):
        return _image(name, progress)
    base, _, added = name.partition(userland_packages.MARK)
    if added and base in RECIPES:
        return _with_packages(name, get(base, progress), added.split(userland_packages.MARK), progress)
    if name not in RECIPES:
        return _folder(name)
    return find(name) or build(name, progress)


def _image(name: str, progress: Progress) -> Userland:
    """The root of a container image. Raises UsageProblem for a file that is not an image."""
    path = Path(name.removeprefix(oci.PREFIX)).expanduser()
    root, config = oci.unpack(path, progress)
    return Userland(root, _image_facts(root, path.name, oci.config_digest(config)), config)


@cache
def _image_facts(root: Path, name: str, config_digest: str) -> UserlandFacts:
    """The facts of an unpacked image; all its files are read once per process."""
    whole = hashlib.sha256(f"{tree_digest(root)} {config_digest}".encode()).hexdigest()
    return UserlandFacts(name=f"{oci.PREFIX}{name}", distribution=distribution(root), digest=whole, packages=package_list(root))


def _with_packages(name: str, base: Userland, packages: Sequence[str], progress: Progress) -> Userland:
    """A userland of the lab with more packages, made at its first use.

    Raises as `build`, and UsageProblem for an unknown package.
    """
    place = userland_packages.place_of(base.facts.digest, name)
    with store.locked(progress, place.name) as cache:
        if not (place / store.MANIFEST).is_file():
            progress(f"adding packages to the userland {base.name}: {', '.join(packages)}")
            with store.staging(cache, place.name) as work:
                root = work / "tree" / "root"
                root.parent.mkdir()
                userland_packages.copy_root(base.root, root)
                sums = userland_packages.extract_into(root, _sources(RECIPES[base.name].suite), packages, work, progress)
                facts = UserlandFacts(
                    name=name, distribution=base.facts.distribution, digest=tree_digest(root), packages=package_list(root)
                )
                store.write_manifest(
                    root.parent,
                    {"userland": facts.model_dump(), "sha256": sums},
                    {userland_packages.STATUS: digest(root / userland_packages.STATUS)},
                )
                store.publish(root.parent, place)
            _load.cache_clear()
    return _load(place)


def find(name: str) -> Userland | None:
    """A built userland; None where it is not in the cache."""
    place = RECIPES[name].place
    return _load(place) if (place / store.MANIFEST).is_file() else None


def build(name: str, progress: Progress, *, force: bool = False) -> Userland:
    """Build it, unless it is in the cache (or if forced, with today's packages)."""
    recipe = RECIPES[name]
    mmdebstrap = require("mmdebstrap")
    with store.locked(progress, recipe.place.name) as cache:
        if not force and (ready := find(name)):
            return ready
        progress(f"building the userland {name} from Debian's packages (about 100 MB to download)")
        with store.staging(cache, recipe.place.name) as work:
            records = work / "records"
            _bootstrap(mmdebstrap, recipe, work / "root.tar", records)
            tree = work / "tree"
            _unpack(work / "root.tar", tree / "root")
            root = tree / "root"
            installed = package_list(root)
            facts = UserlandFacts(
                name=name, distribution=distribution(root), digest=tree_digest(root), packages=installed
            ).model_dump()
            sums = package_sums(records.read_text(errors="replace"), installed)
            store.write_manifest(
                tree, {"userland": facts, "sha256": sums}, {userland_packages.STATUS: digest(root / userland_packages.STATUS)}
            )
            store.publish(tree, recipe.place)
        _load.cache_clear()
    found = _load(recipe.place)
    progress(f"{name}: {found.facts.distribution}, {len(found.facts.packages)} packages, digest {found.facts.digest[:12]}")
    return found


@cache
def _load(place: Path) -> Userland:
    """A userland of the cache. Its digest was taken when it was built. Raises LabFault where its manifest cannot be read."""
    import json

    try:
        facts = UserlandFacts.model_validate(json.loads((place / store.MANIFEST).read_text())["userland"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabFault(f"the userland in {place} cannot be read: {error}", remedy="lab userland build --force") from None
    return Userland(place / "root", facts)


@cache
def _folder(text: str) -> Userland:
    root = Path(text).expanduser()
    if not root.is_dir():
        hint = "" if "/" in text else did_you_mean(text, RECIPES)
        raise UsageProblem(
            f"no userland {text!r}{hint}", remedy=f"known: {', '.join(RECIPES)}; or give the path of a root folder"
        )
    root = root.resolve()
    if not any((root / name).exists() for name in ("bin", "usr/bin")):
        raise UsageProblem(f"{root} is not the root of a system: it has neither bin nor usr/bin", remedy="give an unpacked root")
    try:
        facts = UserlandFacts(name=text, distribution=distribution(root), digest=tree_digest(root), packages=package_list(root))
    except OSError as error:
        raise UsageProblem(f"userland {text}: {error.filename} cannot be read: {error.strerror}") from None
    return Userland(root, facts)


def _bootstrap(mmdebstrap: Path, recipe: Recipe, archive: Path, records: Path) -> None:
    options = {"Acquire::Retries": "2", "Acquire::http::Timeout": "20", "APT::Install-Recommends": "false"}
    code, output = store.run(
        [
            mmdebstrap,
            "--variant=apt",
            "--format=tar",
            "--skip=output/dev",
            *(f'--aptopt={name} "{value}"' for name, value in options.items()),
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in userland_packages.NOT_WANTED),
            f"--include={','.join(recipe.packages)}",
            f'--customize-hook=chroot "$1" apt-cache dumpavail >{records}',
            recipe.suite,
            archive,
            *_sources(recipe.suite),
        ],
        timeout_s=_BUILD_S,
        scratch=archive.parent,
    )
    if code != 0:
        raise LabFault(
            f"cannot build the userland {recipe.name}: {store.reason(output)}", remedy="is the Debian mirror reachable?"
        )


def _sources(suite: str) -> tuple[str, ...]:
    """Lines of apt's sources.list."""
    return (f"deb {MIRROR} {suite} main", f"deb {MIRROR} {suite}-updates main", f"deb {SECURITY} {suite}-security main")


def _unpack(archive: Path, root: Path) -> None:
    root.mkdir(parents=True)
    excluded = [f"--exclude={name}/*" for name in _NOT_KEPT]
    code, output = store.run(["tar", "-xf", archive, "-C", root, "--no-same-owner", "--no-same-permissions", *excluded])
    if code != 0:
        raise LabFault(f"the userland cannot be unpacked: {store.reason(output)}", remedy="free some space")
    for path in root.rglob("*"):  # what only root may read, a cell of another user could not
        if not path.is_symlink() and (missing := (0o555 if path.is_dir() else 0o444) & ~path.stat().st_mode):
            path.chmod(path.stat().st_mode | missing)


def distribution(root: Path) -> str:
    """PRETTY_NAME of os-release."""
    for name in ("etc/os-release", "usr/lib/os-release"):
        try:
            text = (root / name).read_text(errors="replace")
        except OSError:
            continue
        if match := re.search(r'^PRETTY_NAME="?([^"\n]*)"?$', text, re.MULTILINE):
            return match[1]
    return ""


def package_list(root: Path) -> dict[str, str]:
    """Versions by name, from dpkg's list or apk's; empty for a root without one of them."""
    if (root / userland_packages.STATUS).is_file():
        found = _paragraphs((root / userland_packages.STATUS).read_text(errors="replace"), "Package", "Version", "Status")
        return dict(sorted((name, version) for name, version, status in found if status == "install ok installed"))
    if (root / _APK).is_file():
        return dict(sorted((name, version) for name, version in _paragraphs((root / _APK).read_text(errors="replace"), "P", "V")))
    return {}


def package_sums(records: str, installed: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of the installed packages' files, from apt's records."""
    found = _paragraphs(records, "Package", "Version", "SHA256")
    return dict(sorted((name, sum_) for name, version, sum_ in found if sum_ and installed.get(name) == version))


def _paragraphs(text: str, *fields: str) -> Iterator[tuple[str, ...]]:
    """The values of these fields for each paragraph that has the first field; a missing field is empty."""
    for paragraph in text.split("\n\n"):
        lines = (line.partition(":") for line in paragraph.splitlines() if not line.startswith((" ", "\t")))
        found = {name: value.strip() for name, _, value in lines}
        if fields[0] in found:
            yield tuple(found.get(field, "") for field in fields)


def tree_digest(root: Path) -> str:
    """SHA-256 over the paths, links and contents of all files, in the order of their paths. Raises OSError."""
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            whole.update(f"{name} -> {path.readlink()}\n".encode(errors="surrogateescape"))
        elif path.is_file():
            whole.update(f"{name} {digest(path)}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()
