"""`lab.backend.chores` on a Windows machine: scripts that answer in one line of JSON, and what their answers mean.

None of it has been run on Windows where it was written (docs/windows.md): the scripts are parsed, their answers stood in for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from lab.backend.chores import Found
from lab.backend.host import Completed, Host
from lab.backend.ssh import powershell
from lab.errors import LabFault

if TYPE_CHECKING:
    from lab.backend.ssh.windows import WindowsHost

NOT_RUN = "not run on Windows where this version of the lab was made: docs/windows.md"
# The kernel's names, and Windows' for the same algorithm. Windows' BBR2 is not Linux' bbr.
PROVIDERS = {"cubic": "CUBIC", "reno": "NewReno", "dctcp": "DCTCP"}
# Set-NetAdapter... restarts the port, which takes seconds.
_PIN_S = 120.0
_HASH_S = 300.0


@dataclass
class WindowsChores:
    """`gateway` is the router's address on the client's side."""

    host: WindowsHost
    gateway: str
    _mtu: int | None = field(default=None, repr=False)

    def pin(self, congestion_control: str, mtu: int) -> None:
        self._mtu = mtu
        provider = PROVIDERS.get(congestion_control, "")
        change = "yes" if provider else ""
        self._ask("pins.ps1", {"Mac": self.host.mac, "Provider": provider, "Mtu": str(mtu), "Change": change}, _PIN_S)

    def unpinned(self, congestion_control: str) -> list[str]:
        return pin_problems(self._ask("pins.ps1", {"Mac": self.host.mac}, _PIN_S), congestion_control, self._mtu)

    def bypass(self, other: Host) -> str:
        told = self._ask("guard.ps1", {"Mac": self.host.mac, "Remote": other.address})
        return bypass_problem(told, self.host.name, other.name, self.gateway)

    def put(self, files: Mapping[PurePath, Path]) -> None:
        self.host.put(files)

    def collect(self, path: str) -> Found:
        told = self._ask("collect.ps1", {"Path": path}, _HASH_S)
        return Found(_whole(told, "size"), str(told.get("sha256") or ""))

    def end_processes(self) -> None:
        """Those that name the lab's work folder: every client runs from there, or is told of it."""
        self._ask("sweep.ps1", {"Folder": str(self.host.workdir)})

    def retransmits(self) -> int:
        """Of the whole machine: what the lab says to it over SSH is among it."""
        text = self.host.script(
            "[Net.NetworkInformation.IPGlobalProperties]::GetIPGlobalProperties().GetTcpIPv4Statistics().SegmentsResent"
        ).strip()
        if not text.isdigit():
            raise LabFault(f"{self.host.name}: its TCP counters cannot be read: {text[:80]!r}")
        return int(text)

    def identify(self, program: str, version_flags: Sequence[str]) -> Completed:
        told = self._answer("identify.ps1", {"Program": program}, _HASH_S)
        words = (program, *version_flags)
        if told is None:
            return Completed(words, 127, b"", f"{program}: not found".encode(), 0, 0, 0.0, 0.0)
        done = self.host.run([str(told.get("path")), *version_flags], check=False)
        head = f"{told.get('path')}\n{told.get('sha256')}\n".encode()
        return Completed(words, done.returncode, head + done.stdout, done.stderr, done.started_ns, done.ended_ns, 0.0, 0.0)

    def facts(self) -> dict[str, object]:
        facts = self.host.facts()
        facts["system"] = f"{facts.get('caption') or 'Windows'} {facts.get('build') or ''}".strip()
        facts["note"] = NOT_RUN
        facts["clock_error_ms"] = self.host.clock.error_ns / 1e6
        unread = [name for name, value in facts.items() if value is None]
        questions: dict[str, tuple[str, dict[str, str]]] = {
            "tcp": ("pins.ps1", {"Mac": self.host.mac}),
            "way": ("guard.ps1", {"Mac": self.host.mac, "Remote": self.host.server_address}),
        }
        for name, (script, arguments) in questions.items():
            try:
                facts[name] = self._ask(script, arguments)
            except LabFault as fault:
                unread.append(f"{name}: {fault.message}")
        return {**facts, "unread": unread}

    def cpu_score(self, rounds: int) -> str:
        return self.host.script(powershell.script("score.ps1"), arguments={"Rounds": str(rounds)})

    def _ask(self, name: str, arguments: Mapping[str, str], timeout_s: float = 60.0) -> dict[str, Any]:
        found = self._answer(name, arguments, timeout_s)
        if found is None:
            raise LabFault(f"{self.host.name}: {name} answers nothing")
        return found

    def _answer(self, name: str, arguments: Mapping[str, str], timeout_s: float) -> dict[str, Any] | None:
        text = self.host.script(powershell.script(name), arguments=arguments, timeout_s=timeout_s)
        try:
            found = json.loads(text)
        except ValueError:
            raise LabFault(f"{self.host.name}: the answer of {name} is not JSON: {text[:80]!r}") from None
        if found is not None and not isinstance(found, dict):
            raise LabFault(f"{self.host.name}: the answer of {name} is none: {text[:80]!r}")
        return found


def pin_problems(told: Mapping[str, Any], congestion_control: str, mtu: int | None) -> list[str]:
    """What of the answer of pins.ps1 is not as the lab needs it. An offload that the port does not have (null) is off."""
    wanted = PROVIDERS.get(congestion_control)
    if wanted is None:
        return [f"Windows has no congestion control that is Linux' {congestion_control} (it has {', '.join(PROVIDERS)})"]
    providers = told.get("providers")
    if not isinstance(providers, dict) or not providers:
        return ["Windows does not tell its congestion control (Get-NetTCPSetting)"]
    problems = [
        f"congestion control of template {name} is {found}, not {wanted}"
        for name, found in providers.items()
        if str(found).lower() != wanted.lower()
    ]
    for name, right in (("timestamps", "enabled"), ("autotuning", "normal")):
        if str(told.get(name)).lower() != right:
            problems.append(f"TCP {name} is {told.get(name)}, not {right}")
    if mtu is not None and told.get("mtu") != mtu:
        problems.append(f"MTU of the lab's port is {told.get('mtu')}, not {mtu}")
    problems += [f"offload {name} of the lab's port is on" for name in ("lso", "rsc") if told.get(name)]
    if told.get("checksum") not in (None, "Disabled"):
        problems.append(f"checksum offload of the lab's port is {told['checksum']}")
    return problems


def bypass_problem(told: Mapping[str, Any], name: str, other: str, gateway: str) -> str:
    """What of the answer of guard.ps1 says that packets can go round the router; empty where nothing does."""
    one, two = told.get("one_hop"), told.get("two_hops")
    problems = (
        (told.get("route_port") is None, f"{name} has no route to {other}"),
        (told.get("route_port") != told.get("port"), f"{name} reaches {other} by another port than the lab's"),
        (told.get("next_hop") != gateway, f"{name} reaches {other} by {told.get('next_hop')} and not by the router, {gateway}"),
        (one == "Success", f"a packet with one hop to live got from {name} to {other}"),
        (one != "TtlExpired", f"no router answered between {name} and {other} ({one})"),
        (told.get("one_hop_from") != gateway, f"the first router before {other} is {told.get('one_hop_from')}, not {gateway}"),
        (two != "Success", f"a packet with two hops to live does not get from {name} to {other} ({two})"),
    )
    return next((problem for wrong, problem in problems if wrong), "")


def _whole(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LabFault(f"Windows tells {name} as {value!r}")
    return value
