"""A packet capture of one interface of a host, as evidence next to a sample."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.hosts.clocks import REAL, Clock
from lab.hosts.host import Host
from lab.model.errors import LabFault

# Ethernet, IP, TCP with all options and the first bytes of a TLS or SSH record; content is not evidence.
SNAP_BYTES = 128
_PATIENCE_S = 5.0
_PAUSE_S = 0.005


def tcpdump_command(port: str, program: str = "tcpdump") -> list[str]:
    """The capture goes to stdout, so that the file is on the lab's machine.

    `--immediate-mode`: else up to a second of packets is still in the kernel's block at the end, and lost. `-Z root`: tcpdump
    otherwise becomes the user `tcpdump`, who does not exist in a user namespace.
    """
    return [program, "-i", port, "-s", str(SNAP_BYTES), "-B", "16384", "--immediate-mode", "-n", "-Z", "root", "-w", "-"]


@contextmanager
def capture(host: Host, port: str, file: Path, *, program: str = "tcpdump", clock: Clock = REAL) -> Iterator[Path]:
    """Captures while the block runs. Raises LabFault with tcpdump's own words when it cannot."""
    file.parent.mkdir(parents=True, exist_ok=True)
    said = file.with_suffix(".log")
    process = host.start(tcpdump_command(port, program), root=True, stdout=file, stderr=said)
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


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
