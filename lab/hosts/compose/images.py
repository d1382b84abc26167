"""The container images: built from a registry's Debian or from Debian packages, saved to one file, loaded, checked.

The Dockerfiles are those of `docker compose build`. There they compile and download; this module hands them what the host has
compiled and downloaded already. `lab run` refuses an image whose recipe (`content.recipe`) is not this checkout's.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from lab.assets import engine, store, tools, uml
from lab.assets.store import Progress
from lab.hosts.compose import content, docker, lab_image
from lab.model.errors import LabFault, RoughwaterError, UsageProblem
from lab.model.files import replacing, write_faults
from lab.model.paths import shipped_root

Base: TypeAlias = Literal["auto", "registry", "packages"]
BASES: tuple[Base, ...] = get_args(Base)
State: TypeAlias = Literal["current", "outdated", "missing"]

# The router's is newer, because linux.uml needs its libc; the lab is developed on the others.
_SUITES = {"client": "bookworm", "router": "trixie", "server": "bookworm", lab_image.ROLE: lab_image.SUITE}
REMEDY = "lab images build"

NAMES = "localhost/roughwater"
# The Dockerfiles say role and base.
ROLE_LABEL = "org.roughwater.role"
RECIPE_LABEL = "org.roughwater.recipe"
BASE_LABEL = "org.roughwater.base"

_FERRY = "usr/local/bin/ferry"
# The stages of a Dockerfile that have nothing to do, because their result is in content.READY.
_READY = "engine site tree uml"
_PULL_S = 60.0
_PACKAGES_S = 1800.0
_ENGINE_S = 1800.0
_LARGEST_DESCRIPTION = 1 << 20


@dataclass(frozen=True)
class Image:
    """An image in the engine. `id` is its digest, which Compose gets and results record."""

    role: str
    name: str
    id: str
    recipe: str
    base: str
    size_bytes: int


def image_name(role: str) -> str:
    """`localhost/` is a registry that only this machine can be: no engine looks for these names on a public one."""
    return f"{NAMES}:latest" if role == lab_image.ROLE else f"{NAMES}/{role}:latest"


def _short(role: str) -> str:
    return image_name(role).partition(":")[0]


def find(role: str) -> Image | None:
    """The engine's image of that role, whatever its sources."""
    return _described(role, image_name(role))


def state(role: str, image: Image | None) -> State:
    if image is None:
        return "missing"
    return "current" if image.recipe == content.recipe(role) else "outdated"


def require_all() -> dict[str, Image]:
    """Every role's image. Raises UsageProblem when one is missing, or was made from other sources."""
    images: dict[str, Image] = {}
    for role in content.ROLES:
        image = find(role)
        if image is None:
            raise UsageProblem(f"image {_short(role)} is missing", remedy=REMEDY)
        if state(role, image) != "current":
            raise UsageProblem(f"image {_short(role)} was made from other sources than this checkout's", remedy=REMEDY)
        images[role] = image
    return images


def build(
    progress: Progress, *, base: Base = "auto", roles: Sequence[str] = content.ROLES, force: bool = False
) -> dict[str, Image]:
    """Build the images of `roles`; a current image stays, unless forced or wanted on the other base."""
    if unknown := [role for role in roles if role not in content.EVERY]:
        raise UsageProblem(f"no image is called {unknown[0]!r}", remedy=f"one of {', '.join(content.EVERY)}")
    docker.engine_version()
    # Both take the cache's lock themselves.
    if not set(content.WITH_FERRY).isdisjoint(roles):
        engine.build(progress)
    if "router" in roles:
        uml.build(progress)
    with store.locked(progress, lab_image.CACHE_PART) as cache:
        stale = [role for role in roles if force or not _is_current(role, base)]
        for role in roles:
            if role not in stale:
                progress(f"{role}: the image is current")
        registry = _registry_bases(base, stale, progress, force=force)
        for role in stale:
            with store.staging(cache, lab_image.CACHE_PART) as work:
                packages = lab_image.site(cache, progress) if role == lab_image.ROLE else None
                _build_role(role, registry, work, progress, packages=packages, force=force)
    images: dict[str, Image] = {}
    for role in roles:
        image = find(role)
        if image is None:
            raise LabFault(f"the engine does not have {image_name(role)}, which it has just built")
        progress(f"{role}: {image.size_bytes / 1e6:.0f} MB, from {image.base}, {image.id}")
        images[role] = image
    return images


def save(path: Path, progress: Progress) -> None:
    """The three images as one gzip file, for a machine without a registry. `path` is written completely or not at all."""
    if path.is_dir():
        raise UsageProblem(f"{path} is a folder", remedy="give the name of a file")
    images = require_all()
    progress(f"saving {', '.join(images)} to {path}")
    writing = write_faults(path, remedy="does the folder exist, and is there space?", fault=UsageProblem)
    with (
        writing,
        replacing(path) as staged,
        staged.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
    ):
        _export([image.name for image in images.values()], packed)
    progress(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


def load(path: Path, progress: Progress) -> dict[str, Image]:
    """Load the images of a file that `save` wrote, once the file has proven intact and from this checkout."""
    docker.engine_version()
    progress(f"checking {path}")
    found = _recipes(path)
    if missing := [role for role in content.ROLES if role not in found]:
        raise UsageProblem(f"{path} has no image of the {' and the '.join(missing)}", remedy="make it with lab images save")
    if other := [role for role in content.ROLES if found[role] != content.recipe(role)]:
        raise UsageProblem(
            f"{path}: its {other[0]} was made from other sources than this checkout's", remedy="save it again from this revision"
        )
    progress("loading it into the engine")
    docker.docker("load", "-q", "-i", str(path), timeout_s=_ENGINE_S)
    return require_all()


def _described(role: str, name: str) -> Image | None:
    known = docker.inspect("image", name)
    if known is None:
        return None
    labels: dict[str, str] = known["Config"].get("Labels") or {}
    mine = labels if labels.get(ROLE_LABEL) == role else {}
    made_of = mine.get(RECIPE_LABEL) or (_recipe_inside(known["Id"]) if mine else "")
    return Image(role, name, known["Id"], made_of, mine.get(BASE_LABEL, ""), known["Size"])


def _recipe_inside(image_id: str) -> str:
    """The recipe of an image that Compose has built, which has the file and no label."""
    words = ("run", "--rm", "--network", "none", "--cap-drop", "ALL", "--entrypoint", "/bin/cat", image_id, f"/{content.RECIPE}")
    return docker.docker(*words, check=False).stdout.decode(errors="replace").strip()


def _is_current(role: str, base: Base) -> bool:
    image = find(role)
    same_base = base == "auto" or (image is not None and image.base.startswith(_base_label(role, base)))
    return same_base and state(role, image) == "current"


def _base_label(role: str, base: Base) -> str:
    return f"debian:{_SUITES[role]}-slim" if base == "registry" else f"packages of Debian {_SUITES[role]}"


def _is_of_packages(role: str) -> bool:
    image = find(role)
    return image is not None and image.base == _base_label(role, "packages")


def _registry_bases(base: Base, roles: Sequence[str], progress: Progress, *, force: bool) -> dict[str, str]:
    """Suite -> image with its digest; empty when the bases come from packages. All roles use the same kind."""
    if base == "packages" or not roles:
        return {}
    if base == "auto" and not force and all(_is_of_packages(role) for role in roles):
        progress("base: root file systems of Debian packages, as before")
        return {}
    bases: dict[str, str] = {}
    for suite in sorted({_SUITES[role] for role in roles}):
        name = f"debian:{suite}-slim"
        try:
            known = None if force else docker.inspect("image", name)
            progress(f"base: {name} is here" if known else f"base: asking the registry for {name}")
            if known is None:
                docker.docker("pull", "-q", name, timeout_s=_PULL_S)
                known = docker.inspect("image", name)
        except RoughwaterError as refused:
            if base == "registry":
                raise LabFault(f"no {name} from a registry: {refused.message}", remedy="--base packages needs none") from None
            progress(f"base: root file systems of Debian packages, because there is no {name}: {refused.message}")
            return {}
        digests: list[str] = (known or {}).get("RepoDigests") or []
        bases[suite] = f"{name}@{digests[0].partition('@')[2]}" if digests else name
    return bases


def _build_role(
    role: str, registry: Mapping[str, str], work: Path, progress: Progress, *, packages: Path | None, force: bool
) -> None:
    if registry:
        label = registry[_SUITES[role]]
        base = label.partition("@")[0]
    else:
        label = _base_label(role, "packages")
        base = _packages_base(role, work, progress, force=force)
    progress(f"{role}: building the image")
    context = work / "context"
    content.write(context, {f"{name}/keep": b"" for name in content.FOLDERS if name != f"{content.READY}/tree"})
    ready = context / content.READY
    content.write(ready / "tree", content.tree(role))
    _add_programs(role, ready / "tree", work)
    content.write(context, content.scripts(role))
    if packages:
        shutil.copytree(packages, ready / "site", dirs_exist_ok=True)
    _docker_build(
        context,
        image_name(role),
        {RECIPE_LABEL: content.recipe(role), BASE_LABEL: label},
        [
            *("--file", str(context / "images" / role / "Dockerfile")),
            *("--build-arg", f"BASE={base}", "--build-arg", f"READY={_READY}"),
        ],
        network=bool(registry),
        force=force,
    )


def _add_programs(role: str, tree: Path, work: Path) -> None:
    copies: dict[str, Path] = {}
    if role in content.WITH_FERRY:
        copies[_FERRY] = _stripped(engine.program(), work / "ferry")
    if role == "router":
        asset = uml.find()
        if asset is None:
            raise LabFault("the UML router is missing or damaged", remedy="make setup builds it")
        copies = {uml.KERNEL: asset.kernel, uml.INITRD: asset.initrd}
    for place, source in copies.items():
        target = tree / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _stripped(program: Path, target: Path) -> Path:
    """Symbols are three quarters of a release build. The build itself keeps them."""
    strip = shutil.which("strip")
    if strip and store.run([strip, "-o", target, program])[0] == 0:
        return target
    return program


def _packages_base(role: str, work: Path, progress: Progress, *, force: bool) -> str:
    """A root file system that holds the role's packages, as an image; reused while its list is the same."""
    name = f"{NAMES}/base-{role}:latest"
    parts = _make(role)
    own = (shipped_root() / "images" / "base" / "Dockerfile").read_bytes()
    made_of = content.digest({**parts, "Dockerfile": own, "suite": _SUITES[role].encode()})
    known = None if force else _described(role, name)
    if known and known.recipe == made_of:
        return name
    context = work / "base"
    content.write(context, {"Dockerfile": own})
    progress(f"{role}: making a root file system of Debian {_SUITES[role]}'s packages")
    _bootstrap(_SUITES[role], parts, work, context / "rootfs.tar")
    _docker_build(context, name, {ROLE_LABEL: role, RECIPE_LABEL: made_of}, [], network=False, force=force)
    shutil.rmtree(context)
    return name


def _make(role: str) -> dict[str, bytes]:
    """The files on which the making of a root file system depends."""
    made = content.scripts(role)
    places = {"packages": f"images/{role}/packages", **{name: f"images/base/{name}" for name in ("excludes", "install")}}
    return {f"make/{name}": made[place] for name, place in places.items()}


def _bootstrap(suite: str, parts: Mapping[str, bytes], work: Path, archive: Path) -> None:
    """Make a root file system without apt and without files of this machine."""
    mmdebstrap = tools.require("mmdebstrap")
    make = work / "make"
    content.write(make, {place.removeprefix("make/"): part for place, part in parts.items()})
    wanted = [name for line in parts["make/packages"].decode().splitlines() for name in line.partition("#")[0].split()]
    options = {"Acquire::Retries": "2", "Acquire::http::Timeout": "20", "APT::Install-Recommends": "false"}
    code, output = store.run(
        [
            mmdebstrap,
            "--variant=essential",
            "--format=tar",
            "--skip=output/dev",
            *(f'--aptopt={name} "{value}"' for name, value in options.items()),
            f"--dpkgopt={make / 'excludes'}",
            f"--include={','.join(wanted)}",
            f"--customize-hook=copy-in {make} /",
            '--customize-hook=chroot "$1" sh /make/install',
            '--customize-hook=rm -r "$1/make"',
            '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname" "$1"/etc/*/*.d/99mmdebstrap',
            suite,
            archive,
        ],
        timeout_s=_PACKAGES_S,
        scratch=work,
    )
    if code != 0:
        raise LabFault(
            f"mmdebstrap cannot make a root file system of Debian {suite}: {store.reason(output)}",
            remedy="is the Debian mirror reachable?",
        )


def _docker_build(
    context: Path, name: str, labels: Mapping[str, str], words: Sequence[str], *, network: bool, force: bool
) -> None:
    before = docker.inspect("image", name)
    docker.docker(
        "build",
        "--quiet",
        "--force-rm",
        *(() if network else ("--network", "none")),  # proves that nothing is fetched
        *(("--no-cache",) if force else ()),
        *(word for key, value in labels.items() for word in ("--label", f"{key}={value}")),
        *words,
        "--tag",
        name,
        str(context),
        timeout_s=_ENGINE_S,
    )
    after = docker.inspect("image", name)
    # The old image has lost its name. The engine keeps it while a container or another image uses it.
    if before and after and before["Id"] != after["Id"]:
        docker.docker("image", "rm", before["Id"], check=False)


def _export(names: Sequence[str], into: gzip.GzipFile) -> None:
    """Write the output of `docker save`, piped because the images are too large for memory."""
    program = shutil.which("docker") or "docker"
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [program, "save", *names], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints
        ) as saving,
    ):
        assert saving.stdout is not None
        try:
            shutil.copyfileobj(saving.stdout, into, 1 << 20)
        except BaseException:
            saving.kill()
            raise
        if saving.wait():
            complaints.seek(0)
            raise docker.refusal("docker save", complaints.read().decode(errors="replace"))


def _recipes(path: Path) -> dict[str, str]:
    """Role -> recipe of the images in an archive. Reading it to the end checks its checksum."""
    descriptions: dict[str, Any] = {}
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    if member.isfile() and member.size < _LARGEST_DESCRIPTION and (content := archive.extractfile(member)):
                        data = content.read()
                        if data[:1] in (b"{", b"["):
                            descriptions[member.name] = json.loads(data)
            while stream.read(1 << 20):
                pass
        configs = [descriptions[each["Config"]] for each in descriptions["manifest.json"] if _is_ours(each["RepoTags"] or [])]
        labels = [config["config"].get("Labels") or {} for config in configs]
    except FileNotFoundError:
        raise UsageProblem(f"there is no {path}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError):
        raise UsageProblem(f"{path} is damaged, or not written by lab images save") from None
    except OSError as error:
        raise UsageProblem(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageProblem(f"{path} is not an archive of container images", remedy="make it with lab images save") from None
    return {each[ROLE_LABEL]: each[RECIPE_LABEL] for each in labels if ROLE_LABEL in each and RECIPE_LABEL in each}


def _is_ours(tags: Sequence[str]) -> bool:
    return any(re.sub(r"^docker\.io/", "", tag) in map(image_name, content.ROLES) for tag in tags)
