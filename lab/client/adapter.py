"""What every client adapter does: turn a transfer into a command line, and its output into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lab.backend.host import Completed, Host
from lab.client.endpoints import Endpoints
from lab.errors import UsageProblem
from lab.result.models import ClientIdentity, ClientNumbers
from lab.spec.models import Transfer


class UnreadableReportError(ValueError):
    """The client's report is not what its adapter knows; the message is one line. A fault of the client, kept in its sample."""


class ClientAdapter(Protocol):
    """Where the content lands is decided by `Endpoints`, so checking it is nobody's own business (`lab.measure.sample` does)."""

    @property
    def name(self) -> str: ...

    def identify(self, host: Host) -> ClientIdentity:
        """Version, path and checksum of the program on that host; comes before the first `command` is run there.

        A program that the lab brings along is put onto the host here. Raises UsageProblem when there is none.
        """
        ...

    def supports(self, transfer: Transfer) -> str:
        """Empty, or the reason why this client cannot do it."""
        ...

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        """The command line; never holds a secret, because it is written into results."""
        ...

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        """What the command needs besides; HOME at the least, so that a user's own configuration plays no part."""
        ...

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        """The client's own report. Raises UnreadableReportError."""
        ...

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        """Seconds from the client's start to its first body byte; 0 where its report cannot tell."""
        ...

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        """First to last body byte by the client's clock; None where its report cannot tell."""
        ...


# Prints path and sha256, then runs the program for its version: one command on the host instead of three.
_IDENTIFY = """\
path=$(command -v -- "$1") || exit 127
path=$(readlink -f -- "$path") && sum=$(sha256sum -- "$path") || exit 126
echo "$path"; echo "${sum%% *}"; shift; exec "$path" "$@"
"""


def identify_program(host: Host, name: str, program: str, version_flags: list[str]) -> ClientIdentity:
    """Path, checksum and first line of the version. Raises UsageProblem when there is no such program, or it does not run."""
    done = host.run(["/bin/sh", "-c", _IDENTIFY, "identify", program, *version_flags], check=False)
    lines = done.text.splitlines()
    if done.returncode == 127 and not lines:
        raise UsageProblem(f"client {name}: there is no {program} on host {host.name}", remedy=f"install it, or give {name}=PATH")
    if done.returncode or len(lines) < 3:
        raise UsageProblem(
            f"client {name}: {program} {' '.join(version_flags)} failed on host {host.name}: {done.error_text}",
            remedy=f"give a working program as {name}=PATH",
        )
    return ClientIdentity(name=name, version=lines[2].strip(), path=lines[0], sha256=lines[1].lstrip("\\"), command=[])


def clean_environment(endpoints: Endpoints) -> Mapping[str, str]:
    """A home of the lab's own, no proxy, and messages in English with decimal points."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {"HOME": endpoints.client_workdir, "LC_ALL": "C.UTF-8", "NO_PROXY": "*", "no_proxy": "*", **dict.fromkeys(proxies, "")}
