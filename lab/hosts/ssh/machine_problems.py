"""Reasons not to measure on a machine, a line each: its processor, its clock, its licence."""

from __future__ import annotations

import platform

from lab.model.errors import LabFault, RoughwaterError, UsageProblem

# Certificates of a run are dated back an hour; logs of two machines that disagree by more than this cannot be read together.
MOST_SKEW_S = 30.0
# The names of the same processor in Windows and in Linux.
_SAME = {"AMD64": "x86_64", "ARM64": "aarch64", "x64": "x86_64"}
# SoftwareLicensingProduct.LicenseStatus (Microsoft): 1 licensed; in 2, 3 and 6 a grace period runs.
_LICENSED, _GRACE = 1, (2, 3, 6)


def architecture_problem(name: str, machine: str, *, ours: str = "") -> RoughwaterError | None:
    """The error for a machine with another architecture than the programs that the lab copies to it; else None."""
    wanted = ours or platform.machine()
    if _SAME.get(machine, machine) == _SAME.get(wanted, wanted):
        return None
    return UsageProblem(
        f"{name}: the machine is {machine}, and the lab's programs are built for {wanted}",
        remedy="use a box of that architecture",
    )


def clock_problem(name: str, theirs_utc_s: float, ours_utc_s: float) -> RoughwaterError | None:
    """Both are seconds since 1970, read at the same moment as nearly as a connection allows."""
    ahead = theirs_utc_s - ours_utc_s
    if abs(ahead) <= MOST_SKEW_S:
        return None
    which = "ahead" if ahead > 0 else "behind"
    return LabFault(
        f"{name}: the machine's clock is {abs(ahead):.0f} s {which} of the lab's",
        remedy="set it: `sudo date -u -s` on Linux, `w32tm /resync` on Windows",
    )


def licence_problem(name: str, status: int | None, minutes_left: int | None) -> RoughwaterError | None:
    """An evaluation copy whose time is up shuts down every hour, in the middle of a measurement."""
    if status is None or status == _LICENSED or (status in _GRACE and (minutes_left or 0) > 0):
        return None
    return LabFault(
        f"{name}: the evaluation licence of this Windows has expired or was never activated (LicenseStatus {status}): "
        "it shuts down every hour",
        remedy="`slmgr /rearm` and a restart, online activation, or a newer box",
    )
