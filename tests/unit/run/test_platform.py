"""What a piece of work costs a host: figures per transfer, the sentence, and the drift of the score."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.model.results import CellResult, Verdict
from lab.model.transfer import ClientSpec
from lab.run import platform
from lab.run.cpu_score import ROUNDS, CpuScore, measure_cpu_score, parse_score
from lab.run.platform import judge, run_platform, work_rows
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.support.samples import sample
from tests.unit.run.fake_lab import FakeLab

SCORE = CpuScore(400.0, 0.1)
# Half a CPU second for a megabyte.
WORK = sample(index=4, body_byte_s=2e6)


def test_a_row_has_its_cost_by_the_mean_of_both_scores() -> None:
    (row,) = work_rows([WORK], SCORE, CpuScore(440.0, 0.1))
    assert (row.name, row.problem) == ("sample 5", "")
    assert row.figures == {
        "wall_s": 1.5,
        "cpu_score_MBps": 420.0,
        "cpu_s_per_GB": pytest.approx(500.0),
        "hashed_MB_per_GB": pytest.approx(500.0 * 420),
        "body_MBps": 2.0,
    }


def test_a_transfer_that_failed_has_no_cost() -> None:
    failed = WORK.model_copy(update={"ok": False, "problem": "cut off", "body_byte_s": None})
    (row,) = work_rows([failed], SCORE, SCORE)
    assert (row.problem, row.figures) == ("cut off", {"wall_s": 1.5, "cpu_score_MBps": 400.0})


@pytest.fixture
def passed(cell: CellResult) -> CellResult:
    return cell.model_copy(update={"verdict": Verdict(name="PASS", reason="all arrived")})


def test_the_sentence_has_speed_and_cost(passed: CellResult) -> None:
    rows = work_rows([WORK, WORK.model_copy(update={"body_byte_s": 4e6})], SCORE, SCORE)
    verdict = judge(passed, rows, SCORE, SCORE)
    assert (verdict.name, verdict.warnings) == ("PASS", [])
    assert verdict.reason == "3.0 MB/s, 500.00 CPU seconds per GB, worth 200000 MB of SHA-256 on this host (400 MB/s)"
    slow = work_rows([WORK.model_copy(update={"body_byte_s": None})], SCORE, SCORE)
    assert judge(passed, slow, SCORE, SCORE).reason.startswith("500.00 CPU seconds per GB")


@pytest.mark.parametrize(("after", "warned"), [(439.0, False), (441.0, True), (361.0, False), (359.0, True)])
def test_a_score_that_drifts_by_more_than_a_tenth_is_a_warning(passed: CellResult, after: float, warned: bool) -> None:
    found = judge(passed, work_rows([WORK], SCORE, SCORE), SCORE, CpuScore(after, 0.1)).warnings
    assert found == ([f"the CPU score went from 400 to {after:.0f} MB/s"] if warned else [])


@pytest.mark.parametrize("name", ["FAIL", "INVALID"])
def test_a_cell_that_did_not_pass_keeps_its_own_verdict(passed: CellResult, name: Any) -> None:
    own = Verdict(name=name, reason="why")
    assert judge(passed.model_copy(update={"verdict": own}), work_rows([WORK], SCORE, SCORE), SCORE, SCORE) == own
    assert judge(passed, [], SCORE, SCORE) == passed.verdict


def test_a_cell_is_run_between_two_scores(fake_lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_lab.rate = lambda *_: 1e6
    session = Session(RunDir.create("test", results=tmp_path), fake_lab.options())
    scores, asked = iter([SCORE, CpuScore(420.0, 0.2)]), list[Any]()

    @contextmanager
    def bench(what: str, topology: object, *, real: bool) -> Iterator[Any]:
        asked.append((what, topology, real, len(session.results)))
        yield type("Network", (), {"client": "host"}), None

    monkeypatch.setattr(session, "bench", bench)
    monkeypatch.setattr(platform, "measure_cpu_score", lambda _: next(scores))
    cell = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "-").cell(ClientSpec(name="new"))
    answer = run_platform(session, cell)
    assert asked == [(cell.id, cell.topology, True, 0), (cell.id, cell.topology, True, 1)]
    assert (answer.id, answer.question, answer.expectation) == (f"{cell.id}--platform", "platform", None)
    assert [row.name for row in answer.observations] == ["sample 1", "sample 2"]
    assert answer.observations[0].figures["cpu_score_MBps"] == 410.0
    assert session.lab.client_facts == SCORE.facts
    assert session.answers == [answer]


def test_a_score_is_the_median_of_its_rounds() -> None:
    text = "".join(f"sha256 {value}\n" for value in (100, 500, 300, 200, 400)) + "aes128gcm 3000\n"

    class Host:
        def cpu_score(self, rounds: int) -> str:
            assert rounds == ROUNDS == 5
            return text

    host: Any = Host()
    assert measure_cpu_score(host) == CpuScore(300.0, 400 / 300, 3000.0)
    more = parse_score(text + "sha256 900\n")
    assert more.mbps == 350.0
    assert more.facts == {"cpu_score_MBps": 350.0, "cpu_score_spread": 800 / 350, "cpu_aes128gcm_MBps": 3000.0}
