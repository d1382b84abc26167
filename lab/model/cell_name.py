"""The names of cells: `CLIENT--TOPOLOGY--TRANSFER`, e.g. `curl--dsl-20--http1-get-5MiB-at-1MBps-chunked`.

A set has the number of its files before the size of each: `rclone--far-500--sftp-put-1000x20kB`. The number of files at once
comes later: `curl--dsl-50--h2-get-4x5MiB-at-1MBps-p4`. A fourth part names the expectation if the transfer does not imply it:
`curl--dsl-50--http1-get-5MiB-at-2MBps--burst`. An endpoint in
the place of the lab's own servers is named behind its network: `curl--dsl-20@vsftpd--ftp-get-5MiB`. Formatting and parsing are
exact inverses, so a name from a report runs that cell again. Every name is also a file name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lab.model.base import CLIENT_PATTERN, first_problem
from lab.model.errors import UsageProblem
from lab.model.figures import BOUNDS
from lab.model.topology import NETWORK_PATTERN
from lab.model.transfer import BoundKind, Expectation, Transfer
from lab.model.units import ByteRate, Size

FORM = (
    "CLIENT--TOPOLOGY--PROTOCOL-DIRECTION-[FILESx]SIZE[-at-RATE][-pPARALLEL][-chunked][-sink][-discard[-nofile]][-repeat]"
    "[-bufSIZE][--KIND], "
    "e.g. curl--dsl-20--http1-get-5MiB-at-1MBps"
)
_TRANSFER = re.compile(
    r"(?P<protocol>[a-z0-9]+)-(?P<direction>[a-z]+)-(?:(?P<files>[0-9]{1,6})x)?(?P<size>[0-9.]+[A-Za-z]*)"
    r"(?:-at-(?P<limit>[0-9.]+[A-Za-z]+))?(?:-p(?P<parallel>[0-9]{1,4}))?(?P<chunked>-chunked)?(?P<sink>-sink)?"
    r"(?P<discard>-discard)?(?P<no_file>-nofile)?(?P<repeat>-repeat)?(?:-buf(?P<buffer>[0-9.]+[A-Za-z]*))?"
)
# In the order of the name, where they are written without their underscores.
_FLAGS = ("chunked", "sink", "discard", "no_file", "repeat")


class CellName(NamedTuple):
    """The parts of a name; `kind` is None if the transfer implies the expectation."""

    client: str
    topology: str
    transfer: Transfer
    kind: BoundKind | None = None


def format_transfer(transfer: Transfer) -> str:
    """The transfer's part of a cell name: "http1-get-5MiB-at-1MBps"."""
    files = f"{transfer.files}x" if transfer.files > 1 else ""
    parts = [transfer.protocol, transfer.direction, files + _tight(transfer.size)]
    if transfer.limit is not None:
        parts += ["at", _tight(transfer.limit)]
    if transfer.parallel > 1:
        parts.append(f"p{transfer.parallel}")
    parts += [flag.replace("_", "") for flag in _FLAGS if getattr(transfer, flag)]
    if transfer.buffer_size is not None:
        parts.append(f"buf{_tight(transfer.buffer_size)}")
    return "-".join(parts)


def format_cell_name(client: str, topology: str, transfer: Transfer, kind: BoundKind | None = None) -> str:
    """The name of a cell; `client` and `topology` are slugs."""
    return "--".join([client, topology, format_transfer(transfer), *([kind] if kind else [])])


def parse_transfer(text: str) -> Transfer:
    """The transfer with that name. Raises UsageProblem, which shows the form."""
    match = _TRANSFER.fullmatch(text)
    if match is None:
        raise _problem(text, "a transfer", "it is not of the form PROTOCOL-DIRECTION-SIZE...")
    try:
        return Transfer.model_validate(
            {
                "protocol": match["protocol"],
                "direction": match["direction"],
                "files": int(match["files"] or 1),
                "size": Size.parse(match["size"]),
                "limit": ByteRate.parse(match["limit"]) if match["limit"] else None,
                "parallel": int(match["parallel"] or 1),
                **{flag: bool(match[flag]) for flag in _FLAGS},
                "buffer_size": Size.parse(match["buffer"]) if match["buffer"] else None,
            }
        )
    except ValueError as problem:
        raise _problem(text, "a transfer", first_problem(problem)) from None


def parse_cell_name(text: str) -> CellName:
    """The parts of a cell's name. Raises UsageProblem, which shows the form. Client and topology need not exist."""
    parts = text.split("--")
    if len(parts) not in (3, 4):
        raise _problem(text, "a cell", f"it has {len(parts)} part{'s' if len(parts) > 1 else ''}, not three")
    client, topology, transfer = parts[:3]
    for what, part, pattern in (("client", client, CLIENT_PATTERN), ("topology", topology, NETWORK_PATTERN)):
        if not re.fullmatch(pattern, part):
            raise _problem(
                text, "a cell", f"{part!r} is not a name for a {what} (use small letters, digits, and single - . _ between them)"
            )
    parsed = parse_transfer(transfer)
    kind = next((kind for kind in BOUNDS if [kind] == parts[3:]), None)
    if kind is None and len(parts) == 4:
        raise _problem(text, "a cell", f"unknown expectation {parts[3]!r} (known: {', '.join(BOUNDS)})")
    if problem := Expectation.of(parsed, kind=kind).problem(parsed):
        raise _problem(text, "a cell", problem)
    return CellName(client, topology, parsed, kind)


def _tight(quantity: Size | ByteRate) -> str:
    """The text without spaces and slashes: "1 MB/s" is "1MBps"."""
    return str(quantity).replace(" ", "").replace("/s", "ps")


def _problem(text: str, what: str, why: str) -> UsageProblem:
    return UsageProblem(f"{text!r} is not the name of {what}: {why}", remedy=f"the form is {FORM}")
