"""Which pairs are compared, and the words where one cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.model.cell import Cell
from lab.model.errors import UsageProblem
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Ratio
from lab.run.pair import MARGIN, check_names, check_pair, pair_id, why_not_judged
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.unit.run.fake_lab import FakeLab

FILL = ReleaseRow.named("metro-200--http1-get-50MB", "-")
NEW, OLD = FILL.cell(ClientSpec(name="new")), FILL.cell(ClientSpec(name="old"))


def cell(kind: str = "none", bound: float | None = None, link: Any = None, **more: Any) -> Cell:
    made = {"name": "plain", "description": "A test.", "link": link or {"rate": "8 Mbit/s"}}
    transfer: dict[str, Any] = {"protocol": "http1", "direction": "get", "size": "1 MB", **more}
    return Cell(
        client=ClientSpec(name="curl"),
        topology=Topology.model_validate(made),
        transfer=Transfer.model_validate(transfer),
        expectation=Expectation(kind=kind, bound=bound),
    )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (cell("limit", limit="1 MB/s"), "the transfer is limited: each client is judged against its limit"),
        (cell("memory", 1e8), "the cell is about memory, not speed"),
        (cell("cpu", 2.0), "the cell is about CPU time, not speed"),
        (cell(link={"rtt": "20 ms"}), "the link is not shaped: its speed is the machine's"),
        (cell(link={"up": {"rate": "1 Mbit/s"}}), "the link is not shaped: its speed is the machine's"),
        (cell(), ""),
        (cell("fill", 0.9), ""),
    ],
)
def test_only_the_speed_of_a_client_over_a_shaped_link_is_compared(asked: Cell, reason: str) -> None:
    assert why_not_judged(asked) == reason


def test_a_pair_is_two_clients_of_one_cell() -> None:
    check_pair(NEW, OLD)
    with pytest.raises(ValueError, match=rf"^not a pair: {NEW.id} and .* differ in more than the client"):
        check_pair(NEW, cell())
    with pytest.raises(UsageProblem) as caught:
        check_names(ClientSpec(name="new"), ClientSpec(name="new", program="/opt/new"))
    assert caught.value.message == "candidate and baseline are both called 'new'"
    assert pair_id(NEW, OLD) == f"{NEW.id}--vs-old"


def test_an_answer_has_the_rates_and_the_verdict_of_each_side(fake_lab: FakeLab, tmp_path: Path) -> None:
    fake_lab.rate = lambda client, _: 2e6 if client == "new" else 1e6
    made: Session = fake_lab.session(RunDir.create("test", results=tmp_path))
    answer = made.run_pair(NEW, OLD, margin=Ratio(0.1))
    assert (answer.question, answer.bound, answer.run, answer.not_judged) == ("no-slower", Ratio(0.1), made.run.name, "")
    ours, theirs = answer.arms
    assert (ours.name, ours.value, ours.cell, ours.verdict, ours.byte_s) == ("candidate", "new", NEW.id, "PASS", [2e6, 2e6])
    assert (theirs.name, theirs.value, theirs.cell, theirs.byte_s) == ("baseline", "old", OLD.id, [1e6, 1e6])
    assert [ours.mean_byte_s, theirs.mean_byte_s] == pytest.approx([2e6, 1e6])
    assert answer.verdict
    assert answer.ratio == answer.verdict.interval
    assert answer.ratio
    assert answer.ratio.mean == pytest.approx(2.0)
    assert (answer.topology, answer.transfer, answer.expectation) == (NEW.topology, NEW.transfer, NEW.expectation)
    assert Ratio(0.05) == MARGIN
