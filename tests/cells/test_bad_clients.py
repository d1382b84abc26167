"""Clients that hang, lie, flood or leave something behind: the cell is theirs to fail, in one line, and the run goes on."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.results import Sample
from lab.run.instruments import Instruments
from lab.run.progress import Lines
from lab.run.sample import take_sample
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from tests.support.bad_clients import run_client

PATIENCE_S = 3.0
# In the argv of what a bad client leaves running, so that it can be looked for.
LEFT = 31_536_000
# curl writes to the file behind `-o`.
OUTPUT = 'out=$(printf %s "$*" | sed "s/.* -o \\([^ ]*\\).*/\\1/")'


@pytest.fixture(scope="module")
def said() -> io.StringIO:
    """What a person sees meanwhile."""
    return io.StringIO()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, said: io.StringIO) -> Iterator[Session]:
    """One run for all: each cell is also the proof that the one before did not end it."""

    def impatient(*args: Any, **more: Any) -> Sample:
        return take_sample(*args, **{**more, "timeout_s": PATIENCE_S})

    options = Options(clock="virtual", virtual_looks=LookPlan(looks=(2, 3)), instruments=Instruments(take_sample=impatient))
    run = RunDir.create("bad", results=tmp_path_factory.mktemp("results"))
    with Session(run, options, progress=Lines(said)) as made:
        yield made


def left_running(session: Session) -> list[str]:
    """Command lines on the client's host with the mark."""
    network = session.lab.network
    assert network
    script = 'for each in /proc/[0-9]*/cmdline; do tr "\\0" " " <"$each" 2>/dev/null; echo; done'
    lines = network.client.run(["/bin/sh", "-c", script]).text.splitlines()
    return [line for line in lines if line.startswith("sleep ") and str(LEFT) in line]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("curl-hangs", f"trap '' TERM INT; sleep {LEFT} & wait; sleep {LEFT}", "was still running after 3 s and was killed"),
        ("curl-short", f'/usr/bin/curl "$@"; code=$?; {OUTPUT}; truncate -s 1000 "$out"; exit $code', "1000 of 200000 bytes"),
        ("curl-wrong", f'/usr/bin/curl "$@"; {OUTPUT}; head -c 200000 /dev/zero >"$out"', "the content is wrong"),
        ("curl-garbage", f'/usr/bin/curl "$@" >/dev/null; {OUTPUT}; head -c 5000 /dev/urandom', "printed no report"),
        ("curl-floods", "yes no | head -c 100000000; exit 0", "printed no report"),
        ("curl-floods-one-line", "head -c 100000000 /dev/zero | tr '\\0' x >&2; exit 3", "failed with exit code 3: xxx"),
        ("curl-terminal", "printf 'a\\033[2Jb\\n' >&2; exit 4", "failed with exit code 4: a?[2Jb"),
        ("curl-forks", f"sleep {LEFT} & exit 0", "printed no report"),
        ("curl-forks-away", f"setsid sleep {LEFT} </dev/null >/dev/null 2>&1 & sleep 0.2; exit 0", "printed no report"),
        ("curl-killed", "kill -9 $$", "exit code 137"),
    ],
)
def test_the_cell_fails_in_one_line_and_the_run_goes_on(
    session: Session, said: io.StringIO, tmp_path: Path, name: str, text: str, problem: str
) -> None:
    before = len(session.results)
    result = run_client(session, tmp_path, name, text)
    assert result.verdict.name == "FAIL", result.verdict.reason
    assert problem in result.verdict.reason
    assert "\n" not in result.verdict.reason
    assert len(result.verdict.reason) < 500
    assert result.verdict.reason.isprintable()
    assert len(result.samples) == 1, "one failed transfer decides"
    assert left_running(session) == []
    assert len(session.results) == before + 1
    assert len([line for line in said.getvalue().splitlines() if f"{name}--" in line and "FAIL: " in line]) == 1


def test_a_good_client_is_not_affected_by_them(session: Session, tmp_path: Path) -> None:
    """A client that prints a lot and leaves a process behind, but does its transfer."""
    text = f'setsid sleep {LEFT} </dev/null >/dev/null 2>&1 & yes no | head -c 100000000; exec /usr/bin/curl "$@"'
    result = run_client(session, tmp_path, "curl-loud", text)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert left_running(session) == []
    assert session.record().verdicts[result.id] == "PASS"


# Refused before there is a network.
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "throttle", "--client", "curl@9.9.9"], "curl '9.9.9' is in no registry the lab knows"),
        (["run", "curl@9.9.9--dsl-20--http1-get-1MB"], "curl '9.9.9' is in no registry the lab knows"),
        (["run", "curl--dsl-20--http1-get-1MB", "--client", "curl@9.9.9"], "none of the cells has that client"),
        (["run", "curl--dsl-20--http1-get-1MB", "--client", "wget"], "none of the cells has that client"),
        (["client", "build", "curl@9.9.9"], "curl '9.9.9' is in no registry the lab knows"),
    ],
)
def test_a_version_that_no_registry_holds_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "ROUGHWATER_RESULTS": str(tmp_path / "results")},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("lab: ")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    with contextlib.suppress(FileNotFoundError):
        assert [path for path in (tmp_path / "results").iterdir() if not path.name.startswith(".")] == []


def test_a_suite_with_a_bad_client_ends_in_exit_code_1_and_a_complete_run(tmp_path: Path) -> None:
    """Through the command: the bad client's cell is FAIL, the other client's is run after it."""
    path = tmp_path / "curl-bad"
    path.write_text('#!/bin/sh\ncase "$*" in *--version*) exec /usr/bin/curl --version;; esac\nexit 0\n')
    path.chmod(0o755)
    cells = ["curl-bad--dsl-50--http1-get-200kB", "curl--dsl-50--http1-get-200kB"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lab.cli.main",
            "run",
            *cells,
            "--clock",
            "virtual",
            "--client",
            str(path),
            "--max-samples",
            "5",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "ROUGHWATER_RESULTS": str(tmp_path / "results")},
    )
    record = json.loads(done.stdout)
    assert record["verdicts"][cells[0]] == "FAIL", done.stderr
    assert record["verdicts"][cells[1]] == "PASS"
    assert done.returncode == record["exit_code"] == 1
