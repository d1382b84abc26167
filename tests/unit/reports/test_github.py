"""Annotations, outputs and the job's summary, as GitHub reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import report
from lab.model.errors import UsageProblem
from lab.store.stored_run import StoredRun
from reports.github import MOST_PER_LEVEL, notices, outputs
from reports.junit import junit_xml

app = typer.Typer()
report.register(app)


def with_reason(run: StoredRun, reason: str, times: int = 1) -> StoredRun:
    """The run with that many FAILs of that reason."""
    cell = run.cells[0]
    verdict = cell.verdict.model_copy(update={"name": "FAIL", "reason": reason})
    cells = [cell.model_copy(update={"id": f"{cell.id}{number}", "verdict": verdict}) for number in range(times)]
    return StoredRun(run.path, cells=cells)


def test_there_is_a_line_for_each_verdict_that_is_not_a_pass(throttle: StoredRun) -> None:
    bad = [cell for cell in throttle.cells if cell.verdict.name != "PASS"]
    assert bad
    lines = notices(throttle)
    assert len(lines) == len(bad)
    for cell in bad:
        level = "warning" if cell.verdict.name == "INCONCLUSIVE" else "error"
        assert any(line.startswith(f"::{level} title={cell.verdict.name} {cell.id}::") for line in lines)


def test_a_reason_cannot_become_a_command(throttle: StoredRun) -> None:
    (line,) = notices(with_reason(throttle, "100 %\n::set-output name=verdict::PASS"))
    assert line.endswith("::100 %25%0A::set-output name=verdict::PASS")


def test_a_step_shows_ten_of_a_level(throttle: StoredRun) -> None:
    assert len(notices(with_reason(throttle, "far off", 14))) == MOST_PER_LEVEL


def test_a_baseline_has_no_line(qualify: StoredRun) -> None:
    assert not [line for line in notices(qualify) if any(f" {name}::" in line for name in qualify.baselines)]


def test_outputs_count_the_verdicts(throttle: StoredRun) -> None:
    found = dict(outputs(throttle))
    names = [cell.verdict.name for cell in throttle.cells]
    assert found["fail"] == str(names.count("FAIL"))
    assert found["verdict"] == "FAIL"
    assert found["report"] == str(throttle.path / "report.html")


def test_a_run_that_was_cut_off_is_invalid(throttle: StoredRun) -> None:
    assert dict(outputs(StoredRun(throttle.path, cells=throttle.cells)))["verdict"] == "INVALID"


def test_outside_a_job_the_option_says_so(throttle: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    done = CliRunner().invoke(app, [str(throttle.path), "--github"])
    assert isinstance(done.exception, UsageProblem)
    assert "GITHUB_STEP_SUMMARY is not set" in str(done.exception)


def test_the_jobs_files_are_added_to(throttle: StoredRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        (tmp_path / name).write_text("before=1\n")
        monkeypatch.setenv(name, str(tmp_path / name))
    done = CliRunner().invoke(app, [str(throttle.path), "--github", "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    assert "::error" in done.stdout
    lines = (tmp_path / "GITHUB_OUTPUT").read_text().splitlines()
    assert lines[:2] == ["before=1", "verdict=FAIL"]
    assert "FAIL" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()


@pytest.mark.parametrize(
    ("choice", "tags"),
    [
        ("usual", {"INVALID": "error", "INCONCLUSIVE": "skipped"}),
        ("error", {"INVALID": "error", "INCONCLUSIVE": "error"}),
        ("skip", {"INVALID": "skipped", "INCONCLUSIVE": "skipped"}),
    ],
)
def test_no_verdict_is_shown_to_a_ci_as_it_is_asked_for(throttle: StoredRun, choice: str, tags: dict[str, str]) -> None:
    cell = throttle.cells[0]
    for name, tag in tags.items():
        changed = cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": name, "reason": "why"})})
        text = junit_xml(StoredRun(throttle.path, cells=[changed]), choice)  # type: ignore[arg-type]
        assert f'<{tag} message="{name}: why"' in text
