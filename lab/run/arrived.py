"""The lab's check of the received bytes: on the receiving host, after the clock has stopped, whatever the client says."""

from __future__ import annotations

from dataclasses import dataclass

from lab.hosts.host import Host

_COUNT = 'grep -F -- "$2 " "$1" | tail -n 1'


@dataclass(frozen=True)
class Arrived:
    """`sha256` is empty when there is no such file, or when only a count is known (the sink)."""

    size: int
    sha256: str = ""
    note: str = ""

    def problem(self, size: int, sha256: str) -> str:
        """Empty, or one line that says what is wrong."""
        if self.size != size:
            return f"{self.size} of {size} bytes arrived"
        if self.sha256 and self.sha256 != sha256:
            return f"the content is wrong: sha256 {self.sha256[:16]}... instead of {sha256[:16]}..."
        return ""


def collect(host: Host, path: str, note_path: str = "") -> Arrived:
    """Check a file and remove it, with a small text file (`note`)."""
    return Arrived(*host.collect(path, note_path))


def sink_count(host: Host, counts_path: str, uri: str) -> Arrived:
    """The bytes of this upload that the sink reports as read."""
    words = host.run(["/bin/sh", "-c", _COUNT, "count", counts_path, uri], check=False).text.split()
    return Arrived(int(words[1]) if len(words) == 2 and words[1].isdigit() else 0)
