"""What the lab needs done on a client's host besides running its program, for hosts where a shell and Python cannot do it.

Each chore's Linux form is a script in the module that needs it; a host with `chores` of its own is asked instead. `prober_of` is
the host that measures the link for such a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol

from lab.backend.host import Completed, Host, Network


class Found(NamedTuple):
    """A file that was looked at; `sha256` is empty where there was none."""

    size: int
    sha256: str


class Chores(Protocol):
    """Raises LabFault where the host does not answer, as `Host.run` does."""

    def pin(self, congestion_control: str, mtu: int) -> None:
        """Set what `lab.network.pins` sets on Linux, as far as this system has it, where it differs. Idempotent."""
        ...

    def unpinned(self, congestion_control: str) -> list[str]:
        """Every setting that is not so, in words; empty when all hold."""
        ...

    def bypass(self, other: Host) -> str:
        """How a packet to `other` can go round the router, in words; empty where it cannot."""
        ...

    def put(self, files: Mapping[PurePath, Path]) -> None:
        """Copy files of the lab's own machine to the host, each whole or not at all, parents made."""
        ...

    def collect(self, path: str) -> Found:
        """Look at a file and remove it."""
        ...

    def end_processes(self) -> None:
        """End what clients have left running."""
        ...

    def retransmits(self) -> int:
        """TCP segments that the host has ever sent again."""
        ...

    def identify(self, program: str, version_flags: Sequence[str]) -> Completed:
        """Prints the path, the sha256 and what the program says of its version; returncode 127 where there is none."""
        ...

    def facts(self) -> dict[str, object]:
        """For a snapshot; `system` names the operating system, `unread` what could not be had."""
        ...

    def cpu_score(self, rounds: int) -> str:
        """As `lab.measure.cpu_score_script` prints it."""
        ...


def chores_of(host: Host) -> Chores | None:
    """None for a host that has a POSIX shell."""
    found: Chores | None = getattr(host, "chores", None)
    return found


def prober_of(network: Network) -> Host:
    """Where iperf3 and ping run: a Linux host on the client's side of the router; the client itself wherever it is one."""
    return network.prober
