"""The commands of the lab that are killed: one row for each backend and for each kind of work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from lab.clients.ferry import find_ferry

LAB = (sys.executable, "-c", "from lab.cli.start import main; main()")
CELL = "curl--dsl-20--http1-get-5MiB-at-2MBps"
VIRTUAL = ("run", CELL, "--clock", "virtual")
# It would ask for up to 80.
FEW = ("--max-samples", "5")
CONTAINERS = ("run", CELL, "--backend", "compose", *FEW)
_NETWORK = "name: torment\ndescription: d\nlink:\n  rate: 20 Mbit/s\n  rtt: 20 ms\n"


@dataclass(frozen=True)
class Row:
    """The command's words, in which `{work}` stands for a folder."""

    name: str
    words: tuple[str, ...]
    containers: bool = False
    tidy: tuple[str, ...] = ()
    """Another command, which removes what this one leaves on purpose: the network of `lab up`."""


ROWS = (
    Row("run, virtual", (*VIRTUAL, *FEW)),
    Row("run a suite, virtual", ("run", "throttle", "--client", "curl", "--include", "mail", *FEW)),
    Row("run with captures, virtual", (*VIRTUAL, "--pcap", *FEW)),
    Row("run, namespaces", ("run", CELL, "--clock", "real", *FEW)),
    Row("run, containers", CONTAINERS, containers=True, tidy=("down", "--all")),
    Row("qualify", ("qualify", str(find_ferry()), "--baseline", "curl", "--quick", "--clock", "virtual")),
    Row("harm", ("harm", "curl", "--topology", "dsl-20", "--size", "2 MiB", "--save", "{work}/out.json")),
    Row("search limit", ("search", "limit", "curl", "--topology", "dsl-20")),
    Row("repro", ("repro", "sftp-upload-window")),
    Row("shell, virtual", ("shell", "--clock", "virtual", "--rate", "20mbit", "--", "sleep", "4")),
    Row("shell, namespaces", ("shell", "--rate", "20mbit", "--", "sleep", "4")),
    Row("up", ("up", "{work}/torment.yaml"), tidy=("down", "--all")),
    Row("calibrate", ("calibrate", "--rate", "20mbit", "--clock", "virtual")),
    Row("simulate", ("simulate",)),
    Row("report", ("report", "{work}/run")),
    Row("compare", ("compare", "{work}/run", "{work}/run", "--html", "{work}/out.html")),
    Row("export", ("export", "hyperfine", "{work}/run", "--output", "{work}/out.json")),
    Row("history", ("history", "--reindex", "--from", "{work}/stored")),
    Row("bundle", ("bundle", CELL, "--run", "{work}/run", "-o", "{work}/out.zip")),
    Row("rerun", ("rerun", "{work}/cell.zip")),
    Row("doctor", ("doctor",)),
)


def furnish(work: Path) -> None:
    """What the rows need in their folder, apart from a stored run, which is made by a command (`kills.Torment`)."""
    (work / "torment.yaml").write_text(_NETWORK)
