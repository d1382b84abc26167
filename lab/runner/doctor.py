"""What this machine has for a lab, what it lacks, and the command that mends it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.assets import docker, engine, images, tools
from lab.assets.uml import find as find_uml
from lab.backend.agent.router import kernel_has_netem
from lab.backend.namespaces.launch import NamespaceLab
from lab.backend.namespaces.network import agent_host
from lab.client.ferry import find_ferry
from lab.errors import ThroughlineError
from lab.paths import cache_dir, results_dir

Level = Literal["ok", "note", "missing"]
_WANTED_BUFFER_BYTES = 4 << 20
_WANTED_FREE_BYTES = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One line of `lab doctor`: "missing" means that the lab cannot work, "note" that something is less than it could be."""

    level: Level
    what: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    return [*_tools(), *_engine(), *_kernel(), *_containers(), *_machine()]


def _tools() -> Iterator[Finding]:
    for tool in tools.TOOLS:
        path = tools.find(tool.name)
        if path:
            yield Finding("ok", tool.name, str(path))
        else:
            yield Finding("note" if tool.optional else "missing", tool.name, f"not found; {tool.why}", tools.remedy(tool))


def _engine() -> Iterator[Finding]:
    try:
        path = find_ferry()
    except ThroughlineError as problem:
        yield Finding("missing", "ferry", problem.message, problem.remedy)
        return
    if path == engine.program() and not engine.up_to_date():
        yield Finding("note", "ferry", f"{path}, older than what is in engine/", "make setup")
        return
    yield Finding("ok", "ferry", str(path))


def _kernel() -> Iterator[Finding]:
    netem = False
    try:
        agent = NamespaceLab.launch(f"doctor-{os.getpid()}", {})
    except ThroughlineError as problem:
        yield Finding("missing", "namespaces", problem.message, problem.remedy)
    else:
        netem = kernel_has_netem(agent_host(agent, "wire", "", namespace="router"))
        agent.shutdown()
        yield Finding(
            "ok", "namespaces", "user, mount, pid and network namespaces work" + (" (as root)" if os.geteuid() == 0 else "")
        )
    uml = find_uml()
    if netem:
        yield Finding("ok", "router", f"kernel: sch_netem is here ({os.uname().release})")
    elif uml is not None:
        yield Finding("ok", "router", f"User-Mode Linux: this kernel ({os.uname().release}) has no sch_netem")
    if uml is not None:
        seed = "netem with seed" if uml.supports_seed else "no seed: losses cannot be repeated"
        yield Finding("ok", "uml", f"kernel {uml.kernel_release}, iproute2 {uml.iproute2}, {seed}")
    else:
        yield Finding("note" if netem else "missing", "uml", "the User-Mode Linux router has not been built", "lab setup")


def _containers() -> Iterator[Finding]:
    """Only --backend compose needs them."""
    try:
        yield Finding("ok", "containers", f"docker {docker.engine_version()}, compose {docker.compose_version()}")
        made = images.require_all()
    except ThroughlineError as problem:
        yield Finding("note", "containers", problem.message, problem.remedy)
    else:
        sizes = ", ".join(f"{role} {image.size_bytes / 1e6:.0f} MB" for role, image in made.items())
        yield Finding("ok", "images", sizes)


def _machine() -> Iterator[Finding]:
    largest = int(Path("/proc/sys/net/core/rmem_max").read_text())
    if os.geteuid() == 0 or largest >= _WANTED_BUFFER_BYTES:
        yield Finding(
            "ok", "socket buffers", f"net.core.rmem_max {largest}" + ("; root may exceed it" if os.geteuid() == 0 else "")
        )
    else:
        yield Finding(
            "note",
            "socket buffers",
            f"net.core.rmem_max is {largest}: bursts above some 100 Mbit/s may be lost before the link",
            f"sudo sysctl net.core.rmem_max={_WANTED_BUFFER_BYTES}",
        )
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    busy = load > cores / 2
    yield Finding(
        "note" if busy or cores < 2 else "ok",
        "machine",
        f"{cores} cores, load {load:.2f}",
        "measure on an idle machine with two cores or more" if busy or cores < 2 else "",
    )
    for what, folder in (("results", results_dir()), ("cache", cache_dir())):
        place = folder
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        writable = os.access(place, os.W_OK)
        level: Level = "missing" if not writable else "ok" if free >= _WANTED_FREE_BYTES else "note"
        remedy = f"make {place} writable, or set THROUGHLINE_{what.upper()}" if not writable else "free some space"
        yield Finding(level, what, f"{folder}, {free / 1e9:.1f} GB free", "" if level == "ok" else remedy)
