"""ferry, the bundled engine: HTTP/1.1, HTTP/1.1 over TLS, h2 and SFTP, both ways; sets of files, and requests for one file.

Its report is one JSON document (`ferry schema`). A set's has an element of `transfers` per file, and over SFTP `set`, which sums
them up; that of requests (`ferry bench`) has `bench` instead.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab.backend.host import Completed, Host
from lab.client import windows
from lab.client.adapter import UnreadableReportError, clean_environment, identify_program, stream_rates
from lab.client.endpoints import SET_NAME, Endpoints, is_windows_path
from lab.errors import UsageProblem
from lab.paths import project_root
from lab.result.models import ClientIdentity, ClientNumbers
from lab.spec.models import Transfer

SCHEMA = "ferry-report-1"
PROGRAM_VARIABLE = "THROUGHLINE_FERRY"
_PROTOCOL = {"http1": "--http1.1", "https1": "--http1.1", "h2": "--http2"}
_VERSION = {"http/1.1": "1.1", "h2": "2"}
_LEAST_BUFFER, _LARGEST_BUFFER = 4 << 10, 16 << 20
# Over HTTP each file's URL is a word of the command line, which is kept in results.
_MOST_URLS = 200
# Evidence is worth keeping, but not megabytes of it: a minute's TCP samples, twenty minutes' slots.
_KEPT_TCP_SAMPLES = 600
_KEPT_SLOTS = 12_000


def built_ferry() -> Path:
    """Where the engine's own release build ends up in this checkout (`lab.assets.engine` makes it)."""
    return project_root() / "engine" / "target" / "release" / "ferry"


def find_ferry() -> Path:
    """`$THROUGHLINE_FERRY`, else this checkout's own build. Raises UsageProblem where there is none."""
    named = os.environ.get(PROGRAM_VARIABLE, "")
    path = Path(named).expanduser().absolute() if named else built_ferry()
    if path.is_file() and os.access(path, os.X_OK):
        return path
    if named:
        raise UsageProblem(f"{PROGRAM_VARIABLE} names {path}, which is no program", remedy=f"unset {PROGRAM_VARIABLE}")
    raise UsageProblem("ferry has not been built", remedy="make setup")


@dataclass(frozen=True)
class Ferry:
    """`name` is what results call it; `program` a path on the lab's own machine, the bare `ferry` being the checkout's build, and
    `ferry.exe` its build for Windows. A Windows program on a Linux host runs under Wine (`lab.client.windows`).

    The program is copied onto the client host by `identify`, and run from there, because
    - a host's ordinary user may not be able to reach a checkout (root's lab in someone else's mode-700 home), and a container or
      a VM does not have it at all, while `Host.write` works on every host and what it wrote is gone with the network;
    - a build that ends while a cell is running must not change the client under test: the checksum in the result is of the copy.
    """

    name: str = "ferry"
    program: str = "ferry"
    # `--sndbuf`, where a study wants another than its default.
    sndbuf: str = ""

    @property
    def body_clock(self) -> Literal["client"]:
        return "client"

    def identify(self, host: Host) -> ClientIdentity:
        """Bring the program onto the host, and say what it is. Must come before the first `command` is run."""
        source = self._source() if host.platform == "linux" or self.program != "ferry" else windows.find_ferry()
        try:
            image = source.read_bytes()
        except OSError as error:
            raise UsageProblem(f"client {self.name}: {source}: {error.strerror}", remedy=f"give {self.name}=PATH") from None
        copy = self._copy(str(host.workdir))
        if host.platform == "linux" and windows.is_windows_program(image):
            return windows.identify_under_wine(host, self.name, image, copy, ["--version"])
        if host.platform == "windows" and not windows.is_windows_program(image):
            raise UsageProblem(f"client {self.name}: {source} is no program for Windows", remedy=windows.BUILD)
        host.copy(source, copy, mode=0o755)
        return identify_program(host, self.name, copy, ["--version"])

    def supports(self, transfer: Transfer) -> str:
        if transfer.buffer_size is not None and not _LEAST_BUFFER <= transfer.buffer_size.bytes <= _LARGEST_BUFFER:
            return "ferry's buffer is 4 KiB to 16 MiB"
        if transfer.protocol == "sftp" and transfer.parallel > 1:
            return "over SFTP ferry itself decides how many files it moves at once"
        if transfer.requests and transfer.limit is not None:
            return "ferry makes many requests by its bench, which has no limit"
        if transfer.requests and transfer.buffer_size is not None:
            return "ferry makes many requests by its bench, which has no buffer size"
        if transfer.kept_set and transfer.protocol != "sftp" and transfer.files > _MOST_URLS:
            return f"over HTTP ferry is given every URL on its command line, here at most {_MOST_URLS}"
        return ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        # Only the report goes to standard output: its own bar would, if at all, be on standard error.
        verb = "bench" if transfer.requests else transfer.direction
        words = [self._copy(endpoints.client_workdir), verb, "--quiet", "--json", "-"]
        if transfer.protocol == "sftp":
            words += ["--known-hosts", endpoints.known_hosts_path, "--identity", endpoints.ssh_key_path, "--no-agent"]
        else:
            words.append(_PROTOCOL[transfer.protocol])
        if transfer.protocol in ("https1", "h2"):
            words += ["--cacert", endpoints.ca_path]
        if transfer.limit is not None:
            words += ["--limit-rate", str(transfer.limit.byte_s)]
        if transfer.buffer_size is not None:
            words += ["--buffer-size", str(transfer.buffer_size.bytes)]
        if self.sndbuf:
            words += ["--sndbuf", self.sndbuf]
        url = endpoints.url(transfer, user=True)
        if transfer.direction == "put":
            return [*words, endpoints.source_path, url]
        if transfer.requests:
            return [*words, "-n", str(transfer.files), "-p", str(transfer.parallel), "-c", _connections(transfer), url]
        if transfer.discard:
            return [*words, "--discard", url]
        if transfer.files > 1 and transfer.protocol != "sftp":
            # Files are named by their URLs into the folder where it runs: over HTTP there is no other for several.
            words += ["--limit-each"] if transfer.limit is not None else []
            urls = [f"{url}{SET_NAME % index}" for index in range(transfer.files)]
            return ["env", "-C", endpoints.output_path, *words, "--parallel", str(transfer.parallel), "-O", *urls]
        if transfer.files > 1:
            return [*words, "-r", url, "--output", endpoints.output_path]
        return [*words, "--overwrite", "-o", endpoints.output_path, url]

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        del transfer, endpoints
        return {}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return dict(clean_environment(endpoints))

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        report = _report(completed)
        try:
            if transfer.requests:
                return _bench_numbers(report)
            if transfer.files > 1:
                return _set_numbers(report) if transfer.protocol == "sftp" else _several_numbers(transfer, report)
            return _numbers(transfer, report)
        except UnreadableReportError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UnreadableReportError(f"ferry's report cannot be read: {error!r}") from None

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        """From the program's first attempt to the begin of the body clock; earlier attempts and their waits included.

        A set's is that of the file told first.
        """
        if transfer.requests:
            # What comes before the first request is the process's time besides.
            return max(0.0, numbers.total_s - (self.body_seconds(transfer, numbers) or 0.0))
        return _before_last_attempt_s(numbers.raw) + (_phase(numbers.raw, "body_start_s") or 0.0)

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        """ferry's body clock, the same for both directions: an upload's stops when the last byte has left its kernel.

        None for a transfer that took several attempts: the clock is the last one's, and the bytes are not. A set's is from the
        first body byte of any file to the last of any; over HTTP nobody's clock is that of all. That of requests is from the
        first request to the last answer.
        """
        if transfer.requests:
            bench = numbers.raw.get("bench")
            return (_seconds(bench.get("seconds"), "bench.seconds") if isinstance(bench, dict) else None) or None
        if transfer.files > 1 and transfer.protocol != "sftp":
            return None
        if transfer.files > 1:
            told = numbers.raw.get("set")
            return (_seconds(told.get("body_s"), "set.body_s") if isinstance(told, dict) else None) or None
        if len(_list(numbers.raw, "attempts")) > 1:
            return None
        body_s = _phase(numbers.raw, "body_s")
        return body_s if body_s else None

    def _source(self) -> Path:
        """The program on the lab's own machine."""
        if self.program == "ferry":
            return find_ferry()
        if found := shutil.which(self.program):
            return Path(found).absolute()
        if self.program == windows.FERRY:
            return windows.find_ferry()
        # Files from Windows seldom have the mark of a program.
        if windows.is_windows_file(path := Path(self.program).expanduser()):
            return path.absolute()
        remedy = windows.BUILD if Path(self.program).name == windows.FERRY else f"give {self.name}=PATH"
        raise UsageProblem(f"client {self.name}: there is no program {self.program}", remedy=remedy)

    def _copy(self, workdir: str) -> str:
        return f"{workdir}/bin/{self.name}/ferry{'.exe' if is_windows_path(workdir) else ''}"


def _report(completed: Completed) -> dict[str, Any]:
    """The document, and that it is one of ours."""
    try:
        report = json.loads(completed.stdout)
    except (ValueError, RecursionError) as error:
        what = "no report (--json -)" if not completed.stdout.strip() else f"no JSON: {str(error)[:80]}"
        raise UnreadableReportError(f"ferry printed {what}") from None
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise UnreadableReportError(f"ferry's report is not {SCHEMA}")
    return report


def _numbers(transfer: Transfer, report: dict[str, Any]) -> ClientNumbers:
    transfers = report["transfers"]
    if not transfers:
        why = str((report.get("error") or {}).get("message") or "it tells of no transfer").split("\n", maxsplit=1)[0]
        raise UnreadableReportError(f"ferry: {why}")
    told: dict[str, Any] = transfers[0]
    phases: dict[str, object] = told["phases"]
    times = {name: _seconds(value, name) for name, value in phases.items() if name.endswith("_s")}
    total_s = times["total_s"]
    if total_s is None:
        raise ValueError("phases.total_s is null")
    earlier_s = _before_last_attempt_s(told)
    connected = _after(earlier_s, times, ("dns_s", "connect_s"))
    return ClientNumbers(
        bytes=int(told["offset"]) + int(told["bytes"]),
        total_s=earlier_s + total_s,
        first_byte_s=_first_byte_s(transfer, earlier_s, times),
        connect_s=connected,
        tls_s=_after(earlier_s, times, ("dns_s", "connect_s", "tls_s")) if times.get("tls_s") is not None else None,
        http_version=_VERSION.get(str(told["protocol"])),
        status=int(told["status"]) if told["status"] else None,
        raw={"version": report.get("version"), "process": report.get("process"), **_bounded(told)},
    )


def _set_numbers(report: dict[str, Any]) -> ClientNumbers:
    """`raw` keeps the sums and the first transfer, whose connection is everybody's: a thousand of them would be megabytes."""
    told, transfers = report.get("set"), report["transfers"]
    if not transfers or not isinstance(told, dict):
        why = str((report.get("error") or {}).get("message") or "it tells of no set").split("\n", maxsplit=1)[0]
        raise UnreadableReportError(f"ferry: {why}")
    first: dict[str, Any] = transfers[0]
    phases: dict[str, object] = first["phases"]
    times = {name: _seconds(value, name) for name, value in phases.items() if name.endswith("_s")}
    total_s = _seconds(told["total_s"], "set.total_s")
    if total_s is None:
        raise ValueError("set.total_s is null")
    _seconds(told["body_s"], "set.body_s")
    return ClientNumbers(
        bytes=int(told["bytes"]),
        total_s=total_s,
        connect_s=_after(0.0, times, ("dns_s", "connect_s")),
        raw={"version": report.get("version"), "process": report.get("process"), **_bounded(first), "set": told},
    )


def _several_numbers(transfer: Transfer, report: dict[str, Any]) -> ClientNumbers:
    """Of several files over HTTP: the first one's connection, the sum of all bytes, each one's rate and the process's time.

    `raw` keeps the first transfer, as of a set over SFTP.
    """
    transfers: list[dict[str, Any]] = report["transfers"]
    first = _numbers(transfer, report)
    total_s = _seconds(report["process"]["wall_s"], "process.wall_s")
    if total_s is None:
        raise ValueError("process.wall_s is null")
    versions = sorted({_VERSION.get(str(each["protocol"]), str(each["protocol"])) for each in transfers})
    # The clock of one that took several attempts is the last one's, and the bytes are not.
    bodies = [(each["bytes"], None if len(_list(each, "attempts")) > 1 else _phase(each, "body_s")) for each in transfers]
    return first.model_copy(
        update={
            "bytes": sum(int(each["offset"]) + int(each["bytes"]) for each in transfers),
            "total_s": total_s,
            "http_version": " and ".join(versions),
            "status": max(int(each["status"] or 0) for each in transfers) or None,
            "stream_byte_s": stream_rates(bodies),
        }
    )


def _bench_numbers(report: dict[str, Any]) -> ClientNumbers:
    told = report.get("bench")
    if not isinstance(told, dict):
        why = str((report.get("error") or {}).get("message") or "it tells of no requests").split("\n", maxsplit=1)[0]
        raise UnreadableReportError(f"ferry: {why}")
    total_s = _seconds(report["process"]["wall_s"], "process.wall_s")
    if total_s is None:
        raise ValueError("process.wall_s is null")
    _seconds(told["seconds"], "bench.seconds")
    return ClientNumbers(
        bytes=int(told["bytes"]),
        total_s=total_s,
        http_version=_VERSION.get(str(told["protocol"])),
        raw={"version": report.get("version"), "process": report.get("process"), "bench": told},
    )


def _connections(transfer: Transfer) -> str:
    """HTTP/1.1 has a connection for each that is under way, h2 one for all."""
    return "1" if transfer.protocol == "h2" else str(transfer.parallel)


def _first_byte_s(transfer: Transfer, earlier_s: float, times: Mapping[str, float | None]) -> float | None:
    """The answer's first byte. A download's follows the request, an upload's the last byte of the body."""
    if times.get("first_byte_s") is None:
        return None
    before = ("body_start_s", "body_s") if transfer.direction == "put" else ("dns_s", "connect_s", "tls_s")
    return _after(earlier_s, times, (*before, "first_byte_s"))


def _after(earlier_s: float, times: Mapping[str, float | None], names: tuple[str, ...]) -> float | None:
    """ferry tells durations, a sample holds instants: the sum of the phases `names`; None when none of them happened."""
    known = [times.get(name) for name in names]
    return earlier_s + sum(value or 0.0 for value in known) if any(value is not None for value in known) else None


def _before_last_attempt_s(told: Mapping[str, object]) -> float:
    """What went before the attempt whose phases are told: earlier attempts, and every wait."""
    attempts = _list(told, "attempts")
    waits = sum(_seconds(attempt.get("waited_s"), "waited_s") or 0.0 for attempt in attempts)
    return waits + sum(_seconds(attempt.get("total_s"), "total_s") or 0.0 for attempt in attempts[:-1])


def _list(told: Mapping[str, object], name: str) -> list[dict[str, object]]:
    value = told.get(name)
    return value if isinstance(value, list) else []


def _phase(raw: Mapping[str, object], name: str) -> float | None:
    phases = raw.get("phases")
    return _seconds(phases.get(name), name) if isinstance(phases, dict) else None


def _seconds(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return float(value)


def _bounded(told: dict[str, Any]) -> dict[str, Any]:
    """The whole transfer; of very long runs the TCP samples are thinned and the slots left out, which is said."""
    kept = dict(told)
    tcp = _list(told, "tcp")
    if len(tcp) > _KEPT_TCP_SAMPLES:
        step = math.ceil(len(tcp) / _KEPT_TCP_SAMPLES)
        kept["tcp"] = tcp[::step]
        kept["tcp_every"] = step
    series = told.get("series")
    if isinstance(series, dict) and len(_list(series, "bytes")) > _KEPT_SLOTS:
        kept["series"] = None
        kept["series_left_out"] = len(series["bytes"])
    return kept
