"""Round trips over an idle path, as ping(8) times them."""

from __future__ import annotations

import re

from lab.hosts.host import Host
from lab.model.errors import LabFault

# One process per probe, one after the other: ping(8) prints single times in three digits, but its summary in microseconds, and
# probes side by side would wait for each other's start. $1 probes, $2 address.
_PING = """\
i=0
while [ $i -lt $1 ]; do ping -n -q -c 1 -W 2 "$2"; i=$((i + 1)); done
"""


def ping(host: Host, address: str, probes: int) -> list[float]:
    """Round trips in ms over the idle link; at least three must come back (a lossy link may eat some)."""
    done = host.run(["/bin/sh", "-c", _PING, "ping", str(probes), address], root=True, check=False, timeout_s=60)
    times = [float(text) for text in re.findall(r"^rtt [^=]*= ([\d.]+)/", done.text, re.MULTILINE)]
    if len(times) < 3:
        raise LabFault(f"only {len(times)} of {probes} pings crossed the link: {done.error_text}")
    return times
