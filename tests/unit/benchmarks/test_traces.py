"""A delivered series is compared with the recorded one, not with the plan made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.traces import Compared, recorded_bytes, topology_of
from lab.link.trace import planned_bytes

FRAME = 1514


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rates_of_pensieve_become_bytes_per_slot(folder: Path) -> None:
    (folder / "bus").write_text("0 1\n0.25 8\n0.3 16\n")
    # 8 Mbit/s are 100 kB in 100 ms; half of the third slot has 16. Then it begins again.
    assert recorded_bytes("bus", "down", 4) == pytest.approx([100e3, 100e3, 150e3, 100e3])


def test_directions_of_a_table_are_apart(folder: Path) -> None:
    (folder / "line.csv").write_text("time_s,down_mbit_s,up_mbit_s\n0,8,4\n1,8,4\n")
    assert recorded_bytes("line.csv", "down", 2) == pytest.approx([100e3, 100e3])
    assert recorded_bytes("line.csv", "up", 2) == pytest.approx([50e3, 50e3])


def test_packets_of_mahimahi_are_frames(folder: Path) -> None:
    (folder / "line.down").write_text("10\n20\n150\n200\n")
    assert recorded_bytes("line.down", "down", 2) == pytest.approx([3 * FRAME, FRAME])


@given(mbit_s=st.lists(st.floats(0.1, 50), min_size=1, max_size=5))
def test_the_plan_is_within_a_frame_of_the_file(tmp_path_factory: pytest.TempPathFactory, mbit_s: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("traces")
        patch.chdir(folder)
        lines = ["0 0", *(f"{(index + 1) * 0.3:.1f} {rate:.6f}" for index, rate in enumerate(mbit_s))]
        (folder / "made").write_text("\n".join(lines) + "\n")
        topology = topology_of("made")
        assert topology.schedule is not None
        trace = topology.schedule.trace
        assert trace is not None
        assert not isinstance(trace, str)
        slots = 3 * len(mbit_s)
        planned = planned_bytes(trace, topology.link, "down", slots, 100)
        found = Compared("made", "down", planned, recorded_bytes("made", "down", slots))
    assert found.worst_frames <= 1 + 1e-6


def test_a_frame_too_many_is_seen() -> None:
    found = Compared("made", "down", [101 * FRAME, 11 * FRAME, 0], [100.0 * FRAME, 10.0 * FRAME, 0.0])
    assert found.worst_frames == pytest.approx(1)
    assert found.worst_share(0) == pytest.approx(0.1)
    assert found.worst_share(100) == pytest.approx(0.01)
    assert found.mean_error == pytest.approx(2 / 110)
    assert found.row[4:6] == ["1", "1.00"]
