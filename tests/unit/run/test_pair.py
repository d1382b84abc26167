"""A candidate interleaved with a baseline: the order of samples, when it ends, and what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.judge.sweep import turn_order
from lab.model.answer import Answer
from lab.model.cell import Cell
from lab.model.errors import EXIT_FAIL, EXIT_INVALID, EXIT_PASS, UsageProblem
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio
from lab.run.pair import check_pair
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_cell, read_result, read_run
from tests.unit.run.fake_lab import FakeLab

LIMITED = "dsl-50--http1-get-5MiB-at-1MBps"
FILL = "metro-200--http1-get-50MB"


def cells(name: str) -> tuple[Cell, Cell]:
    asked = ReleaseRow.named(name, "-")
    return asked.cell(ClientSpec(name="new")), asked.cell(ClientSpec(name="old"))


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


def test_samples_are_interleaved_between_one_pair_of_calibrations(made: Session, fake_lab: FakeLab) -> None:
    with made:
        result = made.run_pair(*cells(FILL))
    assert result.order == ["candidate", "baseline", "baseline", "candidate"]
    ours, theirs = (read_cell(made.run.cell_path(arm.cell)) for arm in result.arms)
    assert (ours.client.name, theirs.client.name) == ("new", "old")
    assert ours.certificate == theirs.certificate
    assert ours.certificate
    assert len(ours.certificate.before) == len(ours.certificate.after) == 1
    assert read_result(made.run.answer_path(result.id), Answer) == result
    record = read_run(made.run.path)
    assert record.answers == [result.id] == ["new--metro-200--http1-get-50MB--vs-old"]
    assert record.baselines == ["old--metro-200--http1-get-50MB"]
    assert record.verdicts[result.id] == "PASS"


def test_a_candidate_that_is_slower_is_a_regression(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: 0.9e6 if client == "new" else 1e6
    result = made.run_pair(*cells(FILL))
    assert result.verdict
    assert (result.arm("candidate").verdict, result.verdict.name) == ("PASS", "FAIL")
    assert made.record().exit_code == EXIT_FAIL
    wide = made.run_pair(*cells(FILL), margin=Ratio(0.2))
    assert wide.verdict
    assert wide.verdict.name == "PASS"
    assert len(made.answers) == 1, "what ran again takes the place of what was"


def test_the_ratio_of_limited_transfers_is_reported_and_not_judged(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: 1e6 if client == "new" else 2e6
    result = made.run_pair(*cells(LIMITED))
    assert (result.arm("candidate").verdict, result.arm("baseline").verdict, result.verdict) == ("PASS", "FAIL", None)
    assert result.ratio
    assert result.ratio.mean == pytest.approx(0.5)
    assert "limited" in result.not_judged
    assert made.record().exit_code == EXIT_PASS, "a fault of the baseline does not count"


def test_a_baseline_that_fails_does_not_end_the_candidate(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: None if client == "old" else 1e6
    result = made.run_pair(*cells(FILL))
    assert result.order == ["candidate", "baseline", "candidate"]
    assert (result.arm("candidate").verdict, result.arm("baseline").verdict, result.verdict) == ("PASS", "FAIL", None)
    assert result.not_judged == "old failed a transfer: there is nothing to compare with"
    assert result.ratio is None


def test_a_candidate_that_fails_ends_it(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, index: None if client == "new" and index == 1 else 1e6
    result = made.run_pair(*cells(FILL))
    assert result.order == ["candidate", "baseline", "baseline", "candidate"]
    assert result.verdict
    assert (result.arm("candidate").verdict, result.verdict.name) == ("FAIL", "FAIL")


@pytest.mark.parametrize(
    ("name", "rates"), [(LIMITED, {"new": [0.93e6, 1.0e6], "old": [1e6, 1e6]}), (FILL, {"new": [1e6, 2e6], "old": [2e6, 1e6]})]
)
def test_goes_on_while_either_question_is_open(
    made: Session, fake_lab: FakeLab, name: str, rates: dict[str, list[float]]
) -> None:
    fake_lab.rate = lambda client, index: rates[client][index % 2]
    result = made.run_pair(*cells(name))
    assert result.order == [("candidate", "baseline")[index] for turn in range(4) for index in turn_order(2, turn)]


def test_a_link_that_is_not_what_it_claims_is_invalid_for_all(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.broken = lambda _: True
    result = made.run_pair(*cells(FILL))
    assert result.verdict
    assert (result.arm("candidate").verdict, result.arm("baseline").verdict, result.verdict.name) == ("INVALID",) * 3
    assert made.record().exit_code == EXIT_INVALID


def test_an_impossible_pair_is_refused(made: Session) -> None:
    ours, theirs = cells(FILL)
    with pytest.raises(ValueError, match="differ in more than the client"):
        check_pair(ours, cells(LIMITED)[1])
    with pytest.raises(UsageProblem, match="both called 'new'"):
        made.run_pair(ours, theirs.model_copy(update={"client": ClientSpec(name="new", program="/opt/new")}))
