"""A release next to a baseline: regressions alone decide, what is accepted or known passes, and a run has one set of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from lab.clients import registry
from lab.judge.tolerance import LookPlan
from lab.model.accepted import AcceptedFigure, AcceptedFile, accepted_text, check_rows, load_accepted, share_text
from lab.model.answer import Answer, asking
from lab.model.errors import UsageProblem
from lab.model.results import Sample, exit_code
from lab.model.transfer import ClientSpec, Transfer
from lab.run.comparison import Comparing, accepted_now, compare_release
from lab.run.pair import told_apart
from lab.run.release import ReleaseRow, one_by_one
from lab.run.session import Session
from lab.store.history.rows import run_rows
from lab.store.run_dir import RunDir, read_run
from lab.store.stored_run import read_run_folder
from reports.answer_text import render_qualification
from reports.build import run_page, tally
from reports.junit import junit_xml
from tests.unit.run.fake_lab import FakeClient, FakeLab

NEW, OLD = ClientSpec(name="new"), ClientSpec(name="old")
LIMITED = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "it keeps to its limit")
WHOLE = ReleaseRow.named("metro-200--sftp-put-50MB", "it is fast")
BUFFERS = ReleaseRow.named("metro-200--sftp-put-20MB", "it does not matter", buffers=("16 KiB", "1 MiB"))


class TimedLab(FakeLab):
    """Whose transfers take as long as their rate says."""

    def take(self, a: object, b: object, adapter: FakeClient, transfer: Transfer, index: int, **more: object) -> Sample:
        sample = super().take(a, b, adapter, transfer, index, **more)
        rate = sample.body_byte_s
        return sample.model_copy(update={"wall_s": transfer.total_bytes / rate}) if rate else sample


@pytest.fixture
def fake_lab(monkeypatch: pytest.MonkeyPatch) -> TimedLab:
    for name in ("new", "old"):
        monkeypatch.setitem(registry._CODE, name, FakeClient)
    return TimedLab()


@pytest.fixture
def made(tmp_path: Path, fake_lab: TimedLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path), looks=(2, 20))


def compare(session: Session, rows: list[ReleaseRow], accepted: AcceptedFile | None = None) -> Answer:
    with session:
        return compare_release(session, NEW, rows, Comparing(OLD, accepted=accepted or AcceptedFile()), set_name="quick")


def test_the_same_client_twice_is_qualified(made: Session) -> None:
    found = compare(made, [LIMITED, WHOLE, BUFFERS])
    assert found.judged.reason == "QUALIFIED: 4 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID; 0 of 16 figures worse than old's"
    assert [part.regression for part in found.parts] == ["PASS"] * 4
    assert (found.facts["by"], found.facts["figures"]) == ("comparison", "17")


def test_a_broken_promise_that_both_have_is_known(made: Session, fake_lab: TimedLab, capsys: pytest.CaptureFixture[str]) -> None:
    fake_lab.rate = lambda *_: 2e6
    found = compare(made, [LIMITED])
    assert exit_code([found.judged.name]) == 0
    assert found.judged.reason.endswith("0 of 4 figures worse than old's; 1 promises broken by both")
    assert found.parts[0].notes == ["known: both break this promise"]
    assert (found.parts[0].verdict, found.parts[0].baseline) == ("FAIL", "FAIL")
    render_qualification(found, Console(width=130), cells=made.results, answers=made.answers)
    assert "known: both break this promise" in capsys.readouterr().out


def test_a_regression_is_named_with_its_size(made: Session, fake_lab: TimedLab, capsys: pytest.CaptureFixture[str]) -> None:
    fake_lab.rate = lambda client, _: 0.95e6 if client == "new" else 1e6
    found = compare(made, [LIMITED, WHOLE])
    assert found.judged.reason.startswith(
        "NOT QUALIFIED: 0 PASS, 2 FAIL, 0 INCONCLUSIVE, 0 INVALID; 4 of 8 figures worse than old's"
    )
    render_qualification(found, Console(width=130), cells=made.results, answers=made.answers)
    said = " ".join(capsys.readouterr().out.split())
    assert "regression: rate 5.26 % worse (+5.26 to +5.26 %), more than 5 % worse in 20 of 20 pairs" in said
    assert said.endswith(found.judged.reason)


def test_one_number_of_one_run_everywhere(made: Session, fake_lab: TimedLab) -> None:
    fake_lab.rate = lambda client, _: 1e6 if client == "new" else 2e6
    found = compare(made, [LIMITED, WHOLE])
    assert found.judged.reason.startswith("NOT QUALIFIED: 1 PASS, 1 FAIL, 0 INCONCLUSIVE, 0 INVALID")
    record, stored = read_run(made.run.path), read_run_folder(made.run.path)
    assert record.exit_code == tally(stored).exit_code == 1
    assert dict(tally(stored).counts) == {"PASS": 1, "FAIL": 1, "INCONCLUSIVE": 0, "INVALID": 0}
    assert len(record.baselines) == 4
    row = run_rows("x", "y", stored)[0]
    assert [row[f"counted_{name}"] for name in ("pass", "fail", "inconclusive", "invalid")] == [1, 1, 0, 0]
    text = junit_xml(stored)
    assert 'tests="6" failures="1" errors="0"' in " ".join(text.split()) or 'failures="1"' in text
    assert text.count("does not count") >= 4
    assert "further from it" in run_page(stored)


def test_what_is_written_is_accepted_and_stays_honest(made: Session, fake_lab: TimedLab, tmp_path: Path) -> None:
    speeds = {"new": 0.88e6}
    fake_lab.rate = lambda client, _: speeds.get(client, 1e6)
    first = compare(made, [WHOLE])
    assert first.judged.name == "FAIL"
    path = tmp_path / "known.yaml"
    path.write_text(accepted_text(accepted_now(asking(made.answers, "no-worse"), AcceptedFile(), "old"), ["by hand"]))
    known = load_accepted(path)
    assert {(each.row, each.figure) for each in known.accepted} == {(WHOLE.name, "rate"), (WHOLE.name, "wall")}

    def again(speed: float, name: str) -> Answer:
        speeds["new"] = speed
        return compare(fake_lab.session(RunDir.create(name, results=tmp_path), looks=(2, 20)), [WHOLE], known)

    same = again(0.88e6, "same")
    assert (same.judged.name, same.judged.warnings) == ("PASS", [])
    assert same.judged.reason.endswith("; 2 accepted")
    assert again(0.8e6, "worse").judged.name == "FAIL"
    better = again(0.95e6, "better")
    assert better.judged.name == "PASS"
    assert better.judged.warnings == [
        f"accepted, and better than accepted: {what} of {WHOLE.name} (accepted 13.7 %, now +5.26 %)"
        for what in ("rate", "time to complete")
    ]
    assert "no longer worse" in again(1e6, "gone").judged.warnings[0]


def test_a_wrong_file_is_a_regression(made: Session, fake_lab: TimedLab) -> None:
    fake_lab.rate = lambda client, index: None if client == "new" and index == 1 else 1e6
    found = compare(made, [LIMITED])
    assert found.judged.name == "FAIL"
    assert "1 of 20 transfers failed, of the baseline 0" in found.parts[0].notes[-1]


def test_a_row_that_the_baseline_cannot_do_is_not_compared_and_does_not_count(
    made: Session, fake_lab: TimedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._CODE, "old", OnlyHttp)
    fake_lab.rate = lambda *_: 2e6
    found = compare(made, [LIMITED, WHOLE])
    counts = "QUALIFIED: 1 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID; 1 not compared"
    assert found.judged.reason == f"{counts}; 0 of 4 figures worse than old's; 1 promises broken by both"
    assert found.parts[1].notes == ["old cannot do it: it knows no SFTP"]
    assert read_run(made.run.path).exit_code == 0


class OnlyHttp(FakeClient):
    def supports(self, transfer: Transfer) -> str:
        return "it knows no SFTP" if transfer.protocol == "sftp" else ""


def test_a_fault_of_the_lab_is_not_the_clients(made: Session, fake_lab: TimedLab) -> None:
    fake_lab.broken = lambda _: True
    found = compare(made, [LIMITED])
    assert found.judged.name == "INVALID"
    assert found.judged.reason.startswith("INVALID: 0 PASS, 0 FAIL, 0 INCONCLUSIVE, 1 INVALID; 0 of 0 figures")


def test_an_open_figure_is_undecided(made: Session, fake_lab: TimedLab) -> None:
    fake_lab.rate = lambda client, index: (1.1e6, 0.85e6, 0.85e6)[index % 3] if client == "new" else 1e6
    found = compare(made, [WHOLE])
    assert found.judged.name == "INCONCLUSIVE"
    assert "2 open" in found.judged.reason


# --- rows and names -----------------------------------------------------------------------------------------------------------


def test_every_size_of_a_buffer_is_a_row() -> None:
    assert [row.name for row in one_by_one([WHOLE, BUFFERS])] == [
        "metro-200--sftp-put-50MB",
        "metro-200--sftp-put-20MB-buf16KiB",
        "metro-200--sftp-put-20MB-buf1MiB",
    ]


def test_a_client_may_be_its_own_baseline() -> None:
    curl = ClientSpec(name="curl")
    assert told_apart(curl, ClientSpec(name="curl")) == ClientSpec(name="curl-baseline", program="curl")
    assert told_apart(curl, ClientSpec(name="curl", program="/opt/curl")) == ClientSpec(name="curl-baseline", program="/opt/curl")
    assert told_apart(curl, OLD) == OLD


# --- the file -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.1234, "12.4 %"), (0.5, "50.0 %"), (1.2345, "124 %"), (12.345, "1240 %"), (0.00123, "0.123 %")],
)
def test_a_share_is_written_with_three_digits_and_never_less(share: float, text: str) -> None:
    assert share_text(share) == text


def test_a_written_file_reads_back(tmp_path: Path) -> None:
    figures = [
        AcceptedFigure(row="dsl-50--http1-get-5MiB", figure="rate", worse=1.5, why="it's wanted: #1"),
        AcceptedFigure(row="dsl-50--http1-get-5MiB", figure="arrives", worse=0.05),
    ]
    path = tmp_path / "known.yaml"
    path.write_text(accepted_text(AcceptedFile(baseline="curl@8.17.0", accepted=figures), ["two\nlines"]))
    assert load_accepted(path) == AcceptedFile(baseline="curl@8.17.0", accepted=figures)
    path.write_text(accepted_text(AcceptedFile(), []))
    assert load_accepted(path) == AcceptedFile()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("accepted:\n  - {row: a, figure: speed, worse: 1 %}", "'speed' is not one of arrives, rate"),
        ("accepted:\n  - {row: a, figure: rate, worse: much}", "'much' is not a share such as 12 % or 0.12"),
        ("accepted:\n  - {row: a, figure: rate, worse: -1 %}", "is not a share of 0 % or more"),
        ("accepted:\n  - {row: a, figure: rate}", "worse is missing"),
        ("accepted:\n  - {row: a, figure: rate, worse: 1 %}\n  - {row: a, figure: rate, worse: 2 %}", "rate of a is there twice"),
        ("acepted: []", "did you mean 'accepted'"),
    ],
)
def test_a_file_with_a_fault_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(text)
    with pytest.raises(UsageProblem) as caught:
        load_accepted(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_other_rows_is_refused(tmp_path: Path) -> None:
    other = AcceptedFile(accepted=[AcceptedFigure(row="x--y", figure="rate", worse=0.1)])
    with pytest.raises(UsageProblem, match="none of its rows is in this set"):
        check_rows(other, [WHOLE.name], tmp_path)
    assert check_rows(AcceptedFile(), [WHOLE.name], tmp_path) == []


def test_looks_of_a_comparison_can_raise_an_alarm() -> None:
    assert LookPlan().cap >= 20
