"""The lab's application on libcurl (`lab/assets/libcurl`): what programs do that use the library and not curl's tool.

Its options are those of libcurl (`LibcurlSettings`); a transfer's buffer size is CURLOPT_BUFFERSIZE of a download and
CURLOPT_UPLOAD_BUFFERSIZE of an upload. Its times are its own: the first and the last call of its write or read callback.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from lab.assets.curl_versions import order
from lab.clients.adapter import UnreadableReportError, clean_environment, identify_program, stream_rates
from lab.clients.curl import body_seconds
from lab.hosts.host import Completed, Host
from lab.model.endpoint import LAB_PROTOCOLS
from lab.model.endpoints import Endpoints
from lab.model.libcurl import LibcurlSettings
from lab.model.results import ClientIdentity, ClientNumbers
from lab.model.transfer import Transfer
from lab.model.units import Size

_HTTP = {"http1": "1.1", "https1": "1.1", "h2": "2"}
_MARK = "roughwater-libcurl "
_EACH = "roughwater-file "
_TEXTS = ("libcurl", "interface", "error")
_NUMBERS = (
    *("code", "done", "bytes", "status", "http_version", "connects"),
    *("time_namelookup", "time_connect", "time_appconnect", "time_pretransfer"),
    *("first_byte_s", "last_byte_s", "total_s", "callbacks", "largest_callback", "turns"),
)
_VERSIONS = {1: "1.0", 2: "1.1", 3: "2", 30: "3"}
_MOST_PARALLEL = 1000
# libcurl takes a value outside these bounds for the nearest one inside and says nothing.
_UPLOAD_BUFFER = (Size(16 * 1024), Size(2 * 1024**2))
_UPLOAD_BUFFER_SINCE = (7, 62, 0)
_BUFFER_LEAST = Size(1024)
_BUFFER_MOST = ((7, 88, 0), Size(512 * 1024), Size(10 * 1024**2))


@dataclass(frozen=True)
class Libcurl:
    """`name` is its name in results; `program` the path of an application that the lab compiled."""

    name: str
    program: str
    settings: LibcurlSettings = field(default_factory=LibcurlSettings)
    # Protocols that this libcurl was built without.
    lacks: tuple[str, ...] = ()
    # Its number, for bounds that changed; empty where it is not known.
    version: str = ""
    notes: tuple[str, ...] = ()

    def identify(self, host: Host) -> ClientIdentity:
        changed = self.settings.model_dump(mode="json", exclude_defaults=True, exclude={"version"})
        notes = (*self.notes, ", ".join(f"{key}: {value}" for key, value in changed.items()))
        return identify_program(host, self.name, self.program, ["--version"], notes=[note for note in notes if note])

    def supports(self, transfer: Transfer) -> str:
        if transfer.protocol not in LAB_PROTOCOLS:
            return f"{self.name} moves files of the lab's own servers: it does not speak {transfer.protocol}"
        if transfer.protocol == "h3":
            return f"the lab builds {self.name} without HTTP/3"
        if transfer.protocol in self.lacks:
            return f"{self.name} was built without {transfer.protocol}"
        if transfer.protocol == "sftp" and (transfer.chunked or transfer.sink):
            return "chunked and sink are properties of an HTTP server"
        if transfer.parallel > _MOST_PARALLEL:
            return f"{self.name} moves at most {_MOST_PARALLEL} files at once"
        return self._buffer_problem(transfer)

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        words = [self.program, *self._options(transfer)]
        if transfer.protocol in _HTTP:
            words += ["--http", _HTTP[transfer.protocol]]
        if transfer.protocol in ("https1", "h2"):
            words += ["--cacert", endpoints.ca_path]
        if transfer.protocol == "sftp":
            words += ["--user", endpoints.ssh_user, "--key", endpoints.ssh_key_path, "--pubkey", f"{endpoints.ssh_key_path}.pub"]
            words += ["--known-hosts", endpoints.known_hosts_path]
        slash = "/" if transfer.kept_set else ""
        if transfer.direction == "put":
            return [*words, "put", endpoints.url(transfer), f"{endpoints.source_path}{slash}"]
        output = endpoints.nowhere if transfer.discard else f"{endpoints.output_path}{slash}"
        return [*words, "get", endpoints.url(transfer), output]

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        del transfer, endpoints
        return {}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return dict(clean_environment(endpoints))

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        report = _report(completed)
        if report["done"] > transfer.files:
            raise UnreadableReportError(f"{self.name} reports {report['done']:.0f} of {transfer.files} transfers")
        http = transfer.protocol != "sftp"
        return ClientNumbers(
            bytes=int(report["bytes"]),
            total_s=report["total_s"],
            first_byte_s=report["first_byte_s"] or None,
            connect_s=report["time_connect"] or None,
            tls_s=report["time_appconnect"] or None if http else None,
            http_version=_VERSIONS.get(int(report["http_version"])) if http else None,
            status=int(report["status"]) or None if http else None,
            stream_byte_s=_streams(completed) if _each(transfer) else [],
            raw=report,
        )

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        """The first call of its callback: the first byte received, or the first about to go."""
        del transfer
        return numbers.first_byte_s or 0.0

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        """A download's first to last callback. An upload's as for curl: libcurl has taken a byte long before it leaves."""
        if transfer.direction == "put":
            return body_seconds(transfer, numbers)
        body_s = float(str(numbers.raw["last_byte_s"])) - (numbers.first_byte_s or 0.0)
        return body_s if body_s > 0 and transfer.parallel == 1 else None

    def _options(self, transfer: Transfer) -> list[str]:
        chosen, size = self.settings, transfer.buffer_size
        words = []
        if chosen.interface == "multi" or transfer.parallel > 1:
            words += ["--multi", "--wait", chosen.wait, "--every-ms", f"{chosen.every.ms:.0f}"]
            if chosen.idle.ns:
                words += ["--idle-ms", f"{chosen.idle.ms:.0f}"]
        if chosen.timer.ns:
            words += ["--tick-us", f"{chosen.timer.ns // 1000}"]
        for option, amount in (
            ("--buffer", size or chosen.buffer),
            ("--upload-buffer", (size if transfer.direction == "put" else None) or chosen.upload_buffer),
            ("--receive-window", chosen.receive_window),
            ("--send-window", chosen.send_window),
        ):
            words += [option, str(amount.bytes)] if amount else []
        if transfer.limit is not None:
            words += ["--limit", str(transfer.limit.byte_s)]
        if transfer.files > 1:
            words += ["--files", str(transfer.files)]
        if transfer.parallel > 1:
            words += ["--parallel", str(transfer.parallel)]
        if not chosen.no_delay:
            words.append("--nagle")
        if chosen.unknown_size and transfer.direction == "put":
            words.append("--unknown-size")
        if _each(transfer):
            words.append("--each")
        return words

    def _buffer_problem(self, transfer: Transfer) -> str:
        size = transfer.buffer_size
        if size is None:
            return ""
        number = order(self.version) if re.fullmatch(r"\d+(\.\d+)+", self.version) else None
        if transfer.direction == "put":
            if number and number < _UPLOAD_BUFFER_SINCE:
                return f"{self.name} has no CURLOPT_UPLOAD_BUFFERSIZE (since 7.62.0)"
            option, (least, most) = "CURLOPT_UPLOAD_BUFFERSIZE", _UPLOAD_BUFFER
        else:
            since, before, after = _BUFFER_MOST
            option, least, most = "CURLOPT_BUFFERSIZE", _BUFFER_LEAST, before if number and number < since else after
        return "" if least <= size <= most else f"{self.name} takes {least} to {most} as {option}"


def _each(transfer: Transfer) -> bool:
    """True if the rate of each file is wanted: for several files over HTTP, unless they are requests without a limit."""
    return transfer.files > 1 and transfer.protocol != "sftp" and (not transfer.requests or transfer.limit is not None)


def _streams(completed: Completed) -> list[float]:
    lines = re.findall(rf"^{_EACH}(\d+) \S+ (\S+) (\S+) \S+$", completed.text, re.MULTILINE)
    try:
        return stream_rates((int(size), float(last) - float(first)) for size, first, last in lines)
    except ValueError:
        raise UnreadableReportError(f"the application's line of a file cannot be read: {lines[0]!r}") from None


def _report(completed: Completed) -> dict[str, Any]:
    lines = re.findall(rf"^{_MARK}.*$", completed.text, re.MULTILINE)
    if not lines:
        raise UnreadableReportError("the application printed no report")
    try:
        told = json.loads(lines[-1].removeprefix(_MARK))
        found = {key: float(told[key]) for key in _NUMBERS}
        named = {key: str(told[key]) for key in _TEXTS}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableReportError(f"the application's report cannot be read: {error!r} in {lines[-1][:120]!r}") from None
    if not all(math.isfinite(value) and value >= 0 for value in found.values()):
        raise UnreadableReportError(f"the application's report has impossible numbers: {lines[-1][:120]!r}")
    return {**named, **found}
