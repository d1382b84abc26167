"""The reaper as a separate process, and the host watch that uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lab.net.host_load import Look
from tests.support import reaper, spans
from tests.support.spans import Spans, container_engines
from tests.support.waiting import until

ORPHAN = "import os, subprocess; subprocess.run(['sh', '-c', 'sleep 20 >&- 2>&- & echo $!'])"


@pytest.mark.parametrize(("script", "code"), [("", 0), ("raise SystemExit(5)", 5), ("import os; os.kill(os.getpid(), 15)", 143)])
def test_its_exit_code_is_the_childs(script: str, code: int) -> None:
    assert subprocess.run(reaper.command("-c", script), check=False).returncode == code


def test_it_names_itself_and_adopts_what_is_left_behind() -> None:
    wait = f"{ORPHAN}; import sys; print(os.environ['{reaper.VARIABLE}'], flush=True); sys.stdin.read()"
    with subprocess.Popen(reaper.command("-c", wait), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        orphan, named = (int(run.stdout.readline()) for _ in range(2))
        parent = int(Path(f"/proc/{orphan}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(orphan, signal.SIGKILL)
        assert (named, parent) == (run.pid, run.pid)
        run.communicate()


def test_a_signal_to_it_is_one_to_the_child() -> None:
    script = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen(reaper.command("-c", script), stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "ready\n"
        run.terminate()
        assert run.wait(30) == 7


def test_without_a_reaper_the_watch_has_no_more_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reaper.VARIABLE, raising=False)
    assert not reaper.roots()
    monkeypatch.setenv(reaper.VARIABLE, "17")
    assert list(reaper.roots()) == [17]


def test_processes_that_run_containers_are_known_by_name(tmp_path: Path) -> None:
    for pid, name in enumerate(["init", "dockerd", "containerd-shim", "nginx", "conmon"], 1):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "6").mkdir()  # it has ended
    (tmp_path / "sys").mkdir()
    assert container_engines(tmp_path) == {2, 3, 5}


def test_every_span_and_the_total_have_a_load() -> None:
    with Spans() as spans:
        time.sleep(0.01)
        spans.mark()
        time.sleep(0.01)
    first, second, together = spans.loads
    assert together.span_s == pytest.approx(first.span_s + second.span_s)


def test_a_long_test_has_more_than_one_span() -> None:
    with Spans(span_s=0.001) as spans:
        until(lambda: len(spans.loads) >= 3, "three spans")


def test_cpu_time_of_a_lab_that_has_ended_is_not_another_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives the time of a namespace's processes to no parent when the namespace ends, so the family's sum falls."""
    looks = iter(
        Look(at_s=at, cores=2, idle_s=0.5 * at, steal_s=0.0, lab_s=lab, kernel_s=0.0)
        for at, lab in ((0, 1), (4, 7), (5, 0.5), (6, 2))
    )
    monkeypatch.setattr(spans, "look", lambda _: next(looks))
    watch = Spans()
    watch.mark()
    watch._look()
    watch._look()
    watch.mark()
    (load,) = watch.loads
    assert load.foreign_cores == pytest.approx((6 * 2 - 0.5 * 6 - 6 - 1.5) / 6)
