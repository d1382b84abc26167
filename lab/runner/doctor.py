"""What this machine has for a lab, what it lacks, and the command that mends it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lab.assets import docker, engine, images, kernel, tools
from lab.assets.uml import find as find_uml
from lab.backend.agent.router import kernel_has_netem
from lab.backend.namespaces.launch import NamespaceLab
from lab.backend.namespaces.network import agent_host
from lab.backend.virtual.machine import Boot, Machine, Patience
from lab.client.ferry import find_ferry
from lab.errors import ThroughlineError
from lab.paths import cache_dir, results_dir

Level = Literal["ok", "note", "missing"]
_WANTED_BUFFER_BYTES = 4 << 20
_WANTED_FREE_BYTES = 1 << 30
_TRIAL = Boot(seed=1, memory_bytes=256 << 20)
_FOR_SETUP = ("cargo", "cc", "libc6-dev", "venv", "mmdebstrap", "debian-archive-keyring")
_OWN_BACKENDS = ("virtual", "namespaces")
# A machine that has not come up by then does not.
_TRIAL_PATIENCE = Patience(cpu_s=20.0, real_s=60.0)


@dataclass(frozen=True)
class Finding:
    """One line of `lab doctor`: "missing" means that the lab cannot work, "note" that something is less than it could be."""

    level: Level
    what: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Every backend is really tried, all of them at once: each mostly waits for something else."""
    parts: tuple[Callable[[], Iterable[Finding]], ...] = (_tools, _engine, virtual, _namespaces, _compose, _vagrant, _machine)
    with ThreadPoolExecutor(len(parts)) as pool:
        findings = [finding for part in pool.map(lambda look: list(look()), parts) for finding in part]
    return _judged(findings)


def _judged(findings: list[Finding]) -> list[Finding]:
    """One backend is enough: where none of those that need no other program works, both are missing."""
    works = any(finding.level == "ok" for finding in findings if finding.what in _OWN_BACKENDS)
    return [
        replace(finding, level="missing") if finding.what in _OWN_BACKENDS and finding.level != "ok" and not works else finding
        for finding in findings
    ]


def _tools() -> Iterator[Finding]:
    for tool in tools.TOOLS:
        if tool.name == "vagrant":  # a backend
            continue
        if tool.name in _FOR_SETUP and not engine.engine_dir().is_dir():  # an image of the lab is all set up
            continue
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


def virtual() -> Iterator[Finding]:
    """A machine in virtual time, really booted."""
    begun = time.monotonic()
    try:
        Machine.start(_TRIAL, patience=_TRIAL_PATIENCE).close()
    except ThroughlineError as problem:
        yield Finding("note", "virtual", problem.message, problem.remedy)
    else:
        took_ms = (time.monotonic() - begun) * 1000
        yield Finding("ok", "virtual", f"a machine with kernel {kernel.facts().release} boots in {took_ms:.0f} ms")


def _namespaces() -> Iterator[Finding]:
    netem = False
    try:
        agent = NamespaceLab.launch(f"doctor-{os.getpid()}", {})
    except ThroughlineError as problem:
        yield Finding("note", "namespaces", problem.message, problem.remedy)
        return
    try:
        netem = kernel_has_netem(agent_host(agent, "wire", "", namespace="router"))
    finally:
        agent.shutdown()
    uml = find_uml()
    if netem:
        yield Finding("ok", "namespaces", f"they work; the router is this kernel's own ({os.uname().release} has sch_netem)")
    elif uml is not None:
        seed = "netem with seed" if uml.supports_seed else "no seed: losses cannot be repeated"
        yield Finding("ok", "namespaces", f"they work; the router is User-Mode Linux {uml.kernel_release}, {seed}")
    else:
        yield Finding("ok", "namespaces", "they work; their router, User-Mode Linux, is downloaded on first use (30 MB)")


def _compose() -> Iterator[Finding]:
    try:
        answers = f"docker {docker.engine_version()}, {' '.join(docker.compose_command())}"
        made = images.require_all()
    except ThroughlineError as problem:
        yield Finding("note", "compose", problem.message, problem.remedy)
    else:
        sizes = ", ".join(f"{role} {image.size_bytes / 1e6:.0f} MB" for role, image in made.items())
        yield Finding("ok", "compose", f"{answers}; images: {sizes}")


def _vagrant() -> Iterator[Finding]:
    program = tools.find("vagrant")
    if program is None:
        yield Finding("note", "vagrant", "not installed", "sudo apt-get install vagrant vagrant-libvirt; docs/windows.md")
    else:
        yield Finding("ok", "vagrant", f"{program}; whether its provider works shows when machines come up")


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
