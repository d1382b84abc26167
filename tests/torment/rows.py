"""The commands of the lab that are killed: one row for each backend and for each kind of work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from lab.clients.ferry import find_ferry

LAB = (sys.executable, "-m", "lab.cli.main")
CELL = "curl--dsl-20--http1-get-5MiB-at-2MBps"
VIRTUAL = ("run", CELL, "--clock", "virtual")
_NETWORK = "name: torment\ndescription: d\nlink:\n  rate: 20 Mbit/s\n  rtt: 20 ms\n"


@dataclass(frozen=True)
class Row:
    """The command's words, in which `{work}` stands for a folder. It is killed at most `latest_s` after its start, or later where
    it takes longer to come to what it is killed in."""

    name: str
    words: tuple[str, ...]
    latest_s: float
    containers: bool = False
    measures: bool = True
    """Whether it has a network and tells of samples."""
    tidy: tuple[str, ...] = ()
    """Another command, which removes what this one leaves on purpose: the network of `lab up`."""


ROWS = (
    Row("run, virtual", VIRTUAL, 8),
    Row("run a suite, virtual", ("run", "throttle", "--client", "curl", "--include", "mail", "--max-samples", "5"), 15),
    Row("run with captures, virtual", (*VIRTUAL, "--pcap"), 8),
    Row("run, namespaces", ("run", CELL, "--clock", "real"), 8),
    Row("run, containers", ("run", CELL, "--backend", "compose"), 12, containers=True, tidy=("down", "--all")),
    Row("qualify", ("qualify", str(find_ferry()), "--baseline", "curl", "--quick", "--clock", "virtual"), 20),
    Row("harm", ("harm", "curl", "--topology", "dsl-20", "--size", "2 MiB", "--save", "{work}/out.json"), 12),
    Row("search limit", ("search", "limit", "curl", "--topology", "dsl-20"), 12),
    Row("repro", ("repro", "sftp-upload-window"), 8),
    Row("shell, virtual", ("shell", "--clock", "virtual", "--rate", "20mbit", "--", "sleep", "20"), 6, measures=False),
    Row("shell, namespaces", ("shell", "--rate", "20mbit", "--", "sleep", "20"), 6, measures=False),
    Row("up", ("up", "{work}/torment.yaml"), 4, tidy=("down", "--all"), measures=False),
    Row("calibrate", ("calibrate", "--rate", "20mbit", "--clock", "virtual"), 6, measures=False),
    Row("simulate", ("simulate",), 4, measures=False),
    Row("report", ("report", "{work}/run"), 4, measures=False),
    Row("compare", ("compare", "{work}/run", "{work}/run", "--html", "{work}/out.html"), 4, measures=False),
    Row("export", ("export", "hyperfine", "{work}/run", "--output", "{work}/out.json"), 3, measures=False),
    Row("history", ("history", "--reindex"), 4, measures=False),
    Row("bundle", ("bundle", CELL, "--run", "{work}/run", "-o", "{work}/out.zip"), 4, measures=False),
    Row("rerun", ("rerun", "{work}/cell.zip"), 8),
    Row("doctor", ("doctor",), 4, measures=False),
)


def furnish(work: Path) -> None:
    """What the rows need in their folder, apart from a stored run, which is made by a command (`kills.Torment`)."""
    (work / "torment.yaml").write_text(_NETWORK)
