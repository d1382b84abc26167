"""Checks of the machine: what a lab needs, what is missing, and the command that installs it."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lab.assets import engine, kernel, tools
from lab.assets.uml import find as find_uml
from lab.clients.ferry import find_ferry
from lab.hosts.agent.router import kernel_has_netem
from lab.hosts.compose import docker, images
from lab.hosts.namespaces.launch import NamespaceLab
from lab.hosts.namespaces.network import agent_host
from lab.hosts.ssh.connection import Connection
from lab.hosts.vagrant.machines import CLIENT_VARIABLE, CONFIG_VARIABLE, given_machine
from lab.hosts.virtual.machine import Boot, Machine, Patience
from lab.hosts.windows.answers import curl_words
from lab.hosts.windows.host import WindowsHost
from lab.model.errors import DISK_IS_FULL, RoughwaterError, UsageProblem
from lab.model.paths import cache_dir, checkout, results_dir, user_caches

Level = Literal["ok", "note", "missing"]
_WANTED_BUFFER_BYTES = 4 << 20
_WANTED_FREE_BYTES = 1 << 30
_TRIAL = Boot(seed=1, memory_bytes=256 << 20)
_FOR_DEVELOPERS = ("lab", "test", "vm-proof", "bench-standards")
"""Groups of tools that only a checkout needs."""
_OWN_BACKENDS = ("virtual", "namespaces")
FORMER_NAME = "throughline"
"""The lab's name, and its cache folder's, until November 2026."""
# A machine that has not booted by then never does.
_TRIAL_PATIENCE = Patience(cpu_s=20.0, real_s=60.0)


@dataclass(frozen=True)
class Check:
    """One line of `lab doctor`: "missing" means that the lab cannot work, "note" that something is limited."""

    level: Level
    what: str
    found: str
    remedy: str = ""


def examine() -> list[Check]:
    """Every backend is tried for real, all at once, because each mostly waits."""
    parts: tuple[Callable[[], Iterable[Check]], ...] = (
        _tools,
        _engine,
        virtual,
        _namespaces,
        _compose,
        _vagrant,
        windows,
        _machine,
    )
    with ThreadPoolExecutor(len(parts)) as pool:
        checks = [check for part in pool.map(lambda look: list(look()), parts) for check in part]
    return _judged(checks)


def _judged(checks: list[Check]) -> list[Check]:
    """One backend is enough: only when neither of the built-in ones works are both missing."""
    works = any(check.level == "ok" for check in checks if check.what in _OWN_BACKENDS)
    return [
        replace(check, level="missing") if check.what in _OWN_BACKENDS and check.level != "ok" and not works else check
        for check in checks
    ]


def _tools() -> Iterator[Check]:
    for tool in tools.TOOLS:
        if tool.name == "vagrant":  # a backend
            continue
        if tool.group in _FOR_DEVELOPERS and not checkout():
            continue
        path = tools.find(tool.name)
        if path:
            yield Check("ok", tool.name, str(path))
        else:
            level: Level = "note" if tool.optional or tools.can_provide(tool) else "missing"
            yield Check(level, tool.name, f"not found; {tool.why}", tools.remedy(tool))


def _engine() -> Iterator[Check]:
    try:
        path = find_ferry()
    except RoughwaterError as problem:
        # An installed lab may be there for other clients.
        yield Check("missing" if checkout() else "note", "ferry", problem.message, problem.remedy)
        return
    if path == engine.program() and not engine.up_to_date():
        yield Check("note", "ferry", f"{path}, older than the sources in engine/", "make setup")
        return
    yield Check("ok", "ferry", str(path))


def virtual() -> Iterator[Check]:
    """A machine in virtual time, really booted."""
    begun = time.monotonic()
    try:
        Machine.start(_TRIAL, patience=_TRIAL_PATIENCE).close()
    except RoughwaterError as problem:
        yield Check("note", "virtual", problem.message, problem.remedy)
    else:
        took_ms = (time.monotonic() - begun) * 1000
        yield Check("ok", "virtual", f"a machine with kernel {kernel.facts().release} boots in {took_ms:.0f} ms")


def _namespaces() -> Iterator[Check]:
    netem = False
    try:
        agent = NamespaceLab.launch(f"doctor-{os.getpid()}", {})
    except RoughwaterError as problem:
        yield Check("note", "namespaces", problem.message, problem.remedy)
        return
    try:
        netem = kernel_has_netem(agent_host(agent, "wire", "", namespace="router"))
    finally:
        agent.shutdown()
    uml = find_uml()
    if netem:
        yield Check("ok", "namespaces", f"they work; the router is this kernel's own ({os.uname().release} has sch_netem)")
    elif uml is not None:
        seed = "netem with seed" if uml.supports_seed else "no seed: losses cannot be repeated"
        yield Check("ok", "namespaces", f"they work; the router is User-Mode Linux {uml.kernel_release}, {seed}")
    else:
        yield Check("ok", "namespaces", "they work; their router, User-Mode Linux, is downloaded on first use (30 MB)")


def _compose() -> Iterator[Check]:
    try:
        answers = f"docker {docker.engine_version()}, {' '.join(docker.compose_command())}"
        made = images.require_all()
    except RoughwaterError as problem:
        yield Check("note", "compose", problem.message, problem.remedy)
    else:
        sizes = ", ".join(f"{role} {image.size_bytes / 1e6:.0f} MB" for role, image in made.items())
        yield Check("ok", "compose", f"{answers}; images: {sizes}")


def _vagrant() -> Iterator[Check]:
    program = tools.find("vagrant")
    if program is None:
        yield Check("note", "vagrant", "not installed", "sudo apt-get install vagrant vagrant-libvirt; docs/how-to/windows.md")
    else:
        yield Check("ok", "vagrant", f"{program}; its provider is not checked")


def windows() -> Iterator[Check]:
    """The Windows client, where one is asked for: what `curl` is for a person at its prompt."""
    name = os.environ.get(CLIENT_VARIABLE, "")
    if not name.startswith("windows"):
        return
    what = f"curl on {name}"
    try:
        target = given_machine(name)
        if target is None:
            remedy = f"vagrant ssh-config >FILE; {CONFIG_VARIABLE}=FILE lab doctor"
            yield Check("note", what, "not asked, because lab doctor brings no machine up", remedy)
            return
        host = WindowsHost(Connection(target), "client", "")
        try:
            is_curl, found = curl_words(host.machine_facts())
        finally:
            host.connection.close()
    except RoughwaterError as problem:
        yield Check("note", what, problem.message, problem.remedy)
        return
    yield Check("ok" if is_curl else "note", what, found, "" if is_curl else "type curl.exe at its prompt")


def _machine() -> Iterator[Check]:
    largest = int(Path("/proc/sys/net/core/rmem_max").read_text())
    if os.geteuid() == 0 or largest >= _WANTED_BUFFER_BYTES:
        yield Check(
            "ok", "socket buffers", f"net.core.rmem_max {largest}" + ("; root may exceed it" if os.geteuid() == 0 else "")
        )
    else:
        yield Check(
            "note",
            "socket buffers",
            f"net.core.rmem_max is {largest}: bursts above some 100 Mbit/s may be lost before the link",
            f"sudo sysctl net.core.rmem_max={_WANTED_BUFFER_BYTES}",
        )
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    busy = load > cores / 2
    yield Check(
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
        # To root every folder looks writable, /proc and those of a medium that is read-only too.
        writable = os.access(place, os.W_OK) and _takes_files(place)
        level: Level = "missing" if not writable else "ok" if free >= _WANTED_FREE_BYTES else "note"
        elsewhere = "start the lab in another folder, or " if what == "results" else "or "
        remedy = f"make {place} writable, {elsewhere}set ROUGHWATER_{what.upper()}" if not writable else "free some space"
        found = f"{folder}, {free / 1e9:.1f} GB free" if writable else f"{folder} cannot be written"
        yield Check(level, what, found, "" if level == "ok" else remedy)
    yield from _older_cache()


def _takes_files(folder: Path) -> bool:
    """True if a file can be made in the folder, which a full disk does not rule out; the trial leaves nothing behind."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        return error.errno in DISK_IS_FULL


def _older_cache() -> Iterator[Check]:
    """The cache that the lab kept under its former name. What is in it works in the new place: nothing holds its own path."""
    try:
        old, new = user_caches() / FORMER_NAME, cache_dir()
    except UsageProblem:
        return
    if not old.is_dir() or (new.exists() and new.samefile(old)):
        return
    # This very command may make the new folder, and `mv OLD NEW` would then put one into the other.
    here, there = shlex.quote(str(old)), shlex.quote(str(new))
    # Their output has the lab's name, so they have changed with it.
    but = ", except applications on libcurl, which lab client build makes again" if any(old.glob("libcurl-*")) else ""
    remedy = f"keep its downloads{but}: mkdir -p {there} && mv -n {here}/* {there}; rm -r {here}"
    yield Check("note", "older cache", f"{old} is of the time before the lab was called Roughwater; nothing reads it", remedy)
