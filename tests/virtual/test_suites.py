"""`lab test`: suites of users in a machine, with their exit codes, output, reports and limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from tests.support.spins import WAITS_FOR_A_THREAD
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.timeout(400)

LAB = [sys.executable, "-m", "lab.cli.main", "test"]
# A test sleeps, another writes next to itself and to /tmp, the others look at their user and their machine.
SUITE = """
import os, pathlib, time, unittest

class Sleeps(unittest.TestCase):
    def test_an_hour(self):
        began = time.monotonic()
        time.sleep(3600)
        self.assertAlmostEqual(time.monotonic() - began, 3600, delta=0.01)

    def test_files(self):
        here = pathlib.Path(__file__).parent
        (here / "kept.txt").write_text("changed")
        (here / "TEST-mine.xml").write_text("<testsuite/>")
        (here / "other.txt").write_text("new")
        pathlib.Path("/tmp/by-name").write_text("x")
        (pathlib.Path.home() / "x").write_text("x")
        pathlib.Path(os.environ["TMPDIR"], "x").write_text("x")

    def test_user(self):
        self.assertEqual(os.stat(__file__).st_uid, int(os.environ["OWNER"]))
        self.assertEqual(os.getuid(), int(os.environ["OWNER"]))

    def test_one_processor_and_shared_memory(self):
        self.assertEqual(len(os.sched_getaffinity(0)), 1)
        found = os.statvfs("/dev/shm")
        self.assertGreater(found.f_blocks * found.f_frsize, 200 << 20)

unittest.main()
"""
SPINS = WAITS_FOR_A_THREAD + 'print("came to an end")\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project, of: one's own"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was")
    (folder / "suite.py").write_text(SUITE)
    return folder


def run(project: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The command in the project's folder."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return subprocess.run([*LAB, *words], cwd=project, env=env, capture_output=True, check=False)


def outcome(project: Path, *words: str) -> tuple[subprocess.CompletedProcess[bytes], dict[str, Any]]:
    file = project.parent / "outcome.json"
    done = run(project, "--json", str(file), *words)
    return done, json.loads(file.read_text())


def test_a_suite_that_sleeps_passes_and_only_its_report_comes_out(project: Path) -> None:
    words = ["--time-limit", "7200s", "--env", f"OWNER={os.getuid()}", "--", sys.executable, "suite.py", "-v"]
    done, found = outcome(project, *words)
    assert done.returncode == 0, done.stderr
    assert b"Ran 4 tests in 3600." in done.stderr
    assert 3600 < found["virtual_s"] < 3605
    assert found["real_s"] < 3600
    assert list(found["reports"]) == ["TEST-mine.xml"]
    assert (project / "TEST-mine.xml").read_text() == "<testsuite/>"
    assert sorted(path.name for path in project.iterdir()) == ["TEST-mine.xml", "kept.txt", "suite.py"]
    assert (project / "kept.txt").read_text() == "as it was"
    assert not Path("/tmp/by-name").exists()


def test_a_failure_is_the_suites_own_exit_code_and_the_same_seed_repeats_it(project: Path) -> None:
    script = "import random, sys, time; time.sleep(0.3); print(random.SystemRandom().random()); sys.exit('it failed')"
    first, one = outcome(project, "--out", "no-such/*", "--", sys.executable, "-c", script)
    second, two = outcome(project, "--", sys.executable, "-c", script)
    assert (first.returncode, first.stdout) == (1, second.stdout)
    assert one["last_line"] == "it failed"
    assert (one["digest"], one["virtual_s"]) == (two["digest"], two["virtual_s"])
    _, three = outcome(project, "--seed", "2", "--", sys.executable, "-c", script)
    assert three["digest"] != one["digest"]


def test_a_suite_that_hangs_is_ended_and_the_lab_writes_the_report(project: Path) -> None:
    script = "import pathlib, time; pathlib.Path('junit.xml').write_text('half'); print('test_hangs ...'); time.sleep(1e9)"
    words = ["--time-limit", "20s", "--junit", "junit.xml", "--", sys.executable, "-c", script]
    done, found = outcome(project, *words)
    assert done.returncode == 124
    assert (found["ended"], found["limit"], found["last_line"]) == ("lab", "virtual time", "test_hangs ...")
    assert 20 <= found["virtual_s"] < 21
    assert done.stdout == b"test_hangs ...\n"
    error = ElementTree.parse(project / "junit.xml").find(".//error")
    assert error is not None
    assert "test_hangs ..." in (error.text or "")
    assert "20 s of virtual time" in error.attrib["message"]


def test_a_program_that_waits_in_a_loop_comes_to_its_end(project: Path) -> None:
    done, found = outcome(project, "--", sys.executable, "-c", SPINS)
    assert (done.returncode, done.stdout) == (0, b"came to an end\n")
    assert found["interruptions"] >= 1
    assert b"may not repeat" in done.stderr


def test_a_program_that_computes_for_ever_is_ended_by_its_cpu_time(project: Path) -> None:
    done, found = outcome(project, "--cpu-limit", "3s", "--", sys.executable, "-c", "while True: pass")
    assert (done.returncode, found["limit"]) == (124, "CPU time")
    assert found["cpu_s"] >= 3


def test_output_comes_while_the_suite_runs_and_a_signal_ends_all_of_it(project: Path) -> None:
    said = project.parent / "said"
    script = "print('begun'); import time\nwhile True: time.monotonic()"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with said.open("wb") as file:
        lab = subprocess.Popen(
            [*LAB, "--", sys.executable, "-c", script], cwd=project, env=env, stdout=file, start_new_session=True
        )
    until(lambda: said.read_bytes() == b"begun\n", "its first line is there", 120)
    family = psutil.Process(lab.pid).children(recursive=True)
    assert family
    lab.send_signal(signal.SIGTERM)
    assert lab.wait(PATIENCE_S) == 128 + signal.SIGTERM
    until(lambda: not any(each.is_running() for each in family), "the machine is gone")


def test_what_a_tool_compiled_outside_runs_one_after_the_other(project: Path) -> None:
    """A `go` that is a script: it lists two packages, and compiles each into a script of its own."""
    (project / "inner").mkdir()
    tool = project / "go"
    tool.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        'list) printf \'x/a\\t%s\\t1\\t0\\nx/inner\\t%s\\t1\\t0\\n\' "$PWD" "$PWD/inner";;\n'
        '*) shift 3; printf \'#!/bin/sh\\necho "$GOMAXPROCS $PWD $@"; exit 1\\n\' >"$1"; chmod 755 "$1";;\nesac\n'
    )
    tool.chmod(0o755)
    done = run(project, "--", "./go", "test", "-run", "X", "./...")
    flags = "-test.paniconexit0=true -test.timeout=10m0s -test.run=X"
    assert done.stdout.decode().splitlines() == [f"1 {project} {flags}", f"1 {project}/inner {flags}"], done.stderr
    assert done.returncode == 1


def test_servers_and_a_link_are_there_where_they_are_asked_for(project: Path) -> None:
    script = "import urllib.request, time; b = time.monotonic(); n = len(urllib.request.urlopen('http://{}/files/1MiB').read())"
    show = "; print(n, time.monotonic() - b > 0.1)"
    for host, words, slow in (("localhost", ["--servers"], False), ("server", ["--topology", "dsl-50"], True)):
        done = run(project, *words, "--", sys.executable, "-c", script.format(host) + show)
        assert done.stdout.decode().split() == [str(1 << 20), str(slow)], done.stderr
