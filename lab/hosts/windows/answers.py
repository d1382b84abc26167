"""The meaning of the PowerShell scripts' answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.model.errors import LabFault

NOT_RUN = "not run on Windows where this version of the lab was made: docs/how-to/windows.md"
# The kernel's names, and Windows' for the same algorithm. Windows' BBR2 is not Linux' bbr.
PROVIDERS = {"cubic": "CUBIC", "reno": "NewReno", "dctcp": "DCTCP"}


def pin_problems(answer: Mapping[str, Any], congestion_control: str, mtu: int | None) -> list[str]:
    """Every setting in the answer of pins.ps1 that differs from what the lab needs; an offload that is null is off."""
    wanted = PROVIDERS.get(congestion_control)
    if wanted is None:
        return [f"Windows has no equivalent of Linux' {congestion_control} (it has {', '.join(PROVIDERS)})"]
    providers = answer.get("providers")
    if not isinstance(providers, dict) or not providers:
        return ["Windows does not report its congestion control (Get-NetTCPSetting)"]
    problems = [
        f"congestion control of template {name} is {found}, not {wanted}"
        for name, found in providers.items()
        if str(found).lower() != wanted.lower()
    ]
    for name, right in (("timestamps", "enabled"), ("autotuning", "normal")):
        if str(answer.get(name)).lower() != right:
            problems.append(f"TCP {name} is {answer.get(name)}, not {right}")
    if mtu is not None and answer.get("mtu") != mtu:
        problems.append(f"MTU of the lab's port is {answer.get('mtu')}, not {mtu}")
    problems += [f"offload {name} of the lab's port is on" for name in ("lso", "rsc") if answer.get(name)]
    if answer.get("checksum") not in (None, "Disabled"):
        problems.append(f"checksum offload of the lab's port is {answer['checksum']}")
    return problems


def bypass_problem(answer: Mapping[str, Any], name: str, other: str, gateway: str) -> str:
    """The way in which packets can bypass the router, according to guard.ps1; empty if there is none."""
    one, two = answer.get("one_hop"), answer.get("two_hops")
    problems = (
        (answer.get("route_port") is None, f"{name} has no route to {other}"),
        (answer.get("route_port") != answer.get("port"), f"{name} reaches {other} through another port than the lab's"),
        (
            answer.get("next_hop") != gateway,
            f"{name} reaches {other} by {answer.get('next_hop')}, not the router, {gateway}",
        ),
        (one == "Success", f"a packet with TTL 1 got from {name} to {other}"),
        (one != "TtlExpired", f"no router answered between {name} and {other} ({one})"),
        (
            answer.get("one_hop_from") != gateway,
            f"the first hop to {other} is {answer.get('one_hop_from')}, not {gateway}",
        ),
        (two != "Success", f"a packet with TTL 2 does not get from {name} to {other} ({two})"),
    )
    return next((problem for wrong, problem in problems if wrong), "")


def curl_words(facts: Mapping[str, Any]) -> tuple[bool, str]:
    """True if `curl` is curl at a PowerShell prompt of that machine, and a description of `curl` there, by facts.ps1."""
    alias, program = facts.get("curl_alias"), facts.get("curl_program")
    if alias is None or program is None:
        return False, "PowerShell does not say what `curl` is"
    behind = f"the program is {program}, which the lab runs" if program else "there is no such program"
    if alias:
        return False, f"`curl` is PowerShell's alias of {alias}; {behind}"
    return bool(program), str(program) or "there is no such program"


def byte_count(answer: Mapping[str, Any], name: str) -> int:
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LabFault(f"Windows reports {name} as {value!r}")
    return value
