"""A release's set: what is in it and how long it takes, what is skipped, and one verdict of it all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.cli import main as cli
from lab.cli import qualify as command
from lab.clients import registry
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer, asking
from lab.model.errors import NotSupported, UsageProblem
from lab.model.results import exit_code
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Ratio
from lab.robot.release import release_rows
from lab.robot.suite import Choice, suite_file
from lab.run.lab import Lab
from lab.run.parallel import RUN_AGAIN
from lab.run.qualify import check_program, plan, qualify
from lab.run.release import QUICK_LOOKS, ReleaseRow, set_seconds
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_result, read_run
from reports.answer_text import render_qualification
from tests.unit.run.fake_lab import FakeClient, FakeLab

FULL, QUICK = (release_rows([suite_file("release")], Choice(include=[tag])) for tag in ("full", "quick"))
NEW, OLD = ClientSpec(name="new"), ClientSpec(name="old")
LIMITED = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "it keeps to its limit")
WHOLE = ReleaseRow.named("metro-200--sftp-put-50MB", "it is fast")
BUFFERS = ReleaseRow.named("metro-200--sftp-put-20MB", "-", buffers=("16 KiB", "1 MiB"))


class OnlyHttp(FakeClient):
    def supports(self, transfer: Transfer) -> str:
        return "it knows no SFTP" if transfer.protocol == "sftp" else ""


@pytest.fixture
def knows_only_http(fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a client such a one. After `fake_lab`, which makes clients that know everything."""
    return lambda name: monkeypatch.setitem(registry._CODE, name, OnlyHttp)


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


# --- the sets -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [*FULL, *QUICK], ids=lambda item: item.name)
def test_every_line_is_a_cell_with_a_reason(item: ReleaseRow) -> None:
    made = item.study(NEW) if item.buffers else item.cell(NEW)
    assert made.id.startswith(f"new--{item.name}"), "spelt as results spell it"
    assert item.why


@pytest.mark.parametrize(("items", "looks", "most_s"), [(FULL, LookPlan(), 3600), (QUICK, QUICK_LOOKS, 300)])
def test_a_set_takes_no_longer_than_it_promises(items: list[ReleaseRow], looks: LookPlan, most_s: float) -> None:
    assert len({(item.name, item.buffers) for item in items}) == len(items)
    assert most_s / 2 < set_seconds(items, 2, looks) < most_s


def test_the_quick_set_is_eight_cells_at_most() -> None:
    assert len(QUICK) <= 8


def test_light_is_what_leaves_the_machine_alone() -> None:
    assert LIMITED.light
    assert ReleaseRow.named("dsl-50--h2-get-4x2MB-at-500kBps-p4", "-").light
    for heavy in (
        "dsl-50--h2-get-4x2MB-at-1MBps-p4",
        "link-local--http1-get-5MiB-at-1MBps",
        "dsl-50--http1-get-5MiB-at-3MBps",
        "dsl-50--http1-get-5MiB",
        "metro-200--http1-get-5MiB-at-1MBps",
    ):
        assert not ReleaseRow.named(heavy, "-").light, heavy


# --- what is skipped ----------------------------------------------------------------------------------------------------------


def test_what_a_client_cannot_do_is_skipped_with_its_reason(knows_only_http: Callable[[str], None]) -> None:
    knows_only_http("new")
    asked, skipped = plan([LIMITED, WHOLE, BUFFERS], NEW)
    assert asked == [LIMITED]
    assert skipped == dict.fromkeys((WHOLE.name, BUFFERS.name), "it knows no SFTP")
    with pytest.raises(NotSupported, match="new can run no row of this suite: it knows no SFTP") as problem:
        plan([WHOLE], NEW)
    assert problem.value.exit_code == 2


@pytest.mark.usefixtures("fake_lab")
def test_a_link_that_changes_is_skipped_in_real_time_and_no_reason_to_stop() -> None:
    changing = ReleaseRow.named("4g-bad--http1-get-2MB", "it stalls")
    assert changing.clock("real") == "virtual"
    asked, skipped = plan([LIMITED, changing], NEW, "real")
    assert (asked, skipped) == ([LIMITED], {changing.name: "4g-bad has a schedule, which runs in virtual time only"})
    assert plan([LIMITED, changing], NEW, "virtual")[0] == [LIMITED, changing]


def test_a_missing_or_unusable_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no /nowhere/curl"):
        check_program(ClientSpec(name="curl", program="/nowhere/curl"))
    broken = tmp_path / "curl"
    broken.write_text("#!/bin/sh\necho cannot start >&2; exit 3\n")
    broken.chmod(0o755)
    with pytest.raises(UsageProblem, match="cannot start"):
        check_program(ClientSpec(name="curl", program=str(broken)))


# --- what it comes to ---------------------------------------------------------------------------------------------------------


def test_a_good_release_is_qualified(made: Session) -> None:
    with made:
        found, outcomes = qualify(made, NEW, OLD, [LIMITED, WHOLE, BUFFERS], set_name="quick", margin=Ratio(0.05))
    assert found.judged.reason == "QUALIFIED: 4 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID"
    assert exit_code([found.judged.name]) == 0
    assert [(item.verdict, item.baseline, item.regression) for item in found.parts] == [
        ("PASS", "PASS", None),
        ("PASS", "PASS", "PASS"),
        ("PASS", None, None),
    ]
    assert read_result(made.run.answer_path(found.id), Answer) == found
    record = read_run(made.run.path)
    assert record.answers == [*(o.pair.id for o in outcomes if o.pair), outcomes[-1].candidate.id, found.id]
    assert record.exit_code == 0


def test_a_regression_alone_is_enough_not_to_qualify(
    made: Session, fake_lab: FakeLab, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_lab.rate = lambda client, _: 0.9e6 if client == "new" else 1e6
    found, _ = qualify(made, NEW, OLD, [WHOLE], set_name="quick", margin=Ratio(0.05))
    assert found.judged.reason == "NOT QUALIFIED: 1 PASS, 1 FAIL, 0 INCONCLUSIVE, 0 INVALID"
    assert made.record().exit_code == exit_code([found.judged.name]) == 1
    render_qualification(found, Console(width=130), cells=made.results, answers=made.answers)
    said = " ".join(capsys.readouterr().out.split())
    assert "metro-200--sftp-put-50MB PASS - PASS 0.900 (0.900 to 0.900) FAIL" in said
    assert "candidate / baseline 0.900" in said
    assert said.endswith(found.judged.reason)


def test_a_known_failure_is_a_failure_and_said_to_be_known(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda *_: 2e6
    found, _ = qualify(made, NEW, OLD, [LIMITED], set_name="quick", margin=Ratio(0.05))
    assert found.judged.reason.startswith("NOT QUALIFIED: 0 PASS, 1 FAIL")
    assert "the baseline fails this too" in found.parts[0].notes


def test_a_fault_of_the_baseline_alone_does_not_matter(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: 1e6 if client == "new" else 2e6
    found, _ = qualify(made, NEW, OLD, [LIMITED], set_name="quick", margin=Ratio(0.05))
    assert (exit_code([found.judged.name]), found.parts[0].baseline) == (0, "FAIL")
    assert made.record().exit_code == 0


def test_a_baseline_that_cannot_run_a_line_leaves_the_candidate_alone(
    made: Session, knows_only_http: Callable[[str], None]
) -> None:
    knows_only_http("old")
    found, _ = qualify(made, NEW, OLD, [WHOLE], set_name="quick", margin=Ratio(0.05))
    assert (found.parts[0].verdict, found.parts[0].comparison) == ("PASS", None)
    assert found.parts[0].notes == ["old cannot do it: it knows no SFTP"]


@pytest.mark.parametrize(("broken", "word", "code"), [(True, "INVALID", 4), (False, "UNDECIDED", 3)])
def test_neither_a_lab_fault_nor_an_open_verdict_qualifies(
    made: Session, fake_lab: FakeLab, broken: bool, word: str, code: int
) -> None:
    fake_lab.broken = lambda _: broken
    fake_lab.rate = lambda _, index: (0.9e6, 1.1e6)[index % 2]
    found, _ = qualify(made, NEW, None, [LIMITED], set_name="quick", margin=Ratio(0.05))
    assert (found.judged.reason.partition(":")[0], exit_code([found.judged.name])) == (word, code)


def test_lanes_come_to_the_same(made: Session, knows_only_http: Callable[[str], None]) -> None:
    knows_only_http("new")
    items = [LIMITED, ReleaseRow.named("dsl-20--http1-get-5MiB-at-1MBps", "-"), WHOLE]
    found, _ = qualify(made, NEW, OLD, items, set_name="quick", margin=Ratio(0.05), lanes=2)
    assert found.judged.reason == "QUALIFIED: 2 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID, 1 skipped"
    assert made.record().skipped == {"new--metro-200--sftp-put-50MB": "it knows no SFTP"}
    assert len(asking(made.answers, "no-slower")) == 2


def test_what_a_lane_spoilt_is_reported(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.broken = lambda network: "-lane" in network.name
    items = [LIMITED, ReleaseRow.named("dsl-20--http1-get-5MiB-at-1MBps", "-")]
    found, _ = qualify(made, NEW, OLD, items, set_name="quick", margin=Ratio(0.05), lanes=2)
    assert found.judged.reason.startswith("QUALIFIED: 2 PASS")
    assert all(RUN_AGAIN in item.notes for item in found.parts)


# --- the command --------------------------------------------------------------------------------------------------------------


def test_the_list_has_every_line_and_runs_nothing() -> None:
    cli.register(("qualify",))
    done = CliRunner().invoke(cli.app, ["qualify", "--list", "--quick", "--with-machine", "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert [item["name"] for item in told["items"]] == [item.name for item in QUICK]
    assert told["with_baseline_s"] < 300


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no client to qualify"),
        (["curl=/nowhere/curl"], "there is no /nowhere/curl"),
        (["curl", "--baseline", "old-curl=/nowhere/curl"], "there is no /nowhere/curl"),
        (["curlew"], "unknown client 'curlew'"),
        (["curl", "--accept", "known.yaml"], "are about a comparison"),
        (
            ["curl", "--baseline", "old-curl=/usr/bin/curl", "--absolute", "--write-accept", "known.yaml"],
            "are about a comparison",
        ),
        (["curl", "--baseline", "curl", "--accept", "/nowhere/known.yaml"], "cannot be read"),
        (["curl", "--lanes", "1000"], "cores"),
        (["curl", "--lanes", "2", "--backend", "compose"], "namespaces"),
        (["curl", "--margin", "100%"], "--margin"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(command.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(Lab, "bring_up", lambda _: pytest.fail("the network was brought up"))
    cli.register(("qualify",))
    done = CliRunner().invoke(cli.app, ["qualify", *words])
    assert isinstance(done.exception, UsageProblem)
    assert problem in done.exception.message
    assert not (tmp_path / "results").exists()
