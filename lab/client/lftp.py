"""lftp over SFTP: `get` and `put` of one file, `mirror` of a set. It runs ssh, and without a terminal it prints no numbers.

Everything it is told stands in a file of its own commands, with none of the user's: its defaults but for what a limit or a buffer
asks for, and that a failure is one at once.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

from lab.backend.host import Completed, Host
from lab.client.adapter import clean_environment, identify_program, no_report
from lab.client.endpoints import Endpoints
from lab.client.openssh import LARGEST_BUFFER, LEAST_BUFFER, ssh_options
from lab.result.models import ClientIdentity, ClientNumbers
from lab.spec.models import Transfer

_NOTES = (
    "sftp:max-packets-in-flight 16 of 32 KiB (sftp:size-read, sftp:size-write) unless a buffer size is given; one file at a time",
)


@dataclass(frozen=True)
class Lftp:
    """`name` is what results call it; `program` a path or a name to be found on the host's PATH."""

    name: str = "lftp"
    program: str = "lftp"

    @property
    def body_clock(self) -> Literal["wire"]:
        return "wire"

    def identify(self, host: Host) -> ClientIdentity:
        return identify_program(host, self.name, self.program, ["--version"], notes=_NOTES)

    def supports(self, transfer: Transfer) -> str:
        if transfer.protocol != "sftp":
            return "the lab's lftp speaks SFTP only"
        if transfer.buffer_size is not None and not LEAST_BUFFER <= transfer.buffer_size.bytes <= LARGEST_BUFFER:
            return "lftp's buffer (sftp:size-read, sftp:size-write) is one request: 1 KiB to 255 KiB"
        return ""

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        del transfer
        return [self.program, "--norc", "-f", _script_path(endpoints)]

    def inputs(self, transfer: Transfer, endpoints: Endpoints) -> dict[str, bytes]:
        # lftp appends user, port and subsystem to its connect program, and runs it in a shell.
        ssh = shlex.join(["ssh", "-a", "-x", *ssh_options(endpoints)])
        lines = [
            "set cmd:fail-exit yes",
            "set cmd:interactive no",
            "set net:max-retries 1",
            "set xfer:clobber yes",
            f"set sftp:connect-program {_quoted(ssh)}",
        ]
        if transfer.limit is not None:
            lines.append(f"set net:limit-rate {transfer.limit.byte_s}:{transfer.limit.byte_s}")
        if transfer.buffer_size is not None:
            lines += [f"set sftp:size-{way} {transfer.buffer_size.bytes}" for way in ("read", "write")]
        # The comma is an empty password: without it lftp would ask for one, which the key makes unnecessary.
        lines.append(f"open -u {endpoints.ssh_user}, sftp://{endpoints.server}:{endpoints.ssh_port}")
        lines.append(_action(transfer, endpoints))
        return {_script_path(endpoints): "".join(f"{line}\n" for line in lines).encode()}

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


def _action(transfer: Transfer, endpoints: Endpoints) -> str:
    local, remote = _quoted(endpoints.local_path(transfer)), _quoted(endpoints.remote_path(transfer))
    if transfer.files > 1:
        return f"mirror -R {local} {remote}" if transfer.direction == "put" else f"mirror {remote} {local}"
    return f"put {local} -o {remote}" if transfer.direction == "put" else f"get {remote} -o {local}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _script_path(endpoints: Endpoints) -> str:
    return f"{endpoints.client_workdir}/lftp.script"
