"""Rows of a suite as parts of a release: their names, whether they may run next to others, and the time that they take."""

from __future__ import annotations

from typing import Any

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Size
from lab.run.questions import BufferQuestion, CellQuestion
from lab.run.release import ANY, ReleaseRow, set_seconds

LOOKS = LookPlan(looks=(4, 8))
LINK = {"rate": "8 Mbit/s", "rtt": "100 ms"}
BEST = 1448 / 1514 * 1e6
NEW = ClientSpec(name="new")


def row(link: Any = LINK, *, name: str = "plain", buffers: tuple[int, ...] = (), topology: Any = None, **more: Any) -> ReleaseRow:
    made = Topology.model_validate({"name": name, "description": "A test.", "link": link, **(topology or {})})
    transfer = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB", **more})
    if buffers:
        study = BufferStudy(client=ANY, topology=made, transfer=transfer, buffers=tuple(map(Size, buffers)))
        return ReleaseRow(BufferQuestion(study), "why")
    cell = Cell(client=ANY, topology=made, transfer=transfer, expectation=Expectation(kind="none"))
    return ReleaseRow(CellQuestion(cell), "why")


def test_a_row_is_named_without_its_client() -> None:
    named = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "a reason")
    assert (named.name, named.why, named.buffers) == ("dsl-50--http1-get-5MiB-at-1MBps", "a reason", ())
    assert (named.topology.name, named.transfer.limit_byte_s) == ("dsl-50", 1_000_000)
    assert named.cell(NEW).id == "new--dsl-50--http1-get-5MiB-at-1MBps"
    bounded = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps--memory")
    assert (bounded.cell(NEW).expectation.kind, bounded.why) == ("memory", "")


def test_a_row_with_buffers_is_a_study_and_its_cell_has_none() -> None:
    named = ReleaseRow.named("dsl-50--http1-get-5MiB", "-", ["16 KiB", "1 MiB"])
    assert (named.name, named.buffers) == ("dsl-50--http1-get-5MiB", (Size(16 << 10), Size(1 << 20)))
    study = named.study(NEW)
    assert (study.client, study.buffers) == (NEW, named.buffers)
    cell = named.cell(NEW)
    assert (cell.client, cell.transfer.buffer_size, cell.topology.name) == (NEW, None, "dsl-50")


@pytest.mark.parametrize(
    ("made", "light"),
    [
        (row({"rate": "100 Mbit/s"}, limit="2 MB/s"), True),
        (row({"rate": "100000008 bit/s"}, limit="2 MB/s"), False),
        (row({"rate": "1 Gbit/s", "up": {"rate": "8 Mbit/s"}}, limit="1 MB/s"), False),
        (row({"rate": "8 Mbit/s", "up": {"rate": "1 Gbit/s"}}, limit="1 MB/s"), False),
        (row({"rtt": "20 ms"}, limit="1 MB/s"), False),
        (row(limit="2000001 B/s"), False),
        (row(), False),
        (row(limit="1 MB/s", buffers=(1, 2)), False),
        (row(limit="1 MB/s", files=3, parallel=3), False),
        (row(limit="0.5 MB/s", files=4, parallel=4), True),
    ],
)
def test_a_slow_transfer_over_a_slow_link_may_run_next_to_others(made: ReleaseRow, light: bool) -> None:
    assert made.light == light


def test_a_transfer_takes_its_bytes_at_the_slowest_rate_and_some_round_trips() -> None:
    # Ten round trips of 100 ms until it is at speed.
    assert row().transfer_s == pytest.approx(1e6 / BEST + 1)
    assert row(limit="0.5 MB/s").transfer_s == pytest.approx(2 + 1)
    assert row(limit="5 MB/s").transfer_s == pytest.approx(1e6 / BEST + 1)
    assert row({}).transfer_s == pytest.approx(1 / 150)
    up = row({**LINK, "up": {"rate": "4 Mbit/s"}}, direction="put")
    assert up.transfer_s == pytest.approx(2e6 / BEST + 1)


def test_the_files_of_a_set_cost_three_round_trips_each_in_turn() -> None:
    assert row(files=6, parallel=2).transfer_s == pytest.approx(6e6 / BEST + 1 + 3 * 3 * 0.1)
    assert row(files=6, parallel=2, discard=True).transfer_s == pytest.approx(6e6 / BEST + 1)


def test_a_row_takes_a_first_look_of_each_client() -> None:
    made = row(limit="0.5 MB/s")
    assert made.seconds(1, LOOKS) == pytest.approx(3 + 4 * 3.3)
    assert made.seconds(2, LOOKS) == pytest.approx(3 + 8 * 3.3)
    # In virtual time a megabyte takes a twentieth of a second, and a sample a tenth besides.
    assert made.seconds(2, LOOKS, "virtual") == pytest.approx(1 + 8 * (0.1 + 0.05))
    sizes = row(limit="0.5 MB/s", buffers=(1, 2, 4))
    assert sizes.seconds(1, LOOKS) == pytest.approx(3 + 12 * 3.3)
    assert sizes.seconds(2, LOOKS, "virtual") == pytest.approx(1 + 12 * 0.15)


REAL = {"rtt": "100 ms"}
"""Nothing limits a transfer over it but the machine."""
SCHEDULE = {"schedule": {"steps": [{"at": "1 s", "rate": "1 Mbit/s"}]}}


def test_a_row_runs_by_the_clock_that_it_needs_and_else_as_asked_for() -> None:
    assert [row().clock(choice) for choice in ("auto", "virtual", "real")] == ["virtual", "virtual", "real"]
    assert [row(REAL).clock(choice) for choice in ("auto", "virtual", "real")] == ["real"] * 3
    assert [row(topology=SCHEDULE).clock(choice) for choice in ("auto", "virtual", "real")] == ["virtual"] * 3


def test_rows_in_virtual_time_share_the_cores_and_those_in_real_time_a_network() -> None:
    virtual = [row(name="a"), row(name="b", limit="0.5 MB/s")]
    virtual_s = sum(each.seconds(2, LOOKS, "virtual") for each in virtual)
    assert set_seconds(virtual, 2, LOOKS, choice="auto") == pytest.approx(virtual_s)
    assert set_seconds(virtual, 2, LOOKS, choice="auto", cores=4) == pytest.approx(virtual_s / 4)
    real = [row(REAL, name="c"), row(REAL, name="c", protocol="h2"), row(REAL, name="d"), row(REAL, name="c")]
    real_s = sum(each.seconds(2, LOOKS) for each in real)
    # The network comes up in 5 s, and a calibration of each link that follows another takes 3 s.
    assert set_seconds(real, 2, LOOKS) == pytest.approx(5 + 3 * 3 + real_s)
    assert set_seconds([*virtual, *real], 2, LOOKS, choice="auto", cores=2) == pytest.approx(virtual_s / 2 + 14 + real_s)
    assert set_seconds(virtual, 2, LOOKS) == pytest.approx(5 + 2 * 3 + sum(each.seconds(2, LOOKS) for each in virtual))
