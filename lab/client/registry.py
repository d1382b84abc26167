"""From what the user wrote (`ferry`, `curl`, `/opt/curl-8/bin/curl`, `curl-8.5=/opt/...`) to the adapter that speaks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import PurePath

from lab.client.adapter import ClientAdapter
from lab.client.curl import Curl
from lab.client.ferry import Ferry
from lab.client.lftp import Lftp
from lab.client.openssh import OpenSsh
from lab.client.rclone import Rclone
from lab.errors import UsageProblem
from lab.spec.models import ClientSpec

# In the order in which they are named to the user: the lab's own first.
_ADAPTERS: dict[str, Callable[[str, str], ClientAdapter]] = {
    "ferry": Ferry,
    "curl": Curl,
    "openssh": OpenSsh,
    "lftp": Lftp,
    "rclone": Rclone,
}
# What a program's file is called, where that is not the client's name.
_FILES = {"sftp": "openssh"}


def adapter_for(name: str, path: str = "") -> ClientAdapter:
    """The adapter whose name begins `name`, or else the file's own name. Raises UsageProblem for a client nobody knows."""
    for known, make in _ADAPTERS.items():
        if any(_is(known, _FILES.get(candidate, candidate)) for candidate in (name, PurePath(path).name)):
            # A command runs in its host's own folder: a relative path means the one where the user typed it.
            return make(name, os.path.abspath(path) if "/" in path else path or known)  # noqa: PTH100 - keeps symlinks, as typed
    raise UsageProblem(
        f"unknown client {name!r}",
        remedy=f"known: {', '.join(_ADAPTERS)}; NAME=PATH names a build of one, e.g. curl-8.5=PATH",
    )


def resolve(client: ClientSpec) -> ClientAdapter:
    """The adapter of a cell's client; its results bear the cell's name for it."""
    return adapter_for(client.name, client.program)


def _is(known: str, candidate: str) -> bool:
    return candidate == known or candidate.startswith((f"{known}-", f"{known}_", f"{known}."))
