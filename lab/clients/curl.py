"""curl, any version since 7.60 (several at once since 7.66): HTTP/1.1, over TLS too, h2, h3 and SFTP, both ways; sets of files.
To endpoints it speaks FTP, with TLS or without, WebDAV and forms too.

A set is one process and, unless several files come at once over HTTP/1.1, one connection: a range of names in the URL (or in
-T), which is short in a result and no list of files. Requests for one file are the same with a query that nginx ignores.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.clients.adapter import UnreadableReportError, clean_environment, identify_program, stream_rates
from lab.hosts.host import Completed, Host
from lab.model.endpoint import LAB_PROTOCOLS, protocol_words
from lab.model.endpoints import SET_NAME, Endpoints
from lab.model.results import ClientIdentity, ClientNumbers
from lab.model.transfer import Transfer

_PROTOCOL = {
    "http1": ["--http1.1"],
    "https1": ["--http1.1"],
    "h2": ["--http2"],
    "h3": ["--http3-only"],
    "webdav": ["--http1.1"],
    "form": ["--http1.1"],
    "ftps": ["--ssl-reqd"],
}
_SPOKEN = (*LAB_PROTOCOLS, "ftp", "ftps", "webdav", "form")
_OTHERWISE = ("ftp", "ftps", "form")
_HTTP = ("http1", "https1", "h2", "h3", "webdav", "form")
_TEXT = ("http_version", "scheme")
_NUMBERS = (
    "http_code",
    "num_connects",
    "size_download",
    "size_upload",
    "speed_download",
    "speed_upload",
    "time_namelookup",
    "time_connect",
    "time_appconnect",
    "time_pretransfer",
    "time_starttransfer",
    "time_total",
)
# Spelt out instead of `%{json}`, which came in 7.70 and whose keys differ between versions; on a line of its own, with a mark.
_MARK = "roughwater-curl "
WRITE_OUT = (
    f"\\n{_MARK}{{"
    + ", ".join([f'"{key}": "%{{{key}}}"' for key in _TEXT] + [f'"{key}": "%{{{key}}}"' for key in _NUMBERS])
    + "}\\n"
)
# For 50,000 requests that would be 25 MB, so their lines have only what is needed.
_REQUEST_MARK = "roughwater-request "
_REQUEST = ("http_code", "http_version", "num_connects", "size_download", "time_starttransfer", "time_total")
_REQUEST_NUMBERS = tuple(key for key in _REQUEST if key != "http_version")
REQUEST_OUT = _REQUEST_MARK + " ".join(f"%{{{key}}}" for key in _REQUEST) + "\\n"
# A version that the lab built says in its name whether it has --out-null; a program of another name answers for itself.
_VERSION = re.compile(r"curl@(\d+)\.(\d+)\.")
_OUT_NULL = (8, 16)
# Above its limit --parallel-max silently becomes 50.
_MOST_PARALLEL = 300


def write_out(transfer: Transfer) -> str:
    """The argument of curl's -w that `Curl.parse` reads."""
    return REQUEST_OUT if transfer.requests else WRITE_OUT


@dataclass(frozen=True)
class Curl:
    """`name` is its name in results (`curl`, `curl-8.5.0`); `program` a path, or a name on the host's PATH."""

    name: str = "curl"
    program: str = "curl"
    # Protocols it was built without; `parallel` if it can only move one file after the other.
    lacks: tuple[str, ...] = ()
    # Recorded with the identity in every result.
    notes: tuple[str, ...] = ()

    def identify(self, host: Host) -> ClientIdentity:
        return identify_program(host, self.name, self.program, ["-q", "--version"], known="curl", notes=self.notes)

    def supports(self, transfer: Transfer) -> str:
        if transfer.buffer_size is not None:
            return "curl has no option for its buffer size"
        if unspoken := self._unspoken(transfer.protocol):
            return unspoken
        if transfer.protocol == "sftp" and (transfer.chunked or transfer.sink):
            return "chunked and sink are properties of an HTTP server"
        if transfer.parallel > 1 and "parallel" in self.lacks:
            return f"{self.name} moves one file after the other"
        if transfer.parallel > _MOST_PARALLEL:
            return f"curl moves at most {_MOST_PARALLEL} files at once"
        version = _VERSION.match(self.name)
        lacks_out_null = version is not None and (int(version[1]), int(version[2])) < _OUT_NULL
        return f"{self.name} has no --out-null, which curl 8.16.0 brought" if transfer.no_file and lacks_out_null else ""

    def _unspoken(self, protocol: str) -> str:
        """The reason why this program does not speak the protocol; empty if it does."""
        if protocol not in _SPOKEN:
            return f"curl does not speak {protocol_words(protocol)}"
        built_here = protocol == "h3" and _VERSION.match(self.name) is not None
        if protocol in self.lacks or built_here:
            return f"{self.name} was built without {protocol}{' (curl@debian13 has it)' if built_here else ''}"
        return ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        # -q must come first to keep ~/.curlrc out; a failed request must be a failed command (--fail).
        words = [self.program, "-q", "-sS", "--fail", "-w", write_out(transfer)]
        words += _PROTOCOL.get(transfer.protocol, [])
        if transfer.over_tls or transfer.protocol == "ftps" or endpoints.url(transfer).startswith("https:"):
            words += ["--cacert", endpoints.ca_path]
        if transfer.protocol == "sftp":
            # The server is checked against $HOME/.ssh/known_hosts (see `environment`), in every version, unlike --hostpubsha256.
            words += [
                "--key",
                endpoints.ssh_key_path,
                "--pubkey",
                f"{endpoints.ssh_key_path}.pub",
                "-u",
                f"{endpoints.ssh_user}:",
            ]
        if transfer.limit is not None:
            words += ["--limit-rate", str(transfer.limit.byte_s)]
        if transfer.parallel > 1:
            words += ["--parallel", "--parallel-max", str(transfer.parallel)]
        if transfer.requests:
            return [*words, *_output(transfer, endpoints), f"{endpoints.url(transfer)}?[1-{transfer.files}]"]
        if transfer.files > 1:
            return [*words, *_set(transfer, endpoints)]
        if transfer.direction == "put":
            form = transfer.protocol == "form"
            words += (
                ["-F", f"file=@{endpoints.source_path};filename={endpoints.upload_name}"]
                if form
                else ["-T", endpoints.source_path]
            )
            if transfer.protocol in _HTTP:
                # Without this, HTTP/1.1 uploads wait a round trip for `100 Continue`: after the clock of the body has started.
                words += ["-H", "Expect:"]
        return [*words, *_output(transfer, endpoints), endpoints.url(transfer)]

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        del transfer, endpoints
        return {}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return dict(clean_environment(endpoints))

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        """For a set: connection and first byte of its first file, the sums of all, because curl's clock starts again for each
        file.

        Several files at once have no common clock, so their total is the time of the process.
        """
        reports = _request_reports(completed) if transfer.requests else _reports(completed)
        if len(reports) > transfer.files:
            raise UnreadableReportError(f"curl printed {len(reports)} reports of {transfer.files} transfers")
        report = reports[0]
        size = "size_upload" if transfer.direction == "put" else "size_download"
        if transfer.files > 1:
            connects = sum(each["num_connects"] for each in reports)
            report = {**report, "set": {"reports": len(reports), "num_connects": connects}}
        versions = sorted({each["http_version"] for each in reports} - {"", "0"})
        return ClientNumbers(
            # curl counts the boundaries and headers of a form too.
            bytes=None if transfer.protocol == "form" else sum(int(each[size]) for each in reports),
            total_s=completed.wall_s if transfer.parallel > 1 else math.fsum(each["time_total"] for each in reports),
            first_byte_s=report["time_starttransfer"] or None,
            connect_s=report.get("time_connect") or None,
            tls_s=report.get("time_appconnect") or None,
            http_version=" and ".join(versions) or None,
            status=max(int(each["http_code"]) for each in reports) or None,
            stream_byte_s=_streams(transfer, reports),
            raw=report,
        )

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        return body_start_s(transfer, numbers)

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        return body_seconds(transfer, numbers)


def _output(transfer: Transfer, endpoints: Endpoints) -> list[str]:
    """The answers' destination: a file, a file each (`#1` is the number in the URL's range), the null device, or none at all."""
    if transfer.no_file:
        return ["--out-null"]
    if transfer.repeat:
        return ["-o", f"{endpoints.output_path}/#1"]
    return ["-o", endpoints.nowhere if transfer.discard else endpoints.output_path]


def _set(transfer: Transfer, endpoints: Endpoints) -> list[str]:
    first, last = SET_NAME % 0, SET_NAME % (transfer.files - 1)
    names = f"{first[0]}[{first[1:]}-{last[1:]}]"
    if transfer.direction == "put":
        return ["-T", f"{endpoints.source_path}/{names}", endpoints.url(transfer)]
    return ["-o", f"{endpoints.output_path}/{first[0]}#1", f"{endpoints.url(transfer)}{names}"]


def body_start_s(transfer: Transfer, numbers: ClientNumbers) -> float:
    """The time when the first body byte came (download: `time_starttransfer`) or was about to go (upload: `time_pretransfer`)."""
    if transfer.direction == "get":
        return numbers.first_byte_s or 0.0
    # Not time_starttransfer, which some versions set by the answer's first byte.
    return float(str(numbers.raw["time_pretransfer"]))


def body_seconds(transfer: Transfer, numbers: ClientNumbers) -> float | None:
    """First to last body byte by curl's own clock, in seconds; None for an inconsistent report and for parallel transfers.

    A download ends at `time_total` (last byte). An upload ends when the answer arrives, so one round trip is subtracted,
    as measured by the TCP handshake (`time_connect` - `time_namelookup`): curl before 8.10 does not report its last byte sent.
    Over SFTP two are subtracted, for the acknowledgement of the last write and for the close. None also over FTP, where
    `time_starttransfer` and `time_pretransfer` lie in the dialogue before the content, or after its first bytes, by version;
    and for a form, whose body is more than the file.
    """
    if transfer.parallel > 1 or transfer.protocol in _OTHERWISE:
        return None
    body_s = numbers.total_s - body_start_s(transfer, numbers)
    if transfer.direction == "put":
        round_trip_s = float(str(numbers.raw["time_connect"])) - float(str(numbers.raw["time_namelookup"]))
        body_s -= round_trip_s * (2 if transfer.protocol == "sftp" else 1)
    return body_s if body_s > 0 else None


def _lines(mark: str, completed: Completed) -> list[str]:
    """The lines that begin with the mark. A search, because a list of all lines of a hundred megabytes would fill the memory."""
    return re.findall(rf"^{re.escape(mark)}.*$", completed.text, re.MULTILINE)


def _reports(completed: Completed) -> list[dict[str, Any]]:
    """The lines that WRITE_OUT asked for, one per file."""
    lines = _lines(_MARK, completed)
    if not lines:
        raise UnreadableReportError("curl printed no report (-w)")
    return [_report(line) for line in lines]


def _request_reports(completed: Completed) -> list[dict[str, Any]]:
    """The lines that REQUEST_OUT asked for."""
    lines = _lines(_REQUEST_MARK, completed)
    if not lines:
        raise UnreadableReportError("curl printed no report (-w)")
    return [_checked(dict(zip(_REQUEST, line.split()[1:], strict=False)), line) for line in lines]


def _streams(transfer: Transfer, reports: Sequence[dict[str, Any]]) -> list[float]:
    """The body rate of each of several files over HTTP; empty for unlimited requests, where it has no meaning."""
    if transfer.files == 1 or transfer.protocol == "sftp" or (transfer.requests and not transfer.limit):
        return []
    return stream_rates((each["size_download"], each["time_total"] - each["time_starttransfer"]) for each in reports)


def _report(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line.removeprefix(_MARK))
    except (ValueError, RecursionError) as error:
        raise UnreadableReportError(f"curl's report cannot be read: {error!r} in {line[:120]!r}") from None
    if not isinstance(told, dict):
        raise UnreadableReportError(f"curl's report cannot be read: it is not an object, {line[:120]!r}")
    return _checked(told, line, _TEXT, _NUMBERS)


def _checked(
    told: dict[str, Any], line: str, texts: Sequence[str] = ("http_version",), numbers: Sequence[str] = _REQUEST_NUMBERS
) -> dict[str, Any]:
    """Numbers as numbers. Some versions print a size as a float, some a decimal comma."""
    try:
        found = {key: float(str(told[key]).replace(",", ".")) for key in numbers}
        named = {key: str(told[key]) for key in texts}
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableReportError(f"curl's report cannot be read: {error!r} in {line[:120]!r}") from None
    if not all(math.isfinite(value) and value >= 0 for value in found.values()):
        raise UnreadableReportError(f"curl's report has impossible numbers: {line[:120]!r}")
    return {**named, **found}
