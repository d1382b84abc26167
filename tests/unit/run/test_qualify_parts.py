"""A line of a release: what is noted with its verdict, and why a client cannot do it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients import registry
from lab.model.errors import LabFault, NotSupported
from lab.model.results import CellResult, Verdict
from lab.model.transfer import ClientSpec, Transfer
from lab.run import qualify as module
from lab.run.parallel import RUN_AGAIN
from lab.run.qualify import Outcome, clock_of, plan
from lab.run.release import ReleaseRow
from tests.unit.run.fake_lab import FakeClient

ROW = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "it keeps to its limit")
REAL = ReleaseRow.named("dsl-50--h2-get-40x10kB-p10-discard", "-")
SFTP = ReleaseRow.named("dsl-50--sftp-get-5MiB", "-")
BUFFERS = ReleaseRow.named("metro-200--sftp-put-20MB", "-", buffers=("16 KiB", "1 MiB"))
NEW = ClientSpec(name="new")


def judged(cell: CellResult, name: Any, *warnings: str) -> CellResult:
    return cell.model_copy(update={"verdict": Verdict(name=name, reason="why", warnings=list(warnings))})


def pair(name: Any = None, not_judged: str = "") -> Any:
    return SimpleNamespace(id="pair", not_judged=not_judged, verdict=Verdict(name=name, reason="") if name else None)


def test_a_line_alone_has_its_verdict_and_its_reason(cell: CellResult) -> None:
    part = Outcome(ROW, judged(cell, "PASS", "slow disk"), notes=("old cannot do it",)).part()
    assert (part.id, part.why, part.verdict) == (cell.id, "it keeps to its limit", "PASS")
    assert (part.baseline, part.comparison, part.regression, part.notes) == (None, None, None, ["old cannot do it"])
    assert Outcome(ROW, judged(cell, "PASS", RUN_AGAIN, "other")).part().notes == [RUN_AGAIN]


@pytest.mark.parametrize(
    ("ours", "theirs", "known"),
    [("FAIL", "FAIL", True), ("FAIL", "PASS", False), ("PASS", "FAIL", False), ("FAIL", None, False), ("INVALID", "FAIL", False)],
)
def test_a_failure_that_the_baseline_has_too_is_known(cell: CellResult, ours: Any, theirs: Any, known: bool) -> None:
    baseline = judged(cell, theirs) if theirs else None
    part = Outcome(ROW, judged(cell, ours), baseline, pair("PASS")).part()
    assert part.notes == (["the baseline fails this too"] if known else [])
    assert (part.baseline, part.comparison, part.regression) == (theirs, "pair", "PASS")


def test_a_ratio_that_is_not_judged_says_why(cell: CellResult) -> None:
    part = Outcome(ROW, judged(cell, "PASS"), judged(cell, "PASS"), pair(not_judged="it is limited")).part()
    assert (part.regression, part.notes) == (None, ["the ratio is not judged: it is limited"])


@pytest.mark.parametrize(
    ("ours", "regression", "spoilt"),
    [("PASS", "PASS", False), ("INVALID", None, True), ("PASS", "INVALID", True), ("FAIL", "FAIL", False)],
)
def test_a_line_is_spoilt_where_the_lab_was_at_fault(cell: CellResult, ours: Any, regression: Any, spoilt: bool) -> None:
    assert Outcome(ROW, judged(cell, ours), judged(cell, "PASS"), pair(regression)).spoilt == spoilt


def test_a_line_has_the_clocks_of_its_result(cell: CellResult) -> None:
    assert Outcome(ROW, cell).clocks == [cell.clock]
    assert clock_of(ROW, [NEW, ClientSpec(name="old")], "auto") == "virtual"
    assert clock_of(REAL, [NEW], "auto") == "real"


class Limited(FakeClient):
    """Knows HTTP without settings of buffers."""

    def supports(self, transfer: Transfer) -> str:
        if transfer.protocol == "sftp" and transfer.buffer_size:
            return "it has no such setting"
        return "it knows no limit" if transfer.limit else ""


def test_a_line_that_a_client_cannot_do_has_the_reason(fake_lab: object, monkeypatch: pytest.MonkeyPatch) -> None:
    del fake_lab
    monkeypatch.setitem(registry._CODE, "new", Limited)
    asked, skipped = plan([ROW, REAL, SFTP, BUFFERS], NEW, "virtual")
    assert [row.name for row in asked] == [SFTP.name]
    assert skipped == {
        ROW.name: "it knows no limit",
        REAL.name: "requests per second are limited by the processor, which takes no time in virtual time "
        "(--with-machine asks it)",
        BUFFERS.name: "it has no such setting",
    }
    assert [row.name for row in plan([REAL, SFTP], NEW, "auto")[0]] == [REAL.name, SFTP.name]
    with pytest.raises(NotSupported) as caught:
        plan([ROW, BUFFERS, ROW], NEW)
    assert caught.value.message == "new can run no row of this suite: it knows no limit; it has no such setting"
    with pytest.raises(NotSupported, match="new can run no row of this suite: it is empty"):
        plan([], NEW)


def test_a_program_of_a_userland_is_not_started_here(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    adapter = SimpleNamespace(identify=lambda host: started.append(host.name))
    monkeypatch.setattr(module, "resolve", lambda _: adapter)
    monkeypatch.setattr(module, "userland_of", lambda client: client.program)
    module.check_program(ClientSpec(name="new", program="debian-12"))
    assert started == []
    monkeypatch.setattr(module, "userland_of", lambda _: "")
    module.check_program(NEW)
    assert started == ["client"]


# --- the clocks of the lines ------------------------------------------------------------------------------------------


def session_of(clock: str) -> Any:
    return SimpleNamespace(options=SimpleNamespace(clock=clock))


def test_lines_in_virtual_time_run_together_and_the_outcomes_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []

    def run_all(session: Any, jobs: Any) -> list[Any]:
        together.append(len(jobs))
        return [job(session) for job in jobs]

    def run(row: ReleaseRow, session: Any) -> Any:
        return SimpleNamespace(asked=row, spoilt=False, session=session)

    monkeypatch.setattr(module, "run_all", run_all)
    session = session_of("auto")
    found = module.run_rows(session, [ROW, REAL, SFTP], run, [NEW], 1)
    assert [outcome.asked for outcome in found] == [ROW, REAL, SFTP]
    assert together == [2], "the line that needs real time is not among them"


def test_a_problem_of_one_line_in_virtual_time_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = LabFault("no machine")
    monkeypatch.setattr(module, "run_all", lambda _session, jobs: [SimpleNamespace(spoilt=False), problem][: len(jobs)])
    with pytest.raises(LabFault) as caught:
        module.run_rows(session_of("virtual"), [ROW, SFTP], lambda *_: SimpleNamespace(spoilt=False), [NEW], 1)
    assert caught.value is problem
