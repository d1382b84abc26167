"""A link that follows a trace delivers it, opening by opening, in virtual time; the result of a cell keeps the proof."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab.hosts.virtual.network import VirtualNetwork
from lab.link.plan import plan
from lab.model.errors import LabFault
from lab.model.link import DirectionName, Link
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.model.trace import Trace, TraceDirection, packed
from lab.net import delivered
from lab.net.delivered import certify_trace, deliver
from lab.net.scheduled import scheduled
from lab.net.shape import DIRECTIONS, Shaped, read_back
from lab.store.run_dir import RunDir, read_cell
from reports.text import render_cell
from tests.support.command import lab
from tests.virtual.test_links import take

# Bursts, a stall of 300 ms and lengths that differ, neither of them a multiple of a slot.
DOWN = ([3, 0, 1, 0] * 100 + [0] * 300 + [12, 0, 0, 0, 0] * 50 + [2] * 273) * 2
UP = [0, 0, 1] * 400 + [1] * 333
CELL = "ferry--followed--http1-get-1MiB"


def followed(down: list[int] = DOWN, up: list[int] = UP, **link: object) -> Topology:
    sides = {way: TraceDirection(file=way, sha256="", frames=packed(counts)) for way, counts in (("down", down), ("up", up))}
    given = {"rate": "10 Mbit/s", "rtt": "40 ms", "queue": "200 packets", **link}
    schedule = {"trace": Trace(down=sides["down"], up=sides["up"])}
    return Topology.model_validate({"name": "followed", "description": "A test.", "link": given, "schedule": schedule})


@pytest.mark.parametrize("link", [{}, {"loss": "2 %", "jitter": "5 ms", "seed": 3}, {"mtu": 1400}], ids=["plain", "lossy", "mtu"])
def test_it_delivers_every_opening_both_ways(network: VirtualNetwork, link: dict[str, object]) -> None:
    found = certify_trace(network, followed(**link))
    for side in (found.up, found.down):
        assert side.delivered_bytes == side.planned_bytes
        assert (side.problems, side.worst_slot_frames, side.mean_error) == ([], 0, 0)
    assert 0 in found.down.planned_bytes
    assert len(found.down.planned_bytes) == 25


def test_another_trace_than_the_one_planned_is_found(network: VirtualNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(trace: Trace, *_: object) -> list[int]:
        return [2 * 1514 * sum(trace.direction("down").counts[slot * 100 : (slot + 1) * 100]) for slot in range(25)]

    monkeypatch.setattr(delivered, "planned_bytes", other)
    found = certify_trace(network, followed())
    # The last slot goes on beyond the end of the trace, which `other` does not repeat.
    assert found.down.mean_error == pytest.approx(-0.5, abs=0.03)
    assert len(found.down.problems) == 2


def test_a_gate_that_the_kernel_does_not_have_is_the_labs_fault(network: VirtualNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(trace: Trace, link: Link, way: DirectionName, port: str) -> bytes:
        return f"{port} 153 34\n\n0 0 1514\n".encode()

    monkeypatch.setattr("lab.net.scheduled._openings", elsewhere)
    with pytest.raises(LabFault, match=r"the link's schedule stopped: .*refused"):
        deliver(network, followed(), 3)


def test_round_trips_of_a_table_come_about(network: VirtualNetwork, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("time_s,rate_mbit_s,rtt_ms\n0,20,40\n1,20,90\n2,20,60\n", encoding="utf-8")
    file = tmp_path / "table.yaml"
    file.write_text("name: table\ndescription: A test.\nlink:\n  rtt: 40 ms\nschedule:\n  trace: table.csv\n", encoding="utf-8")
    with scheduled(network, load_topology(str(file))) as running:
        assert running is not None
        running.start()
        done = network.client.run(["ping", "-c", "9", "-i", "0.5", network.server.address])
    times = [float(line.partition("time=")[2].split()[0]) for line in done.text.splitlines() if "time=" in line]
    # An opening comes each 0.6 ms at that rate, on both ways.
    assert times == pytest.approx([40, 40, 90, 90, 60, 60, 40, 40, 90], abs=3)


def test_afterwards_the_link_is_the_plain_one(network: VirtualNetwork) -> None:
    topology = followed()
    link = topology.link
    with scheduled(network, topology) as running:
        assert running is not None
        running.start()
    plans = {way: plan(link.direction(way), link.rtt, supports_seed=True) for way in DIRECTIONS}
    assert read_back(network, Shaped(link, plans, ()))[0] == []


def test_the_shipped_series_is_certified() -> None:
    found = take(load_topology("made-lte"))
    assert found.ok, found.problems
    assert found.trace is not None
    assert found.trace.down.delivered_bytes == found.trace.down.planned_bytes


def test_the_result_of_a_cell_keeps_the_series(tmp_path: Path) -> None:
    (tmp_path / "line.down").write_text("".join(f"{ms}\n" for ms in range(1, 2001)), encoding="utf-8")
    file = tmp_path / "followed.yaml"
    file.write_text(
        "name: followed\ndescription: A test.\nlink:\n  rtt: 40 ms\nschedule:\n  trace: line.down\n", encoding="utf-8"
    )
    words = ("run", CELL, "--topology", str(file), "--max-samples", "5", "--json")
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(tmp_path)}, timeout=300)
    assert done.returncode == 0, done.stderr
    cell = read_cell(RunDir(tmp_path / json.loads(done.stdout)["run"]).cell_path(CELL))
    assert cell.certificate is not None
    console = Console(file=io.StringIO(), width=400)
    render_cell(cell, console)
    assert isinstance(console.file, io.StringIO)
    assert "following a trace" in console.file.getvalue()
    series = cell.certificate.before[-1].trace
    assert series is not None
    # By the seed, which follows from the programs, an acknowledgment or two of iperf3's own may fall between the frames.
    assert series.down.delivered_bytes == pytest.approx([100 * 1514] * 20, abs=757)
    worst = max(abs(series.down.worst_slot_frames), abs(series.up.worst_slot_frames))
    assert f"each 100 ms within {round(worst, 2):g} frames of the trace" in console.file.getvalue()
    bodies = [sample.body_s for sample in cell.samples if sample.body_s is not None]
    # A frame per millisecond carries 1448 bytes of it: 0.72 s at least. Slow start, from 10 frames to the 40 of a round trip,
    # leaves the line idle for at most two round trips of 40 ms, and a delayed acknowledgment for less than one more.
    assert len(bodies) == 5
    assert all(0.72 < body < 0.72 + 3 * 0.04 for body in bodies), bodies
