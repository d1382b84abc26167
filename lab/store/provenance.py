"""The facts needed to judge or repeat a run: the machine, and the state of every host at one moment.

The list of facts follows flent's `metadata.py`. Every snapshot costs wall time inside a run: one command each on client and
server, two on the router, which may be a guest with only busybox, tc and ip.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType

import lab
from lab.hosts.host import Host, Network
from lab.hosts.linux_facts import json_document
from lab.model.results import HostSnapshot

_PROC = Path("/proc")
WORKER: ContextVar[Mapping[str, object]] = ContextVar("worker", default=MappingProxyType({}))
"""More facts of the machine, while this thread works for a lab elsewhere; see docs/decisions/0023-many-machines.md."""


def machine_facts(proc: Path = _PROC) -> dict[str, object]:
    """The machine the lab runs on; what cannot be read is None, never left out.

    Units are in the names. `steal_s` and `cpu_s` count since boot over all cores: their growth between two snapshots says
    how much of the machine other guests took.
    """
    load = _words(proc / "loadavg")
    steal_s, cpu_s = _processor_times(_text(proc / "stat"))
    return {
        **_code_facts(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": _field(_text(proc / "cpuinfo"), "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": _kibibytes(_field(_text(proc / "meminfo"), "MemTotal")),
        "load_1min": float(load[0]) if load else None,
        "load_5min": float(load[1]) if len(load) > 1 else None,
        "steal_s": steal_s,
        "cpu_s": cpu_s,
        "python": platform.python_version(),
        "net.core.rmem_max": _whole_number(proc / "sys/net/core/rmem_max"),
        "net.ipv4.tcp_congestion_control": _text(proc / "sys/net/ipv4/tcp_congestion_control").strip() or None,
        **WORKER.get(),
    }


def host_snapshot(network: Network) -> HostSnapshot:
    """Facts of the three hosts and the machine, now.

    Per host: `sysctl.NAME`, `offload.IFACE.NAME` (client and server), `routes`, `qdiscs` (`tc -s -j`), and `unread`, which
    says what could not be had. Raises LabFault only when a host itself is gone.
    """
    return HostSnapshot(
        at=datetime.now(UTC),
        machine=machine_facts(),
        hosts={
            "client": network.client.facts(),
            "router": _router_facts(network.router),
            "server": network.server.facts(),
        },
    )


def _router_facts(router: Host) -> dict[str, object]:
    unread: list[str] = []
    facts: dict[str, object] = {}
    questions = {"qdiscs": ["tc", "-s", "-j", "qdisc"], "routes": ["ip", "-j", "route"]}
    for name, argv in questions.items():
        done = router.run(argv, check=False)
        if done.returncode or done.timed_out:
            unread.append(f"{name}: {done.error_text}")
            facts[name] = None
        else:
            facts[name] = json_document(name, done.text, unread)
    facts["unread"] = unread
    return facts


@cache
def _code_facts() -> Mapping[str, object]:
    """Version and revision of the loaded code. Cached: editing a file during a run does not change what is running."""
    root = Path(lab.__file__).resolve().parent.parent
    revision = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no") if revision else None
    return {
        "lab_version": lab.__version__,
        "git_revision": revision,
        "git_dirty": None if changes is None else bool(changes),
    }


def git_revision() -> str | None:
    """The commit of the lab's own code; None outside a git checkout."""
    revision = _code_facts()["git_revision"]
    return revision if isinstance(revision, str) else None


def _git(root: Path, *arguments: str) -> str | None:
    if not (root / ".git").exists():
        return None
    # An ordinary user who runs a checkout owned by root is already running its code: asking its revision adds no risk.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _text(path: Path) -> str:
    """Empty where the file is not there: another kernel, another architecture."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _whole_number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words else None


def _field(text: str, name: str) -> str | None:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _kibibytes(text: str | None) -> int | None:
    return int(text.split()[0]) * 1024 if text else None


def _processor_times(stat: str) -> tuple[float | None, float | None]:
    """Steal and total seconds since boot from the first line of /proc/stat (proc_stat(5)); guest time is in user."""
    words = stat.partition("\n")[0].split()
    if not words or words[0] != "cpu" or len(words) < 9:
        return None, None
    ticks = [int(word) for word in words[1:9]]
    per_second = os.sysconf("SC_CLK_TCK")
    return ticks[7] / per_second, sum(ticks) / per_second
