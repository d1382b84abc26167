"""ferry's JSON report (`ferry schema`) as numbers: one shape for a file, several files, a set over SFTP, and requests.

`transfers` has one element per file, and several files have their sums as `set`. Requests (`--totals`) have the sums alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lab.clients.adapter import UnreadableReportError, stream_rates
from lab.hosts.host import Completed
from lab.model.results import ClientNumbers
from lab.model.transfer import Transfer

SCHEMA = "ferry-report-1"
_VERSION = {"http/1.1": "1.1", "h2": "2", "h3": "3"}
# Evidence is worth keeping, but not megabytes of it: a minute of TCP samples, twenty minutes of slots.
_KEPT_TCP_SAMPLES = 600
_KEPT_SLOTS = 12_000

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel):
    """A part of the report; keys that the lab does not need are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Phases(_Part):
    """Durations of the last attempt; null for a phase that did not happen."""

    dns_s: Seconds | None = None
    connect_s: Seconds | None = None
    tls_s: Seconds | None = None
    first_byte_s: Seconds | None = None
    body_start_s: Seconds | None = None
    body_s: Seconds | None = None
    total_s: Seconds | None = None


class _Attempt(_Part):
    waited_s: Seconds | None = None
    total_s: Seconds | None = None


class _Timed(_Part):
    """The times of a transfer. The phases are durations, a sample has instants: the methods convert."""

    phases: _Phases = _Phases()
    attempts: list[_Attempt] = []

    @property
    def earlier_s(self) -> float:
        """Time before the attempt of the phases: earlier attempts, and every wait."""
        waits = math.fsum(attempt.waited_s or 0.0 for attempt in self.attempts)
        return waits + math.fsum(attempt.total_s or 0.0 for attempt in self.attempts[:-1])

    @property
    def start_s(self) -> float:
        """Start of the body, in seconds from the start of the client."""
        return self.earlier_s + (self.phases.body_start_s or 0.0)

    @property
    def body_s(self) -> float | None:
        """Seconds of the body. None after several attempts: the time is of the last attempt, but the bytes are of all."""
        return None if len(self.attempts) > 1 else self.phases.body_s or None

    def after(self, *phases: float | None) -> float | None:
        """The end of these phases; None if none of them happened."""
        if all(phase is None for phase in phases):
            return None
        return self.earlier_s + math.fsum(phase or 0.0 for phase in phases)


class _File(_Timed):
    """One element of `transfers`."""

    phases: _Phases
    protocol: str
    status: Count | None
    offset: Count
    bytes: Count


class _Sums(_Part):
    """The sums of a set."""

    bytes: Count
    body_s: Seconds | None
    total_s: Seconds | None = None
    protocols: list[str] = []


class _Process(_Part):
    wall_s: Seconds


class _Report(_Part):
    transfers: list[_File]
    sums: _Sums | None
    process: _Process | None = None
    error: dict[str, Any] | None = None


class _Kept(_Timed):
    """The part of a report that goes into `ClientNumbers.raw`: the first file, and the sums over all files."""

    sums: _Sums | None


def read_report(transfer: Transfer, completed: Completed) -> ClientNumbers:
    """The client's numbers. Raises UnreadableReportError.

    `raw` keeps the first file's element, because a thousand of them would be megabytes. Several files over HTTP have no common
    clock, so their total is the process's time.
    """
    document = _document(completed)
    try:
        return _numbers(transfer, _Report.model_validate(document | _sums(document)), document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableReportError(f"ferry's report cannot be read: {where}: {first['msg']}") from None


def body_start_s(numbers: ClientNumbers) -> float:
    """Seconds from the program's first attempt to the start of the body clock; for a set that of its first file."""
    return _kept(numbers).start_s


def body_seconds(transfer: Transfer, numbers: ClientNumbers) -> float | None:
    """Seconds of ferry's body clock, the same for both directions: an upload's stops when the last byte has left its kernel.

    None after several attempts, and for several files over HTTP. For a set over SFTP it runs from the first body byte of any file
    to the last of any.
    """
    kept = _kept(numbers)
    if transfer.files > 1:
        return (kept.sums.body_s if kept.sums else None) or None
    return kept.body_s


def _kept(numbers: ClientNumbers) -> _Kept:
    return _Kept.model_validate(numbers.raw | _sums(numbers.raw))


def _sums(document: Mapping[str, object]) -> dict[str, object]:
    return {"sums": document.get("set")}


def _document(completed: Completed) -> dict[str, Any]:
    try:
        document = json.loads(completed.stdout)
    except (ValueError, RecursionError) as error:
        what = "no report (--json -)" if not completed.stdout.strip() else f"no JSON: {str(error)[:80]}"
        raise UnreadableReportError(f"ferry printed {what}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UnreadableReportError(f"ferry's report is not {SCHEMA}")
    return document


def _numbers(transfer: Transfer, report: _Report, document: dict[str, Any]) -> ClientNumbers:
    over_sftp = transfer.protocol == "sftp"
    totals = transfer.requests and transfer.limit is None
    summed = totals or (transfer.files > 1 and over_sftp)
    files, sums = report.transfers, report.sums if summed else None
    if (summed and sums is None) or not (files or totals):
        why = str((report.error or {}).get("message") or "its report has no transfer").split("\n", maxsplit=1)[0]
        raise UnreadableReportError(f"ferry: {why}")
    first = None if totals else files[0]
    phases = first.phases if first else _Phases()
    connected = (phases.dns_s, phases.connect_s)
    protocols = set(sums.protocols) if sums else {file.protocol for file in files}
    raw = {"version": document.get("version"), "process": document.get("process")}
    return ClientNumbers(
        bytes=sums.bytes if sums else sum(file.offset + file.bytes for file in files),
        total_s=_total_s(transfer, report),
        first_byte_s=_first_byte_s(transfer, first) if first else None,
        connect_s=first.after(*connected) if first else None,
        tls_s=first.after(*connected, phases.tls_s) if first and phases.tls_s is not None else None,
        http_version=" and ".join(sorted(_VERSION.get(protocol, protocol) for protocol in protocols - {"sftp"})) or None,
        status=max((file.status or 0 for file in files), default=0) or None,
        stream_byte_s=[] if summed or transfer.files == 1 else stream_rates((file.bytes, file.body_s) for file in files),
        raw=raw | (_bounded(document["transfers"][0]) if first else {}) | ({"set": document["set"]} if summed else {}),
    )


def _total_s(transfer: Transfer, report: _Report) -> float:
    if transfer.files == 1:
        total_s = report.transfers[0].phases.total_s
        total_s = None if total_s is None else report.transfers[0].earlier_s + total_s
    elif transfer.protocol == "sftp":
        total_s = report.sums.total_s if report.sums else None
    else:
        total_s = report.process.wall_s if report.process else None
    if total_s is None:
        raise UnreadableReportError("ferry's report cannot be read: it has no total time")
    return total_s


def _first_byte_s(transfer: Transfer, file: _File) -> float | None:
    """The time of the answer's first byte: after the request of a download, after the last body byte of an upload."""
    phases = file.phases
    if phases.first_byte_s is None:
        return None
    if transfer.direction == "put":
        return file.after(phases.body_start_s, phases.body_s, phases.first_byte_s)
    return file.after(phases.dns_s, phases.connect_s, phases.tls_s, phases.first_byte_s)


def _bounded(file: dict[str, Any]) -> dict[str, Any]:
    """One element of `transfers`. For very long runs TCP samples are thinned and slots left out, and extra keys say so."""
    kept = dict(file)
    tcp, series = file.get("tcp"), file.get("series")
    if isinstance(tcp, list) and len(tcp) > _KEPT_TCP_SAMPLES:
        step = math.ceil(len(tcp) / _KEPT_TCP_SAMPLES)
        kept |= {"tcp": tcp[::step], "tcp_every": step}
    slots = series.get("bytes") if isinstance(series, dict) else None
    if isinstance(slots, list) and len(slots) > _KEPT_SLOTS:
        kept |= {"series": None, "series_left_out": len(slots)}
    return kept
