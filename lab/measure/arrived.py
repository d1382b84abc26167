"""What really arrived: checked by the lab on the receiving host after the clock has stopped, whatever the client says."""

from __future__ import annotations

from dataclasses import dataclass

from lab.backend.chores import chores_of
from lab.backend.host import Host

# What a client's processes are known by, those too that left its process group, which dies with it.
SAMPLE_VARIABLE = "THROUGHLINE_SAMPLE"
_END = """\
for left in $(grep -lsxzF -- "$1" /proc/[0-9]*/environ); do
    left=${left#/proc/}; kill -9 "${left%/environ}" 2>/dev/null
done
"""
# One command: checksum and size, then a small file to the end, and both are gone, so that a run does not fill the host's tmpfs.
_COLLECT = """\
if [ -f "$1" ]; then sum=$(sha256sum -b -- "$1") && echo "${sum%% *} $(stat -c %s -- "$1")"; else echo "- 0"; fi
[ -z "$2" ] || cat -- "$2" 2>/dev/null
rm -f -- "$1" "$2"
"""
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


def end_processes(host: Host, sample: str) -> None:
    """End what has `sample` as its SAMPLE_VARIABLE: what a client leaves running would be on the link of the next sample.

    Only root may look into every environment; a container's root, without that capability, ends nothing.
    """
    if chores := chores_of(host):
        chores.end_processes()
        return
    host.run(["/bin/sh", "-c", _END, "end", f"{SAMPLE_VARIABLE}={sample}"], root=True, check=False)


def collect(host: Host, path: str, note_path: str = "") -> Arrived:
    """Check a file and remove it, with a small text file besides (`note`)."""
    if chores := chores_of(host):
        # A note is GNU time's, which such a host has not.
        return Arrived(*chores.collect(path))
    done = host.run(["/bin/sh", "-c", _COLLECT, "collect", path, note_path], check=False, timeout_s=300)
    first, _, note = done.text.partition("\n")
    sha256, _, size = first.partition(" ")
    return Arrived(int(size) if size.isdigit() else 0, sha256.lstrip("\\") if sha256 != "-" else "", note)


def sink_count(host: Host, counts_path: str, uri: str) -> Arrived:
    """What the sink says it has read of this upload."""
    words = host.run(["/bin/sh", "-c", _COUNT, "count", counts_path, uri], check=False).text.split()
    return Arrived(int(words[1]) if len(words) == 2 and words[1].isdigit() else 0)
