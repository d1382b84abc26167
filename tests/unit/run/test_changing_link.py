"""A link with a schedule runs in virtual time with samples; elsewhere one line says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.cell import Cell
from lab.model.errors import NotSupported
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import ByteRate, Size
from lab.run.clocks import clock_for
from tests.support.command import lab, one_line

TEXT = """name: tunnel
description: A test.
link:
  rate: 20 Mbit/s
  rtt: 40 ms
schedule:
  steps:
    - at: 1 s
      outage: 1 s
"""


def cell(program: str = "curl") -> Cell:
    topology = Topology.model_validate(
        {
            "name": "tunnel",
            "description": "A test.",
            "link": {"rate": "20 Mbit/s", "rtt": "40 ms"},
            "schedule": {"steps": [{"at": "1 s", "outage": "1 s"}]},
        }
    )
    transfer = Transfer(protocol="http1", direction="get", size=Size.parse("1 MB"), limit=ByteRate.parse("1 MB/s"))
    return Cell(client=ClientSpec(name="curl", program=program), topology=topology, transfer=transfer, expectation=Expectation())


def test_it_runs_in_virtual_time() -> None:
    assert clock_for([cell()], "auto") == "virtual"


def test_real_time_is_refused() -> None:
    with pytest.raises(NotSupported, match="tunnel has a schedule, which runs in virtual time only"):
        clock_for([cell()], "real")


def test_a_cell_that_needs_real_time_is_refused() -> None:
    with pytest.raises(NotSupported, match=r"Windows program .* and tunnel has a schedule, which runs in virtual time only"):
        clock_for([cell("curl.exe")], "auto")


@pytest.mark.parametrize("words", [("shell", "--clock", "real", "--topology"), ("up",)], ids=["shell", "up"])
def test_a_lab_in_real_time_refuses_it(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "tunnel.yaml"
    file.write_text(TEXT, encoding="utf-8")
    done = lab(*words, str(file), env={"ROUGHWATER_RESULTS": str(tmp_path)}, timeout=60)
    assert done.returncode == 2
    assert "tunnel has a schedule, which runs in virtual time only" in one_line(done)


def test_a_run_in_real_time_refuses_it_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "tunnel.yaml"
    file.write_text(TEXT, encoding="utf-8")
    words = ("run", "curl--tunnel--http1-get-1MB", "--topology", str(file), "--clock", "real")
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(tmp_path / "results")}, timeout=60)
    assert done.returncode == 2
    assert "tunnel has a schedule, which runs in virtual time only (--clock virtual)" in one_line(done)
