"""What every client adapter does: turn a transfer into a command line, and its output into numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from lab.backend.chores import chores_of
from lab.backend.host import Completed, Host
from lab.client.endpoints import Endpoints
from lab.errors import UsageProblem
from lab.result.models import MOST_FILE_TIMES, ClientIdentity, ClientNumbers
from lab.spec.models import Transfer


class UnreadableReportError(ValueError):
    """The client's report is not what its adapter knows; the message is one line. A fault of the client, kept in its sample."""


class ClientAdapter(Protocol):
    """Where the content lands is decided by `Endpoints`, so checking it is nobody's own business (`lab.measure.sample` does)."""

    @property
    def name(self) -> str: ...

    @property
    def body_clock(self) -> Literal["client", "wire"]:
        """Whose clock tells first and last body byte: the client's report, or the router's port where a client has no report."""
        ...

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

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        """Files the command reads besides the payload (a batch of its own language), by their path on the client's host."""
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
        """First to last body byte by the client's clock; None where its report cannot tell.

        Of several files over HTTP that is no fault: the wire's clock is taken then.
        """
        ...


# Clients count microseconds: what took none took at most one.
_TICK_S = 1e-6
# Prints path and sha256, then runs the program for its version: one command on the host instead of three. $2 is another program
# that tells the version, on whichever stream.
_IDENTIFY = """\
path=$(command -v -- "$1") || exit 127
path=$(readlink -f -- "$path") && sum=$(sha256sum -- "$path") || exit 126
echo "$path"; echo "${sum%% *}"
teller=$2; shift 2
[ -z "$teller" ] || exec "$teller" "$@" 2>&1
exec "$path" "$@"
"""


def identify_program(
    host: Host, name: str, program: str, version_flags: list[str], *, teller: str = "", notes: Sequence[str] = ()
) -> ClientIdentity:
    """Path, checksum and first line of the version, which `teller` prints for a program that cannot.

    Raises UsageProblem when there is no such program, or it does not run.
    """
    if chores := chores_of(host):
        done = chores.identify(program, version_flags)
    else:
        done = host.run(["/bin/sh", "-c", _IDENTIFY, "identify", program, teller, *version_flags], check=False)
    lines = done.text.splitlines()
    if done.returncode == 127 and not lines:
        raise UsageProblem(f"client {name}: there is no {program} on host {host.name}", remedy=f"install it, or give {name}=PATH")
    if done.returncode or len(lines) < 3:
        raise UsageProblem(
            f"client {name}: {teller or program} {' '.join(version_flags)} failed on host {host.name}: {done.error_text}",
            remedy=f"give a working program as {name}=PATH",
        )
    sha256 = lines[1].lstrip("\\")
    return ClientIdentity(name=name, version=lines[2].strip(), path=lines[0], sha256=sha256, command=[], notes=list(notes))


def no_report(completed: Completed, raw: Mapping[str, object] | None = None, *, size: int | None = None) -> ClientNumbers:
    """Of a client that tells no times: how long its process took, by the lab's clock. Only what it printed is its own."""
    return ClientNumbers(bytes=size, total_s=completed.wall_s, raw=dict(raw or {}))


def stream_rates(bodies: Iterable[tuple[float, float | None]]) -> list[float]:
    """Bytes per second of several transfers, from bytes and seconds of each: sorted; of many a part, its ends among it.

    None at all where one of them is not known, because that one could be the one furthest off.
    """
    rates = []
    for size, seconds in bodies:
        if seconds is None or size <= 0:
            return []
        rates.append(size / max(seconds, _TICK_S))
    rates.sort()
    step = math.ceil(len(rates) / (MOST_FILE_TIMES - 1)) or 1
    kept = rates[::step]
    return kept if not rates or kept[-1] == rates[-1] else [*kept, rates[-1]]


def clean_environment(endpoints: Endpoints) -> Mapping[str, str]:
    """A home of the lab's own, no proxy, and messages in English with decimal points."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {"HOME": endpoints.client_workdir, "LC_ALL": "C.UTF-8", "NO_PROXY": "*", "no_proxy": "*", **dict.fromkeys(proxies, "")}
