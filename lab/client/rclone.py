"""rclone over SFTP: `copyto` of one file, `copy` of a set. Configured by options only; its last line of JSON tells what it moved.

Its own defaults, but for three: it does not have the server compute a checksum of every file (`--sftp-disable-hashcheck`; no
other client here does, and the lab checks what arrived), it looks for no shell to do so in (`--sftp-shell-type none`), and it
does not hide a failure behind a second attempt (`--retries 1`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from lab.backend.host import Completed, Host
from lab.client.adapter import UnreadableReportError, clean_environment, identify_program, no_report
from lab.client.endpoints import Endpoints
from lab.client.openssh import LARGEST_BUFFER, LEAST_BUFFER
from lab.result.models import ClientIdentity, ClientNumbers
from lab.spec.models import Transfer

_NOTES = (
    "defaults: --transfers 4 (connections), --checkers 8, --sftp-concurrency 64 requests per file of --sftp-chunk-size 32Ki; "
    "from 250 MiB on a download is cut in four (--multi-thread-streams 4)",
)


@dataclass(frozen=True)
class Rclone:
    """`name` is what results call it; `program` a path or a name to be found on the host's PATH."""

    name: str = "rclone"
    program: str = "rclone"

    @property
    def body_clock(self) -> Literal["wire"]:
        return "wire"

    def identify(self, host: Host) -> ClientIdentity:
        return identify_program(host, self.name, self.program, ["version"], notes=_NOTES)

    def supports(self, transfer: Transfer) -> str:
        if transfer.protocol != "sftp":
            return "the lab's rclone speaks SFTP only"
        if transfer.buffer_size is not None and not LEAST_BUFFER <= transfer.buffer_size.bytes <= LARGEST_BUFFER:
            return "rclone's buffer (--sftp-chunk-size) is one request: 1 KiB to 255 KiB"
        return ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        remote, local = f":sftp:{endpoints.remote_path(transfer)}", endpoints.local_path(transfer)
        words = [self.program, "copy" if transfer.files > 1 else "copyto"]
        words += [local, remote] if transfer.direction == "put" else [remote, local]
        # An empty name of a configuration file: there is none, and none is looked for.
        words += ["--config=", "--retries", "1", "--use-json-log", "--stats", "24h", "--stats-log-level", "NOTICE"]
        words += ["--sftp-host", endpoints.server, "--sftp-port", str(endpoints.ssh_port), "--sftp-user", endpoints.ssh_user]
        words += ["--sftp-key-file", endpoints.ssh_key_path, "--sftp-known-hosts-file", endpoints.known_hosts_path]
        words += ["--sftp-disable-hashcheck", "--sftp-shell-type", "none"]
        if transfer.limit is not None:
            words += ["--bwlimit", f"{transfer.limit.byte_s}B"]
        if transfer.buffer_size is not None:
            words += ["--sftp-chunk-size", f"{transfer.buffer_size.bytes}B"]
        return words

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        del transfer, endpoints
        return {}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return dict(clean_environment(endpoints))

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        """Bytes as rclone counts them. Its times are of its own counters (`elapsedTime`), so the process's are taken."""
        del transfer
        stats = _stats(completed)
        size = stats.get("bytes")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise UnreadableReportError(f"rclone reports {str(size)[:40]!r} bytes")
        return no_report(completed, {"stats": stats}, size=size)

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        del transfer, numbers
        return 0.0

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        del transfer, numbers
        return None


def _stats(completed: Completed) -> dict[str, Any]:
    """The last `stats` of its log, one JSON document a line."""
    for line in reversed(completed.stderr.decode(errors="replace").splitlines()):
        if '"stats"' not in line:
            continue
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            break
        if isinstance(told, dict) and isinstance(told.get("stats"), dict):
            return dict(told["stats"])
    raise UnreadableReportError("rclone printed no stats (--use-json-log)")
