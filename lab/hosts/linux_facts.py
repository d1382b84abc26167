"""The state of a Linux client or server at one moment, for a run's provenance: one command on the host."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lab.hosts.host import Host
from lab.hosts.wiring import LEAF

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
_MARK = "@@ roughwater"


def linux_facts(host: Host) -> dict[str, object]:
    """The facts of a Linux host, for `Host.facts`."""
    # The administrator's tools are in sbin, which an ordinary user's PATH may lack.
    port = host.capture_port
    script = 'PATH="$PATH:/usr/sbin:/sbin"\n' + end_script(port)
    done = host.run(["sh", "-c", script], check=False)
    return parse_sections(done.text, done.stderr.decode(errors="replace"), port)


def end_script(interface: str = LEAF) -> str:
    """One shell script that prints every fact of a client or server in marked sections, for `parse_sections`."""
    files = " ".join(name.replace(".", "/") for name in INTERESTING_SYSCTLS)
    commands = {
        # -s: a kernel or namespace may lack a sysctl; and grep is one process for all of them.
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


def parse_sections(output: str, errors: str = "", interface: str = LEAF) -> dict[str, object]:
    """The two output streams of `end_script` as flat facts; `unread` names a section that failed or is missing."""
    sections, unread = _split(output, _last_lines(errors))
    facts: dict[str, object] = {}
    facts.update(_sysctls(sections.get("sysctls", "")))
    facts.update(_offloads(sections.get("offloads", ""), interface))
    for name in ("routes", "qdiscs"):
        facts[name] = json_document(name, sections.get(name), unread)
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


def json_document(name: str, text: str | None, unread: list[str]) -> object:
    if text is None:
        return None
    try:
        # iproute2 prints nothing for an empty list.
        return json.loads(text) if text.strip() else []
    except ValueError:
        unread.append(f"{name}: not JSON: {text.strip()[:80]}")
        return None
