"""A cell packed, and run again from the file alone: the same verdict, and a tampered file refused before anything is started."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.comparison import Comparison
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Ratio, Size
from lab.run.session import Options, Session
from lab.store.bundle import CELL, read_bundle
from lab.store.run_dir import RunDir
from tests.support.command import lab, one_line

# In no file of the project's: everything that is needed comes out of the bundle.
MINE = Topology(name="mine", description="-", link=Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("4 ms")))
TRANSFER = Transfer(protocol="http1", direction="put", size=Size.parse("500 kB"), limit=ByteRate.parse("1 MB/s"))
WIDE = Expectation(kind="limit", tolerance=Ratio.parse("30 %"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("there")
    cell = Cell(client=ClientSpec(name="ferry"), topology=MINE, transfer=TRANSFER, expectation=WIDE)
    run = RunDir.create("test", results=folder)
    with Session(run, Options(clock="virtual", pcap=True, virtual_looks=LookPlan(looks=(3, 6)))) as session:
        result = session.run_cell(cell)
    assert result.verdict.name == "PASS", result.verdict.reason
    path = folder / "cell.zip"
    done = lab("bundle", cell.id, "--run", str(run.path), "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path


def test_the_rerun_agrees(packed: Path, tmp_path: Path) -> None:
    there = read_bundle(packed)
    assert [member.name for member in there.manifest.members] == [CELL, *(f"pcap/sample-{index:03d}.pcap" for index in range(3))]
    done = lab("rerun", str(packed), "--json", env={"ROUGHWATER_RESULTS": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    found = Comparison.model_validate_json(done.stdout)
    (row,) = found.answers
    assert (row.arm("A").verdict, row.arm("B").verdict, row.verdict.name) == ("PASS", "PASS", "PASS")
    (here,) = RunDir.find("latest", results=tmp_path).read_cells()
    assert (here.topology, here.transfer, here.expectation) == (MINE, TRANSFER, WIDE)
    assert here.client.sha256 == there.cell.client.sha256
    assert found.b.run == here.run


def test_the_captures_have_the_packets_of_the_body(packed: Path, tmp_path: Path) -> None:
    """Another program reads them: every sequence number of the upload once, and the time that the wire gave the body."""
    cell = read_bundle(packed).cell
    with zipfile.ZipFile(packed) as archive:
        for sample in cell.samples:
            capture = tmp_path / "capture.pcap"
            capture.write_bytes(archive.read(f"pcap/{Path(sample.pcap or '').name}"))
            printed = subprocess.run(
                ["tcpdump", "-nn", "-tt", "-S", "-r", str(capture), "tcp dst port 80"], capture_output=True, text=True, check=True
            ).stdout
            segments = [(float(t), int(a), int(b)) for t, a, b in re.findall(r"^([\d.]+) .* seq (\d+):(\d+),", printed, re.M)]
            head, *_ = segments
            end = max(last for _, _, last in segments)
            assert end - head[1] - TRANSFER.total_bytes in range(1, 1024), "the request's head, and the body"
            body = [at for at, first, _ in segments if first >= end - TRANSFER.total_bytes]
            assert sample.body_s == pytest.approx(body[-1] - body[0], abs=0.01)


def test_a_client_that_is_not_here_is_one_line(packed: Path, tmp_path: Path) -> None:
    done = lab("rerun", str(packed), "--client", "ferry=/nowhere/ferry", env={"ROUGHWATER_RESULTS": str(tmp_path / "results")})
    assert done.returncode == 2, done.stderr
    assert "/nowhere/ferry" in one_line(done)
    assert "ferry=PATH" in one_line(done)
    assert len(done.stderr.splitlines()) == 1, "nothing was booted, or its progress would be there"
    assert not (tmp_path / "results" / "latest").is_symlink(), "a run that came to nothing is gone"


def test_a_tampered_sample_is_refused(packed: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == CELL:
                document = json.loads(content)
                document["samples"][0]["deviation"] = 0.0
                content = json.dumps(document).encode()
            target.writestr(name, content)
    done = lab("rerun", str(changed), env={"ROUGHWATER_RESULTS": str(tmp_path / "results")})
    assert done.returncode == 2
    assert "cell.json was changed: its SHA-256 is not the one in the manifest" in one_line(done)
    assert not (tmp_path / "results").exists()
