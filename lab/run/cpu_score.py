"""The speed of a host's processor at the time of a run, so that CPU seconds of two machines can be compared.

It takes two seconds of one core: SHA-256 over 64 MiB, five times, with the standard library, and AES-128-GCM with `openssl speed`
if that is installed. The score is the median of the five; the spread is reported with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from lab.hosts.host import Host
from lab.model.errors import LabFault

ROUNDS = 5


@dataclass(frozen=True)
class CpuScore:
    """10^6 bytes per second of one core; `spread` is (fastest - slowest) / median."""

    mbps: float
    spread: float
    aes128gcm_mbps: float | None = None

    @property
    def facts(self) -> dict[str, object]:
        """For a host's snapshot."""
        return {"cpu_score_MBps": self.mbps, "cpu_score_spread": self.spread, "cpu_aes128gcm_MBps": self.aes128gcm_mbps}


def measure_cpu_score(host: Host) -> CpuScore:
    return parse_score(host.cpu_score(ROUNDS))


def parse_score(text: str) -> CpuScore:
    """Raises LabFault if the text is not what the script prints, or a figure is not a number."""
    figures: dict[str, list[float]] = {}
    for line in text.splitlines():
        name, _, figure = line.partition(" ")
        try:
            figures.setdefault(name, []).append(float(figure))
        except ValueError:
            raise LabFault(f"the CPU score's script printed {line[:80]!r}") from None
    rounds = figures.get("sha256", [])
    if len(rounds) < ROUNDS or not all(0 < value < float("inf") for values in figures.values() for value in values):
        raise LabFault(f"the CPU score's script gave {len(rounds)} of {ROUNDS} rounds: {text[:80]!r}")
    middle = median(rounds)
    return CpuScore(middle, (max(rounds) - min(rounds)) / middle, next(iter(figures.get("aes128gcm", [])), None))
