"""What somebody needs to judge or repeat a run: the machine, and the state of every host at one moment.

The lists of interesting facts follow flent's `metadata.py` (facts/suites.md 4.1). Every snapshot costs wall time inside a
run: one command each on client and server, two on the router, which may be a guest with nothing but busybox, tc and ip.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import lab
from lab.backend.chores import chores_of
from lab.backend.host import Host, Network
from lab.result.models import HostSnapshot

INTERESTING_SYSCTLS: tuple[str, ...] = (
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
)
INTERESTING_OFFLOADS: tuple[str, ...] = (
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
)
INTERFACE = "eth0"
_MARK = "@@ throughline"
_PROC = Path("/proc")


def machine_facts(proc: Path = _PROC) -> dict[str, object]:
    """The machine the lab runs on; what cannot be read is None, never left out.

    Units are in the names. `steal_s` and `cpu_s` count since boot over all cores: their growth between two snapshots says
    how much of the machine somebody else took.
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
            "client": _end_facts(network.client),
            "router": _router_facts(network.router),
            "server": _end_facts(network.server),
        },
    )


def end_script(interface: str = INTERFACE) -> str:
    """One shell script that prints every fact of a client or server in marked sections, for `parse_sections`."""
    files = " ".join(name.replace(".", "/") for name in INTERESTING_SYSCTLS)
    commands = {
        # -s: a sysctl this kernel or namespace does not have is no error, and grep is one process for all of them.
        "sysctls": f"(cd /proc/sys && grep -sH '' {files}; true)",
        "offloads": f"ethtool -k {interface}",
        "routes": "ip -j route",
        "qdiscs": "tc -s -j qdisc",
    }
    # Marked on both streams: a tool's warning must neither spoil its JSON nor get lost.
    return "\n".join(
        f"echo '{_MARK} {name}'; echo '{_MARK} {name}' >&2; {command}; echo '{_MARK} end' $?"
        for name, command in commands.items()
    )


def parse_sections(output: str, errors: str = "", interface: str = INTERFACE) -> dict[str, object]:
    """What `end_script` printed on its two streams, as flat facts; `unread` names a section that failed or is missing."""
    sections, unread = _split(output, _last_lines(errors))
    facts: dict[str, object] = {}
    facts.update(_sysctls(sections.get("sysctls", "")))
    facts.update(_offloads(sections.get("offloads", ""), interface))
    for name in ("routes", "qdiscs"):
        facts[name] = _document(name, sections.get(name), unread)
    facts["unread"] = unread
    return facts


def _end_facts(host: Host) -> dict[str, object]:
    if chores := chores_of(host):
        return chores.facts()
    # The machine's administrator tools are in sbin, which an ordinary user's PATH may lack.
    script = 'PATH="$PATH:/usr/sbin:/sbin"\n' + end_script()
    done = host.run(["sh", "-c", script], check=False)
    return parse_sections(done.text, done.stderr.decode(errors="replace"))


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
            facts[name] = _document(name, done.text, unread)
    facts["unread"] = unread
    return facts


def _last_lines(errors: str) -> dict[str, str]:
    """The last line of each section of standard error."""
    found: dict[str, str] = {}
    name = ""
    for line in errors.splitlines():
        if line.startswith(_MARK):
            name = line.removeprefix(_MARK).strip()
        elif line.strip():
            found[name] = line.strip()
    return found


def _split(output: str, errors: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    sections: dict[str, str] = {}
    unread: list[str] = []
    name, lines = "", list[str]()
    for line in output.splitlines():
        if not line.startswith(_MARK):
            lines.append(line)
            continue
        word, _, code = line.removeprefix(_MARK).strip().partition(" ")
        if word != "end":
            name, lines = word, []
        elif code == "0":
            sections[name] = "\n".join(lines)
        else:
            unread.append(f"{name}: {errors.get(name, f'exit code {code}')}")
    known = {problem.partition(":")[0] for problem in unread} | sections.keys()
    unread.extend(f"{each}: no answer" for each in ("sysctls", "offloads", "routes", "qdiscs") if each not in known)
    return sections, unread


def _sysctls(text: str) -> dict[str, object]:
    found: dict[str, object] = {f"sysctl.{name}": None for name in INTERESTING_SYSCTLS}
    for line in text.splitlines():
        path, _, value = line.partition(":")
        found[f"sysctl.{path.replace('/', '.')}"] = " ".join(value.split())
    return found


def _offloads(text: str, interface: str) -> dict[str, object]:
    """`on` or `off`; ethtool's `[fixed]` is dropped, what was `[requested on]` is still what it is."""
    state = {
        key.strip(): value.split()[0] for key, _, value in (line.partition(":") for line in text.splitlines()) if value.strip()
    }
    return {f"offload.{interface}.{name}": state.get(name) for name in INTERESTING_OFFLOADS}


def _document(name: str, text: str | None, unread: list[str]) -> object:
    if text is None:
        return None
    try:
        # iproute2 prints nothing at all where there is nothing to tell.
        return json.loads(text) if text.strip() else []
    except ValueError:
        unread.append(f"{name}: not JSON: {text.strip()[:80]}")
        return None


@cache
def _code_facts() -> Mapping[str, object]:
    """Of the code that is loaded: asked once, because editing a file during a run does not change what is running."""
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
