"""A link with a schedule changes when it should, and delivers what its plan says, in virtual time."""

from __future__ import annotations

import json
import subprocess
import sys
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path

import pytest

from lab.hosts.host import Network
from lab.hosts.scripts import script_command
from lab.hosts.virtual.network import VirtualNetwork
from lab.link.plan import QdiscPlan, plan
from lab.link.schedule import Change
from lab.model.errors import LabFault
from lab.model.link import DirectionName
from lab.model.topology import LinkState, Topology
from lab.net.ports import PortReading, PortSampler
from lab.net.scheduled import RunningSchedule, scheduled
from lab.net.shape import DIRECTIONS, Shaped, read_back, router_port
from lab.store.run_dir import RunDir, read_cell
from tests.support.command import lab

FLOOD = Path(__file__).with_name("flood_script.py")
SLOT_NS = 100_000_000
FRAME = 1514
LINK = {"rate": "20 Mbit/s", "rtt": "40 ms", "queue": "100 packets"}
STEPS = [
    {"at": "500 ms", "rate": "5 Mbit/s"},
    {"at": "1 s", "over": "500 ms", "rate": "60 Mbit/s"},
    {"at": "1.9 s", "rate": "2 Mbit/s", "up": {"rate": "1 Mbit/s"}},
    {"at": "2.4 s", "rate": "40 Mbit/s", "up": {"rate": "40 Mbit/s"}},
]
LATE_PACKET_NS = 2_400_000_000
CELL = "ferry--alive--http1-get-4MB"


def topology(steps: list[dict[str, object]], **schedule: object) -> Topology:
    given = {"name": "alive", "description": "A test.", "link": LINK, "schedule": {"steps": steps, **schedule}}
    return Topology.model_validate(given)


def flood(network: Network, changing: Topology, way: DirectionName, seconds: float) -> tuple[RunningSchedule, list[PortReading]]:
    """Fill that direction with full-sized datagrams for the schedule's first seconds."""
    sender, receiver = (network.client, network.server) if way == "up" else (network.server, network.client)
    with scheduled(network, changing) as running, PortSampler(network, interval_ms=1) as ports:
        assert running is not None
        process = sender.start(script_command(sender, FLOOD, receiver.address))
        running.start()
        network.clock.sleep(seconds)
        rows = ports.between(running.base_ns, network.clock.monotonic_ns())
        process.stop()
    return running, rows


def delivered(rows: list[PortReading], port: str, at_ns: int) -> float:
    """Bytes sent by then; between two readings evenly."""
    index = max(1, bisect_left([row.t_ns for row in rows], at_ns))
    earlier, later = rows[index - 1], rows[min(index, len(rows) - 1)]
    share = (at_ns - earlier.t_ns) / max(1, later.t_ns - earlier.t_ns)
    return earlier[port].tx_bytes + (later[port].tx_bytes - earlier[port].tx_bytes) * share


def planned(states: list[LinkState], way: DirectionName, start_ns: int, end_ns: int) -> float:
    """Bytes that the plan carries between two instants."""
    total = 0.0
    for state, following in pairwise([*states, LinkState(end_ns, states[-1].link)]):
        rate = state.link.direction(way).rate
        assert rate is not None
        total += rate.bit_s / 8e9 * max(0, min(end_ns, following.at_ns) - max(start_ns, state.at_ns))
    return total


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_full_link_delivers_its_plan_in_every_100_ms(network: VirtualNetwork, way: DirectionName) -> None:
    changing = topology(STEPS)
    assert changing.schedule is not None
    states = changing.schedule.states(changing.link)
    running, rows = flood(network, changing, way, 3.0)
    port = router_port(network, way)
    for start_ns in range(0, 3_000_000_000, SLOT_NS):
        first, last = (delivered(rows, port, running.base_ns + at_ns) for at_ns in (start_ns, start_ns + SLOT_NS))
        wanted = planned(states, way, start_ns, start_ns + SLOT_NS)
        allowed = max(0.01 * wanted, 2.5 * FRAME) if start_ns != LATE_PACKET_NS else late_packet(states, way)
        assert last - first == pytest.approx(wanted, abs=allowed), f"{way} from {start_ns / 1e9:g} s"


def late_packet(states: list[LinkState], way: DirectionName) -> float:
    """Bytes: a packet that has begun at a slow rate ends at it; what the fast rate carries meanwhile is missing."""
    slow, fast = (state.link.direction(way).rate for state in states[-2:])
    assert slow is not None
    assert fast is not None
    return (fast.bit_s / slow.bit_s + 2.5) * FRAME


def test_an_outage_lasts_as_long_as_it_says_and_ends_with_the_new_round_trip(network: VirtualNetwork) -> None:
    handover = topology([{"at": "500 ms", "outage": "200 ms", "rtt": "80 ms"}])
    running, rows = flood(network, handover, "down", 1.0)
    port = router_port(network, "down")
    silent = [
        earlier.t_ns - running.base_ns
        for earlier, later in pairwise(rows)
        if earlier.t_ns > running.base_ns + 300_000_000 and later[port].tx_packets == earlier[port].tx_packets
    ]
    # What is in the delay line (20 ms) and the queue (100 packets, 60 ms) when the outage begins still arrives; the first packet
    # after it takes 40 ms, half of the new round trip.
    assert silent[0] == pytest.approx(500e6 + 20e6 + 60e6, abs=3e6)
    assert silent[-1] == pytest.approx(700e6 + 40e6, abs=2e6)


def test_a_schedule_repeats_from_the_link_as_at_first(network: VirtualNetwork) -> None:
    again = topology([{"at": "200 ms", "rate": "2 Mbit/s"}], repeat="400 ms")
    running, rows = flood(network, again, "down", 2.0)
    port = router_port(network, "down")
    found = [
        delivered(rows, port, running.base_ns + at_ns + 2 * SLOT_NS) - delivered(rows, port, running.base_ns + at_ns)
        for at_ns in range(0, 2_000_000_000, 2 * SLOT_NS)
    ]
    assert found[0::2] == pytest.approx([500_000] * 5, abs=13 * FRAME)
    assert found[1::2] == pytest.approx([50_000] * 5, abs=3 * FRAME)


def test_afterwards_the_link_is_the_plain_one(network: VirtualNetwork) -> None:
    changing = topology([{"at": "10 ms", "rate": "1 Mbit/s"}])
    flood(network, changing, "down", 0.1)
    assert read_back(network, Shaped(changing.link, plans_of(changing), ()))[0] == []


def plans_of(topology: Topology) -> dict[str, QdiscPlan | None]:
    link = topology.link
    return {way: plan(link.direction(way), link.rtt, supports_seed=True) for way in DIRECTIONS}


def test_a_change_that_tc_refuses_is_the_labs_fault(network: VirtualNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [Change(50_000_000, (("tc", "class", "change", "dev", "nowhere", "classid", "2:1", "htb", "rate", "1mbit"),))]
    monkeypatch.setattr("lab.net.scheduled.plan_changes", lambda *_: wrong)
    with pytest.raises(LabFault, match="schedule stopped"):
        flood(network, topology(STEPS), "down", 0.2)


def test_every_sample_of_a_cell_sees_the_schedule_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "alive.yaml"
    file.write_text(
        "name: alive\ndescription: A test.\nlink:\n  rate: 20 Mbit/s\n  rtt: 40 ms\n"
        "schedule:\n  steps:\n    - at: 1 s\n      rate: 5 Mbit/s\n",
        encoding="utf-8",
    )
    words = ("run", CELL, "--topology", str(file), "--max-samples", "5", "--json")
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(tmp_path)}, timeout=300)
    assert done.returncode == 0, done.stderr
    cell = read_cell(RunDir(tmp_path / json.loads(done.stdout)["run"]).cell_path(CELL))
    assert cell.topology.schedule is not None
    bodies = [sample.body_s for sample in cell.samples if sample.body_s is not None]
    # 20 Mbit/s would carry it in 1.7 s, 5 Mbit/s in 6.7 s.
    assert bodies == pytest.approx([4.258] * 5, abs=0.02)


def test_a_shell_sees_the_schedule_from_the_beginning_of_each_command(tmp_path: Path) -> None:
    file = tmp_path / "alive.yaml"
    file.write_text(
        "name: alive\ndescription: A test.\nlink:\n  rate: 20 Mbit/s\n  rtt: 40 ms\n"
        "schedule:\n  steps:\n    - at: 1 s\n      rate: 5 Mbit/s\n",
        encoding="utf-8",
    )
    fetch = "curl -s -o /dev/null -w '%{time_total}\\n' http://server/files/5MiB; "
    done = subprocess.run(
        [sys.executable, "-m", "lab.cli.main", "shell", "--topology", str(file)],
        input=f"{fetch}\n{fetch}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # 20 Mbit/s would carry it in 2.2 s, 5 Mbit/s in 8.8 s.
    assert [float(line) for line in done.stdout.split()] == pytest.approx([6.42] * 2, abs=0.05)
