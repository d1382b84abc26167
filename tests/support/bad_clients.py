"""A cell whose client is a script that calls itself curl."""

from __future__ import annotations

from pathlib import Path

from lab.result.models import CellResult
from lab.runner.session import Session
from lab.spec.models import Cell, ClientSpec, Expectation, Link, Topology, Transfer
from lab.spec.units import BitRate, Duration, Size

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
