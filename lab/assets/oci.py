"""Container images as roots: what `docker save` writes, or an OCI layout (a folder, or a tar of one), unpacked into the cache.

No engine and no right is needed. Layers are laid over each other by the rules of the OCI image specification (layer.md):
`.wh.NAME` removes, `.wh..wh..opq` empties. A path in a layer may go through links of the root, as it would in a container,
and never leaves it. Owners are kept as a list, because an ordinary user cannot set them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from lab.assets import store
from lab.assets.store import Progress
from lab.model.errors import UsageProblem
from lab.model.files import digest
from lab.model.image import ImageConfig, Owner
from lab.model.paths import cache_dir

PREFIX = "image:"
"""Before the path of an image, where a userland is named."""
_REMOVED, _EMPTIED = ".wh.", ".wh..wh..opq"
_LAYOUT = 1
_MOST_LINKS = 40
_CONFIG = "image.json"
_PLATFORM = ("linux", "amd64")
_REMEDY = "write it with docker save -o FILE IMAGE"
Read = Callable[[str], BinaryIO]


def unpack(path: Path, progress: Progress) -> tuple[Path, ImageConfig]:
    """The root of an image and its configuration, unpacked at its first use. Raises UsageProblem for any other file."""
    place = cache_dir() / f"image-{_digest_of(path)[:24]}-{_LAYOUT}"
    with store.locked(progress, place.name) as cache:
        if not (place / store.MANIFEST).is_file():
            progress(f"unpacking the image {path.name}")
            with store.staging(cache, place.name) as work, _reading(path) as read:
                tree = work / "tree"
                (tree / "root").mkdir(parents=True)
                config = _unpack(read, tree / "root", path)
                (tree / _CONFIG).write_text(json.dumps(asdict(config)), encoding="utf-8")
                store.write_manifest(tree, {"image": path.name}, {_CONFIG: digest(tree / _CONFIG)})
                store.publish(tree, place)
    return place / "root", _config_of(json.loads((place / _CONFIG).read_text(encoding="utf-8")))


def _config_of(kept: Mapping[str, Any]) -> ImageConfig:
    owners = tuple(Owner(**each) for each in kept["owners"])
    return ImageConfig(**{**kept, "argv": tuple(kept["argv"]), "ports": tuple(kept["ports"]), "owners": owners})


def _digest_of(path: Path) -> str:
    """The digest of a tar; of a layout's folder that of its index, which has the digests of all else."""
    file = path / "index.json" if path.is_dir() else path
    try:
        return _digest(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise UsageProblem(f"image {path} cannot be read: {error.strerror}", remedy=_REMEDY) from None


@cache
def _digest(file: Path, mtime_ns: int) -> str:
    """A run asks for its image once per cell."""
    del mtime_ns
    return digest(file)


@contextmanager
def _reading(path: Path) -> Iterator[Read]:
    """Opens members of the image by their names."""
    with ExitStack() as opened:
        if path.is_dir():
            yield lambda name: opened.enter_context((path / name).open("rb"))
            return
        try:
            archive = opened.enter_context(tarfile.open(path))
        except (tarfile.TarError, OSError):
            raise UsageProblem(f"image {path} is not a tar", remedy=_REMEDY) from None

        def read(name: str) -> BinaryIO:
            try:
                member = archive.extractfile(name)
            except KeyError:
                raise FileNotFoundError(name) from None
            if member is None:
                raise FileNotFoundError(name)
            return cast("BinaryIO", member)

        yield read


def _json(read: Read, name: str) -> Any:
    return json.load(read(name))


def _blob(described: Mapping[str, Any]) -> str:
    return f"blobs/{str(described['digest']).replace(':', '/')}"


def _parts(read: Read) -> tuple[Mapping[str, Any], list[str]]:
    """The image's configuration and the names of its layers, lowest first. Raises OSError, ValueError, KeyError, IndexError."""
    try:
        first = _json(read, "manifest.json")[0]
        return _json(read, first["Config"]), list(first["Layers"])
    except FileNotFoundError:
        manifest = _manifest(read, _json(read, "index.json"))
        return _json(read, _blob(manifest["config"])), [_blob(layer) for layer in manifest["layers"]]


def _manifest(read: Read, index: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest of this machine's kind, or the only one; an index may be of indexes."""
    listed = index["manifests"]
    found = next(
        (
            each
            for each in listed
            if (platform := each.get("platform")) and (platform.get("os"), platform.get("architecture")) == _PLATFORM
        ),
        listed[0],
    )
    manifest = cast("Mapping[str, Any]", _json(read, _blob(found)))
    return _manifest(read, manifest) if "manifests" in manifest else manifest


def _unpack(read: Read, root: Path, path: Path) -> ImageConfig:
    try:
        config, layers = _parts(read)
        tree = _Tree(root)
        for name in layers:
            with tarfile.open(fileobj=read(name)) as layer:
                tree.add(layer)
    except tarfile.TarError as error:
        why = str(error).partition("\n")[0]
        raise UsageProblem(f"image {path}: a layer cannot be read: {why}", remedy=_REMEDY) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageProblem(f"image {path}: neither docker's nor an OCI layout: {error}", remedy=_REMEDY) from None
    tree.finish()
    told = config.get("config") or {}
    uid, gid = _user(root, str(told.get("User") or ""), path)
    return ImageConfig(
        argv=(*(told.get("Entrypoint") or ()), *(told.get("Cmd") or ())),
        environment=dict(each.partition("=")[::2] for each in told.get("Env") or ()),
        folder=told.get("WorkingDir") or "/",
        uid=uid,
        gid=gid,
        ports=tuple(sorted(int(port.partition("/")[0]) for port in told.get("ExposedPorts") or () if not port.endswith("/udp"))),
        owners=tuple(tree.owners()),
    )


class _Tree:
    """A root to which layers are added."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modes: dict[Path, int] = {}
        self._owned: dict[str, tuple[int, int]] = {}

    def add(self, layer: tarfile.TarFile) -> None:
        """Removals first: they are of the layers below."""
        members = layer.getmembers()
        for member in members:
            *folders, name = _split(member.name) or [""]
            if name == _EMPTIED:
                place = self._resolve(folders)
                for each in place.iterdir() if place.is_dir() else ():
                    _remove(each)
            elif name.startswith(_REMOVED):
                _remove(self._resolve(folders) / name.removeprefix(_REMOVED))
        for member in members:
            if not member.name.rpartition("/")[2].startswith(_REMOVED):
                self._put(layer, member)

    def _put(self, layer: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = _split(member.name)
        if ".." in parts:
            raise ValueError(f"{member.name} leaves the image")
        if not parts:
            return
        folder = self._resolve(parts[:-1])
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / parts[-1]
        if member.isdir():
            if place.is_symlink() or not place.is_dir():
                _remove(place)
                place.mkdir()
            place.chmod(0o700)
            self._modes[place] = member.mode & 0o7777
        elif member.issym():
            _remove(place)
            place.symlink_to(member.linkname)
        elif member.islnk():
            _remove(place)
            place.hardlink_to(self._resolve(_split(member.linkname)))
        elif member.isfile():
            _remove(place)
            content = layer.extractfile(member)
            assert content is not None
            with place.open("wb") as file:
                shutil.copyfileobj(content, file)
            place.chmod(member.mode & 0o7777 | 0o400)
            os.utime(place, (member.mtime, member.mtime))
        else:
            return
        self._owned[str(place.relative_to(self._root))] = (member.uid, member.gid)

    def _resolve(self, parts: Sequence[str]) -> Path:
        """The path of a folder as a program with this root would reach it."""
        place, left, links = self._root, [*parts], 0
        while left:
            part = left.pop(0)
            if part == "..":
                place = place if place == self._root else place.parent
                continue
            if (place / part).is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    raise ValueError(f"{'/'.join(parts)} has too many links")
                target = os.readlink(place / part)  # noqa: PTH115 - as it is written
                place = self._root if target.startswith("/") else place
                left = _split(target) + left
                continue
            place /= part
        return place

    def finish(self) -> None:
        """Give folders their modes, deepest first. The owner keeps the rights to look and to tidy up."""
        for folder, mode in sorted(self._modes.items(), reverse=True):
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(mode | 0o700)

    def owners(self) -> Iterator[Owner]:
        for path, (uid, gid) in sorted(self._owned.items()):
            if (uid or gid) and os.path.lexists(self._root / path):
                yield Owner(path, uid, gid)


def _split(path: str) -> list[str]:
    """The parts of a path in an image."""
    return [part for part in path.split("/") if part not in ("", ".")]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _user(root: Path, told: str, path: Path) -> tuple[int, int]:
    """The ids of `USER` or `USER:GROUP`, by number or by the image's own names; root where it names none."""
    user, _, group = told.partition(":")
    if not user:
        return 0, 0
    uid, gid = _ids(root / "etc/passwd", user, 2, 3)
    if group:
        gid, _ = _ids(root / "etc/group", group, 2, 2)
    if uid is None or gid is None:
        raise UsageProblem(f"image {path}: its user {told} is not in its /etc/passwd", remedy="name a number, or add the user")
    return uid, gid


def _ids(file: Path, name: str, *columns: int) -> tuple[int | None, int | None]:
    """Two columns of the line of that name; a number is its own, with the same number's line for the second."""
    with_number = [line.split(":") for line in file.read_text().splitlines()] if file.is_file() else []
    rows = [row for row in with_number if len(row) > max(columns) and name in (row[0], row[2])]
    if rows:
        return int(rows[0][columns[0]]), int(rows[0][columns[1]])
    return (int(name), 0) if name.isdigit() else (None, None)


def config_digest(config: ImageConfig) -> str:
    """SHA-256 of how the image runs."""
    return hashlib.sha256(json.dumps(asdict(config), sort_keys=True).encode()).hexdigest()
