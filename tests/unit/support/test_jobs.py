"""`make test` as jobs: which begin when, what counts, and that none outlives the one who started them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import jobs
from tests.support.jobs import End, Job, Runner, due, ended, shown
from tests.support.waiting import until

GOOD, BAD = End(0, 1.0), End(1, 1.0)


def job(name: str, script: str = "", **more: object) -> Job:
    return Job(name, (sys.executable, "-c", script), **more)  # type: ignore[arg-type]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jobs, "LOGS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("containers", [True, False])
def test_every_job_comes_to_run_and_real_time_is_last_and_alone(containers: bool) -> None:
    waiting, done, order = jobs.jobs("python", containers=containers), {}, []
    while waiting:
        begin, never = due(waiting, done)
        assert begin
        assert not never
        order.append([each.name for each in begin])
        done.update({each.name: GOOD for each in begin})
        waiting = [each for each in waiting if each.name not in done]
    assert order[-1] == ["realtime"]
    assert ("images" in [name for names in order for name in names]) is containers
    assert "unit" in order[0]


@pytest.mark.parametrize(
    ("ends", "begins", "never"),
    [
        ({}, [], []),
        ({"a": GOOD}, [], []),
        ({"b": BAD}, [], []),
        ({"a": GOOD, "b": BAD}, ["c"], []),
        ({"a": BAD}, [], ["c"]),
        ({"a": End(None, 0.0)}, [], ["c"]),
    ],
)
def test_a_job_needs_success_of_some_and_only_the_end_of_others(
    ends: dict[str, End], begins: list[str], never: list[str]
) -> None:
    begin, lost = due([job("c", after=("a",), behind=("b",))], ends)
    assert ([each.name for each in begin], [each.name for each in lost]) == (begins, never)


@pytest.mark.parametrize(
    ("code", "text", "may_fail", "ci", "counts"),
    [
        (0, "x\n7 passed, 0 failed, 1 skipped\n", "", False, (7, 0, 1)),
        (1, "7 passed, 2 failed, 0 skipped", "", False, (7, 2, 0)),
        (1, "it crashed", "", False, (0, 1, 0)),
        (1, "7 passed, 0 failed, 0 skipped", "", False, (7, 1, 0)),
        (4, "no network", "tests of containers", False, (0, 0, 0)),
        (4, "no network", "tests of containers", True, (0, 1, 0)),
    ],
)
def test_a_job_that_fails_is_counted_unless_only_others_are_skipped_for_it(
    code: int, text: str, may_fail: str, ci: bool, counts: tuple[int, int, int]
) -> None:
    end = ended(job("a", may_fail=may_fail), code, 1.0, text, ci=ci)
    assert (end.passed, end.failed, end.skipped) == counts


def test_dots_are_not_shown_and_every_other_line_is() -> None:
    text = "bringing up nodes...\n..s..F [ 43%]\n..R..\nSKIPPED [1] tests/x.py: no Wine\n\nFAILED y\n1 passed in 2.00s\n"
    assert list(shown(text)) == ["SKIPPED [1] tests/x.py: no Wine", "FAILED y", "1 passed in 2.00s"]


@pytest.mark.parametrize(
    "line",
    [
        "FAILED tests/x.py::test_y - AssertionError: 1 != 2",
        "ERROR tests/x.py::test_y - OSError",
        "tests/x.py::test_y was skipped, which no line allows here: no cpio",
        "tests/x.py::test_y ran, but line 7 says that it is skipped here (root)",
        "        FAIL [   0.008s] (1/9) ferry-http tests::body",
        "test tests::body ... FAILED",
        "engine: net::c: failed on attempt 2, which nothing disturbed",
        "error[E0308]: mismatched types",
        'lab/x.py:3: error: Name "y" is not defined  [name-defined]',
    ],
)
def test_a_failure_is_among_those_of_the_end(line: str) -> None:
    text = f"..F.. [ 43%]\n{line}\nSKIPPED [1] tests/x.py: no Wine\n1 failed, 7 passed in 2.00s\n{line}\n"
    assert jobs.failures(text) == (line.strip(),)


def test_a_job_that_names_no_failure_has_its_last_lines() -> None:
    assert jobs.failures("a\nb\n\nc\nd\n") == ("b", "c", "d")
    assert ended(job("a"), 0, 1.0, "7 passed, 0 failed, 0 skipped", ci=True).failures == ()
    many = jobs.failures("".join(f"FAILED tests/x.py::test_{n}\n" for n in range(50)))
    assert (len(many), many[-1]) == (41, "... and 10 more")


def test_jobs_run_and_what_needs_a_failed_one_is_a_failure_too(logs: Path) -> None:
    said: list[str] = []
    todo = [job("bad", "raise SystemExit(3)"), job("good", "print('5 passed, 0 failed, 2 skipped')"), job("c", after=("bad",))]
    ends = Runner(todo, ci=False, say=said.append).run()
    assert {name: (end.code, end.passed, end.failed, end.skipped) for name, end in ends.items()} == {
        "bad": (3, 0, 1, 0),
        "good": (0, 5, 0, 2),
        "c": (None, 0, 1, 0),
    }
    assert "good | 5 passed, 0 failed, 2 skipped" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_job_outlives_a_run_that_was_ended(number: int, tmp_path: Path) -> None:
    script = (
        "import signal, sys; from pathlib import Path; from tests.support import jobs\n"
        f"jobs.LOGS = Path({str(tmp_path)!r})\n"
        "signal.signal(signal.SIGTERM, lambda sent, _: sys.exit(128 + sent))\n"
        "sleep = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "argv = ('sh', '-c', '\"$0\" -c \"$1\" | cat', sys.executable, sleep)\n"
        "jobs.Runner([jobs.Job('a', argv)], ci=False, say=print).run()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=jobs.ROOT, stderr=subprocess.DEVNULL) as run:
        log = tmp_path / "a.log"
        until(lambda: log.exists() and re.match(r"\d+\n", log.read_text()), "the job runs")
        pid = int(log.read_text())
        run.send_signal(number)
        run.wait()
    until(lambda: not Path(f"/proc/{pid}").exists() or _is_dead(pid), "the job has ended")


def _is_dead(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True
