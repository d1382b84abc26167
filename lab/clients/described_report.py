"""The output of a described client as numbers: by a pattern, by a reader in code, or not at all."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Protocol

from lab.clients.adapter import UnreadableReportError, no_report
from lab.clients.curl import Curl
from lab.clients.ferry import Ferry
from lab.hosts.host import Completed
from lab.model.results import ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import Duration

# A report is at the end. A pattern must not have to search megabytes of progress output.
_SEARCHED = 1 << 16
_SIZES = ("bytes", "received")


class Reader(Protocol):
    """The part of `lab.clients.adapter.ClientAdapter` that reads reports."""

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers: ...

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float: ...

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None: ...


def reader(name: str, report: str) -> Reader:
    """The reader for `report` (a reader's name or a pattern) of the client called `name`."""
    match report:
        case "none":
            return NoReport()
        case "curl":
            return Curl(name)
        case "ferry":
            return Ferry(name)
        case "rclone":
            return RcloneStats()
    return Pattern(name, re.compile(report, re.MULTILINE))


@dataclass(frozen=True)
class NoReport:
    """Takes the process's time, and for the body the wire's."""

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        del transfer
        return no_report(completed)

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        del transfer, numbers
        return 0.0

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        del transfer, numbers
        return None


@dataclass(frozen=True)
class RcloneStats(NoReport):
    """rclone's `--use-json-log --stats-log-level NOTICE`: its bytes. Its times are of its own counters and not used."""

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        del transfer
        stats = _stats(completed)
        size = stats.get("bytes")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise UnreadableReportError(f"rclone reports {str(size)[:40]!r} bytes")
        return no_report(completed, {"stats": stats}, size=size)


def _stats(completed: Completed) -> dict[str, Any]:
    """The last `stats` of its log, one JSON document a line."""
    for line in reversed(completed.stderr[-_SEARCHED:].decode(errors="replace").splitlines()):
        if '"stats"' not in line:
            continue
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            break
        if isinstance(told, dict) and isinstance(told.get("stats"), dict):
            return dict(told["stats"])
    raise UnreadableReportError("rclone printed no stats (--use-json-log)")


@dataclass(frozen=True)
class Pattern:
    """The last match in what the client printed, standard error after standard output.

    The body's clock is the client's if the pattern has `body_s`, or `total_s` and `first_byte_s`; else the wire's.
    """

    name: str
    pattern: re.Pattern[str]

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        text = (completed.stdout[-_SEARCHED:] + b"\n" + completed.stderr[-_SEARCHED:]).decode(errors="replace")
        found = None
        for found in self.pattern.finditer(text):  # noqa: B007 - the last is kept
            pass
        if found is None:
            raise UnreadableReportError(f"{self.name} printed nothing that its report's pattern matches")
        told = {group: value for group, value in found.groupdict().items() if value is not None}
        times = {group: self._seconds(group, value) for group, value in told.items() if group not in _SIZES}
        size = told.get("bytes") or (told.get("received") if transfer.direction == "get" else None)
        numbers = no_report(completed, {**told, **times}, size=self._bytes(size) if size is not None else None)
        return numbers.model_copy(
            update={"total_s": times.get("total_s", numbers.total_s), "first_byte_s": times.get("first_byte_s")}
        )

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        del transfer
        return numbers.first_byte_s or 0.0

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        del transfer
        body_s = numbers.raw.get("body_s")
        if not isinstance(body_s, float):
            told = numbers.first_byte_s is not None and "total_s" in numbers.raw
            body_s = numbers.total_s - (numbers.first_byte_s or 0.0) if told else 0.0
        return body_s if body_s > 0 else None

    def _bytes(self, text: str) -> int:
        try:
            size = int(text)
        except ValueError:
            size = -1
        if size < 0:
            raise UnreadableReportError(f"{self.name} reports {text[:40]!r} bytes")
        return size

    def _seconds(self, group: str, text: str) -> float:
        """A bare number is seconds; any other has its unit: 250.1ms."""
        try:
            seconds = float(text)
        except ValueError:
            try:
                seconds = Duration.parse(text).ns / 1e9
            except ValueError:
                seconds = -1.0
        if not (math.isfinite(seconds) and seconds >= 0):
            raise UnreadableReportError(f"{self.name} reports {text[:40]!r} as {group}")
        return seconds
