"""The delays that netem draws from: tc's own tables of distributions, as this machine's tc reads them."""

from __future__ import annotations

from pathlib import Path

from lab.link.counting import TABLE_UNIT

# iproute2's LIB_DIR on Debian's architectures and elsewhere.
_FOLDERS = ("/usr/lib/x86_64-linux-gnu/tc", "/usr/lib/tc", "/usr/lib64/tc", "/usr/share/tc")
_UNIFORM_VALUES = 4000


def table(distribution: str, delay_ns: int, spread_ns: int) -> list[float]:
    """Delays in ns, each as likely as any other."""
    if distribution == "uniform":
        return [delay_ns + spread_ns * (2 * (index + 0.5) / _UNIFORM_VALUES - 1) for index in range(_UNIFORM_VALUES)]
    path = next(path for folder in _FOLDERS if (path := Path(folder, f"{distribution}.dist")).is_file())
    lines = (line.partition("#")[0] for line in path.read_text(encoding="ascii").splitlines())
    return [max(0.0, delay_ns + spread_ns * int(word) / TABLE_UNIT) for line in lines for word in line.split()]
