"""A packet capture of one interface of a host, as evidence next to a sample, and the keys of its TLS connections.

Most libraries of TLS write their keys to the file that SSLKEYLOGFILE names, for Wireshark. A transfer that is captured and uses
TLS has that variable, and a name of its own; the file is then fetched next to the capture, for its owner alone, and never
printed. Records can be decrypted where they are complete, so such packets are kept to their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.hosts.clocks import REAL, Clock
from lab.hosts.host import Host
from lab.model.errors import LabFault

# Ethernet, IP, TCP with all options and the first bytes of a TLS or SSH record; content is not evidence.
SNAP_BYTES = 128
KEYS_VARIABLE = "SSLKEYLOGFILE"
_PATIENCE_S = 5.0
_PAUSE_S = 0.005


def tcpdump_command(port: str, program: str = "tcpdump", *, complete: bool = False) -> list[str]:
    """The capture goes to stdout, so that the file is on the lab's machine. `complete`: packets to their end.

    `--immediate-mode`: else up to a second of packets is still in the kernel's block at the end, and lost. `-Z root`: tcpdump
    otherwise becomes the user `tcpdump`, who does not exist in a user namespace.
    """
    snap = "0" if complete else str(SNAP_BYTES)
    return [program, "-i", port, "-s", snap, "-B", "16384", "--immediate-mode", "-n", "-Z", "root", "-w", "-"]


@contextmanager
def capture(
    host: Host, port: str, file: Path, *, program: str = "tcpdump", clock: Clock = REAL, complete: bool = False
) -> Iterator[Path]:
    """Captures while the block runs. Raises LabFault with tcpdump's own words when it cannot."""
    file.parent.mkdir(parents=True, exist_ok=True)
    said = file.with_suffix(".log")
    process = host.start(tcpdump_command(port, program, complete=complete), root=True, stdout=file, stderr=said)
    try:
        deadline_ns = clock.monotonic_ns() + round(_PATIENCE_S * 1e9)
        process.sync()
        while "listening on" not in _text(said):
            if not process.running() or clock.monotonic_ns() > deadline_ns:
                raise LabFault(f"{host.name}: tcpdump does not capture on {port}: {_text(said).strip() or 'it says nothing'}")
            clock.sleep(_PAUSE_S)
            process.sync()
        yield file
    finally:
        process.stop()
        said.unlink(missing_ok=True)


def keys_of(capture: Path) -> Path:
    """The file of a capture's keys."""
    return capture.with_suffix(".keys")


def fetch_keys(host: Host, path: str, file: Path) -> None:
    """Move the keys that a client has written on its host to `file`; no file where there are none."""
    keys = host.run(["cat", path], root=True, check=False).stdout
    host.run(["rm", "-f", "--", path], root=True, check=False)
    if keys:
        file.touch(mode=0o600)
        file.write_bytes(keys)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
