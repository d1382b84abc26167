"""A cell whose client is a script that calls itself curl."""

from __future__ import annotations

from pathlib import Path

from lab.model.cell import Cell
from lab.model.link import Link
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, Duration, Size
from lab.run.session import Session

FAST = Topology(name="fast", description="-", link=Link(rate=BitRate.parse("100 Mbit/s"), rtt=Duration.parse("4 ms")))


def run_client(session: Session, folder: Path, name: str, text: str) -> CellResult:
    """Run the script as a client; it tells curl's version, and what it runs by `exec` is the real one."""
    path = folder / "curl"
    path.write_text(f'#!/bin/sh\ncase "$*" in *--version*|*-V*) exec /usr/bin/curl --version;; esac\n{text}\n')
    path.chmod(0o755)
    cell = Cell(
        client=ClientSpec(name=name, program=str(path)),
        topology=FAST,
        transfer=Transfer(protocol="http1", direction="get", size=Size.parse("200 kB")),
        expectation=Expectation(kind="none"),
    )
    return session.run_cell(cell)
