"""The tasks of every client adapter: turn a transfer into a command line, and the command's output into numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Protocol

from lab.hosts.host import Completed, Host, Platform
from lab.model.endpoints import Endpoints
from lab.model.errors import UsageProblem
from lab.model.results import MOST_FILE_TIMES, ClientIdentity, ClientNumbers
from lab.model.transfer import Transfer


class UnreadableReportError(ValueError):
    """The client's report has a form that its adapter does not know: a fault of the client. The message is one line."""


class ClientAdapter(Protocol):
    """One client. `Endpoints` decides where the content goes, and `lab.run.sample` checks it, so adapters need not."""

    @property
    def name(self) -> str: ...

    def identify(self, host: Host) -> ClientIdentity:
        """Version, path and checksum of the program on that host. Call it before the first `command` is run there.

        Copies a program that the lab brings along onto the host. Raises UsageProblem if there is no program.
        """
        ...

    def supports(self, transfer: Transfer) -> str:
        """The reason that this client cannot do the transfer; empty if it can."""
        ...

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        """The command line. It never holds a secret, because results have it."""
        ...

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        """Files the command reads besides the payload (a batch of its own language), by their path on the client's host."""
        ...

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        """The command's environment variables. HOME is always set, so that the user's own configuration is not read."""
        ...

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        """The client's own report. Raises UnreadableReportError."""
        ...

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        """Seconds from the client's start to its first body byte; 0 where its report does not have it."""
        ...

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        """First to last body byte by the client's clock; None where its report does not have it.

        For several files over HTTP the lab then takes the wire's clock.
        """
        ...


UNKNOWN_VERSION = "unknown version"
"""The version of a program that prints none; its checksum says which it is."""
_SAYS_NOTHING: dict[Platform, str] = {"linux": "true", "windows": "hostname"}
"""A program that any host has and that does no harm; what it prints is left out."""
_CANNOT_RUN = 126
"""A shell's exit code for a file that cannot be executed, or may not be."""
# Clients count microseconds, so a body that took 0 took at most 1.
_TICK_S = 1e-6


def identify_program(
    host: Host,
    name: str,
    program: str,
    version_flags: list[str],
    *,
    known: str = "",
    teller: str = "",
    notes: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    optional: bool = False,
) -> ClientIdentity:
    """Path, checksum and first line of the version, which `teller` prints for a program that cannot.

    Raises UsageProblem when there is no such program, or it does not run. `known` is the client whose name `name` begins with;
    `environment` is for the program that prints the version. An `optional` version is unknown where the program prints none.
    Without flags and without a `teller` nothing is asked for.
    """
    asked = bool(version_flags or teller)
    done = host.identify(program, version_flags, teller if asked else _SAYS_NOTHING[host.platform], environment)
    lines = done.text.splitlines()
    unknown = not asked or (optional and done.returncode != _CANNOT_RUN and (done.returncode or len(lines) == 2))
    if unknown and len(lines) >= 2:
        lines, done = [*lines[:2], UNKNOWN_VERSION], replace(done, returncode=0)
    if done.returncode == 127 and not lines:
        meant = f", or ask for {known}" if known and name == program != known else ""
        remedy = f"install it, or give {name}=PATH{meant}"
        raise UsageProblem(f"client {name}: there is no {program} on host {host.name}", remedy=remedy)
    if done.returncode == _CANNOT_RUN and "Permission denied" in done.error_text:
        file = PurePath(program).name
        raise UsageProblem(
            f"client {name}: {file} may not be run on host {host.name}: it is not executable",
            remedy=f"chmod +x {file}; the first line of a script names its interpreter: #!/usr/bin/env python3",
        )
    if done.returncode or len(lines) < 3:
        said = done.error_text if done.stderr.strip() or len(lines) > 2 else f"exit code {done.returncode}, and no version"
        raise UsageProblem(
            f"client {name}: {' '.join((teller or program, *version_flags))} failed on host {host.name}: {said}",
            remedy=f"give a working program as {name}=PATH, or in the client's file how it prints its version (version)",
        )
    sha256 = lines[1].lstrip("\\")
    return ClientIdentity(name=name, version=lines[2].strip(), path=lines[0], sha256=sha256, command=[], notes=list(notes))


def no_report(completed: Completed, raw: Mapping[str, object] | None = None, *, size: int | None = None) -> ClientNumbers:
    """The numbers of a client that reports no times: the duration of its process, by the lab's clock."""
    return ClientNumbers(bytes=size, total_s=completed.wall_s, raw=dict(raw or {}))


def stream_rates(bodies: Iterable[tuple[float, float | None]]) -> list[float]:
    """Bytes per second of several transfers, from bytes and seconds of each, sorted. A long list is thinned, but keeps its ends.

    Empty if one of them is unknown, because that transfer could be the one furthest from its limit.
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
    """A home that only the lab writes to, no proxy, and messages in English with decimal points."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {"HOME": endpoints.client_workdir, "LC_ALL": "C.UTF-8", "NO_PROXY": "*", "no_proxy": "*", **dict.fromkeys(proxies, "")}
