"""The configuration of a container image: its command, user and owners. Standard library only: the lab's images ship it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Owner:
    """A file of the image that is not root's. `path` is below the root, without a slash before it."""

    path: str
    uid: int
    gid: int


@dataclass(frozen=True)
class ImageConfig:
    """`argv` is the entry point with its command; `folder` the working folder; `ports` those that it exposes over TCP."""

    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    uid: int = 0
    gid: int = 0
    ports: tuple[int, ...] = ()
    owners: tuple[Owner, ...] = ()
