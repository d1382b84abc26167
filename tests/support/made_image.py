"""Container images made in a test: layers as lists of entries, as `docker save` writes them or as an OCI layout."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A member of a layer. A name that ends with a slash is a folder; `link` makes a symbolic link, `hard` a hard one."""

    name: str
    content: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    link: str = ""
    hard: str = ""


def layer(entries: Iterable[Entry]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.name.rstrip("/"))
            info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.uid, entry.gid, 1_700_000_000
            if entry.name.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, entry.mode | 0o111
            elif entry.link:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
            elif entry.hard:
                info.type, info.linkname = tarfile.LNKTYPE, entry.hard
            info.size = len(entry.content)
            tar.addfile(info, io.BytesIO(entry.content))
    return held.getvalue()


def saved(path: Path, layers: Iterable[Iterable[Entry]], config: Mapping[str, Any] | None = None) -> Path:
    """A file as `docker save` writes it."""
    with tarfile.open(path, "w") as tar:
        names = []
        for number, entries in enumerate(layers):
            names.append(f"{number}/layer.tar")
            _add(tar, names[-1], layer(entries))
        _add(tar, "config.json", json.dumps({"config": config or {}}).encode())
        _add(tar, "manifest.json", json.dumps([{"Config": "config.json", "Layers": names}]).encode())
    return path


def laid_out(folder: Path, layers: Iterable[Iterable[Entry]], config: Mapping[str, Any] | None = None) -> Path:
    """An OCI layout with compressed layers, behind an index with another platform first."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes) -> dict[str, Any]:
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    kept = [put(gzip.compress(layer(entries), mtime=0)) for entries in layers]
    manifest = {"config": put(json.dumps({"config": config or {}}).encode()), "layers": kept}
    other = {**put(b"{}"), "platform": {"os": "linux", "architecture": "arm64"}}
    own = {**put(json.dumps(manifest).encode()), "platform": {"os": "linux", "architecture": "amd64"}}
    inner = put(json.dumps({"manifests": [other, own]}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [inner]}))
    return folder


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
