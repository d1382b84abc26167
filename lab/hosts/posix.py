"""The tasks of the lab on a host with a POSIX shell and Python: each is a script that runs there.

Standard library only: containers import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Literal

from lab.hosts import linux_facts, linux_settings, loopback
from lab.hosts.command_host import CommandHost, Started_co
from lab.hosts.host import CollectedFile, Completed, Host
from lab.hosts.scripts import script_command
from lab.hosts.tcp_counters import read_counters
from lab.hosts.wiring import LEAF
from lab.model.errors import LabFault

_PAYLOAD_SCRIPT = Path(__file__).with_name("payload_script.py")
_CPU_SCORE_SCRIPT = Path(__file__).with_name("cpu_score_script.py")
_CPU_SCORE_S = 120.0
_CHECKSUM_S = 300.0
_END_PROCESSES = """\
for left in $(grep -lsxzF -- "$1" /proc/[0-9]*/environ); do
    left=${left#/proc/}; kill -9 "${left%/environ}" 2>/dev/null
done
"""
# One command: checksum and size, then a small file to the end. Both are removed, or a run would fill the host's tmpfs.
_COLLECT = """\
if [ -f "$1" ]; then sum=$(sha256sum -b -- "$1") && echo "${sum%% *} $(stat -c %s -- "$1")"; else echo "- 0"; fi
[ -z "$2" ] || cat -- "$2" 2>/dev/null
rm -f -- "$1" "$2"
"""
# Prints path and sha256, then runs the program for its version: one command on the host instead of three. $2 is another program
# that prints the version, on either stream. It runs by the name that the client is run by: a link tells a Python its environment.
_IDENTIFY = """\
path=$(command -v -- "$1") || exit 127
real=$(readlink -f -- "$path") && sum=$(sha256sum -- "$real") || exit 126
echo "$real"; echo "${sum%% *}"
teller=$2; shift 2
[ -z "$teller" ] || exec "$teller" "$@" 2>&1
exec "$path" "$@"
"""


class PosixHost(CommandHost[Started_co]):
    """A `Host` except for starting commands and for reading and writing files."""

    platform: Literal["linux"] = "linux"
    tap_port: str = ""
    on_loopback = False
    """True if client and server are this host, and its loopback is its only port."""
    reports_peak_memory = False
    name: str
    address: str
    workdir: PurePath

    @property
    def capture_port(self) -> str:
        return loopback.LOOPBACK if self.on_loopback else LEAF

    def pin(self: Host, congestion_control: str, mtu: int) -> None:
        if self.capture_port == loopback.LOOPBACK:
            loopback.pin(self, congestion_control)
        else:
            linux_settings.pin(self, congestion_control, mtu)

    def unpinned(self: Host, congestion_control: str) -> list[str]:
        if self.capture_port == loopback.LOOPBACK:
            return loopback.unpinned(self, congestion_control)
        return linux_settings.unpinned(self, congestion_control)

    def bypass(self: Host, other: Host) -> str:
        if self.capture_port == loopback.LOOPBACK:
            return loopback.bypass(self)
        return linux_settings.bypass(self, other)

    def retransmits(self: Host) -> int:
        return read_counters(self)["TcpRetransSegs"]

    def facts(self: Host) -> dict[str, object]:
        return linux_facts.linux_facts(self)

    def put(self, files: Mapping[PurePath, Path]) -> None:
        for path, source in files.items():
            self.copy(source, path)

    def prepare_folder(self, path: str) -> None:
        self.run(["/bin/sh", "-ec", 'rm -rf -- "$1"; mkdir -p -- "$1"', "prepare", path], timeout_s=60)

    def make_payload(self: Host, path: PurePath, size: int, seed: int, count: int = 0, name: str = "") -> list[str]:
        words = [str(size), str(seed), str(path), *([str(count), name] if count else [])]
        # Creating a file costs some 50 us, and ten times as much on a busy machine.
        timeout_s = 10 + size * max(1, count) / 20e6 + count / 2000
        done = self.run(script_command(self, _PAYLOAD_SCRIPT, *words), check=False, timeout_s=timeout_s)
        if done.returncode or done.timed_out:
            raise LabFault(f"{self.name}: the payload {path.name} could not be written to {path}: {done.error_text}")
        return done.text.split()

    def collect(self, path: str, note_path: str = "") -> CollectedFile:
        done = self.run(["/bin/sh", "-c", _COLLECT, "collect", path, note_path], check=False, timeout_s=_CHECKSUM_S)
        first, _, note = done.text.partition("\n")
        sha256, _, size = first.partition(" ")
        return CollectedFile(int(size) if size.isdigit() else 0, sha256.lstrip("\\") if sha256 != "-" else "", note)

    def end_processes(self, variable: str) -> None:
        self.run(["/bin/sh", "-c", _END_PROCESSES, "end", variable], root=True, check=False)

    def identify(
        self, program: str, version_flags: Sequence[str], teller: str = "", env: Mapping[str, str] | None = None
    ) -> Completed:
        return self.run(["/bin/sh", "-c", _IDENTIFY, "identify", program, teller, *version_flags], env=env, check=False)

    def cpu_score(self: Host, rounds: int) -> str:
        return self.run(script_command(self, _CPU_SCORE_SCRIPT, str(rounds)), timeout_s=_CPU_SCORE_S).text
