"""OpenSSH's sftp in batch mode: SFTP both ways, sets by `put -r` and `get -r`. Without a terminal it prints no numbers at all.

Its cipher is what client and server agree on, as for every other client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from lab.backend.host import Completed, Host
from lab.client.adapter import clean_environment, identify_program, no_report
from lab.client.endpoints import Endpoints
from lab.result.models import ClientIdentity, ClientNumbers
from lab.spec.models import Transfer

# sftp itself takes any size. One byte per request takes minutes; from 256 KiB on a WRITE is no message any more ("Outbound
# message too long").
LEAST_BUFFER, LARGEST_BUFFER = 1 << 10, 255 << 10
# -l counts 1024 bits per second, so it meets a limit to within 64 B/s; below this that would be more than half a percent.
_LEAST_LIMIT = 12_800
_LIMIT_UNIT = 128
_NOTES = ("at most 64 requests in flight (-R), each as large as the server says unless -B is given",)


def ssh_options(endpoints: Endpoints) -> list[str]:
    """The run's own key and known hosts; nothing of the user's, and never a question."""
    options = {
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": endpoints.known_hosts_path,
        "GlobalKnownHostsFile": "none",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "BatchMode": "yes",
    }
    words = ["-F", "none", "-i", endpoints.ssh_key_path]
    for name, value in options.items():
        words += ["-o", f"{name}={value}"]
    return words


@dataclass(frozen=True)
class OpenSsh:
    """`name` is what results call it; `program` is an sftp, `openssh` being the one on the host's PATH."""

    name: str = "openssh"
    program: str = "openssh"

    @property
    def body_clock(self) -> Literal["wire"]:
        return "wire"

    def identify(self, host: Host) -> ClientIdentity:
        """sftp cannot tell its version; the ssh beside it does, which was built with it."""
        path = PurePath(self._sftp)
        ssh = str(path.with_name("ssh")) if len(path.parts) > 1 else "ssh"
        return identify_program(host, self.name, self._sftp, ["-V"], teller=ssh, notes=_NOTES)

    def supports(self, transfer: Transfer) -> str:
        if transfer.protocol != "sftp":
            return "sftp speaks SFTP only"
        if transfer.buffer_size is not None and not LEAST_BUFFER <= transfer.buffer_size.bytes <= LARGEST_BUFFER:
            return "sftp's buffer (-B) is one request: 1 KiB to 255 KiB"
        if transfer.limit is not None and transfer.limit.byte_s < _LEAST_LIMIT:
            return f"sftp counts its limit (-l) in steps of {_LIMIT_UNIT} B/s: at least {_LEAST_LIMIT / 1e3:g} kB/s"
        return ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        words = [self._sftp, "-b", _batch_path(endpoints), *ssh_options(endpoints), "-P", str(endpoints.ssh_port)]
        if transfer.buffer_size is not None:
            words += ["-B", str(transfer.buffer_size.bytes)]
        if transfer.limit is not None:
            words += ["-l", str(round(transfer.limit.byte_s / _LIMIT_UNIT))]
        return [*words, f"{endpoints.ssh_user}@{endpoints.server}"]

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        ends = [endpoints.local_path(transfer), endpoints.remote_path(transfer)]
        if transfer.direction == "get":
            ends.reverse()
        words = [transfer.direction, *(["-r"] if transfer.files > 1 else []), *(f'"{end}"' for end in ends)]
        return {_batch_path(endpoints): f"{' '.join(words)}\n".encode()}

    def environment(self, endpoints: Endpoints) -> dict[str, str]:
        return dict(clean_environment(endpoints))

    def parse(self, transfer: Transfer, completed: Completed) -> ClientNumbers:
        del transfer
        return no_report(completed)

    def body_start_s(self, transfer: Transfer, numbers: ClientNumbers) -> float:
        del transfer, numbers
        return 0.0

    def body_seconds(self, transfer: Transfer, numbers: ClientNumbers) -> float | None:
        del transfer, numbers
        return None

    @property
    def _sftp(self) -> str:
        return "sftp" if self.program == "openssh" else self.program


def _batch_path(endpoints: Endpoints) -> str:
    return f"{endpoints.client_workdir}/sftp.batch"
