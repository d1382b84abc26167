"""`make vm-proof`: what it asks `lab`, what it refuses before a machine is booted, and how it ends. No machine is booted here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import robot.api
import typer

from images.guest import image
from images.guest.machine import QEMU
from images.vagrant import prove
from lab.assets import tools
from lab.cli import calibrate as calibrate_command
from lab.cli import run as run_command
from lab.hosts.vagrant.machines import CLIENT_VARIABLE, CONFIG_VARIABLE, PATIENCE_VARIABLE, patience
from lab.model.errors import EXIT_INVALID, EXIT_USAGE
from lab.model.load import load_topology
from lab.model.paths import project_root, shipped_suites_dir
from lab.model.results import RunRecord, VerdictName
from lab.model.units import BitRate, Duration
from lab.store.run_dir import RunDir

CALIBRATE = ["calibrate", "--rate", "20mbit", "--rtt", "30ms", "-n", "5", "--backend", "vagrant"]
RUN = ["run", "throttle", "--test", "DSL 20*", "--client", "ferry", "--backend", "vagrant", "--max-samples", "5", "--any-host"]
CELL = "curl--dsl-20--http1-get-5MiB-at-1MBps"


def asked(*words: str) -> list[list[str]]:
    return prove.commands(prove._parser().parse_args(words))


class TestCommands:
    def test_without_words_it_is_the_links_certificate_and_ferrys_rows(self) -> None:
        assert asked() == [CALIBRATE, RUN]

    def test_own_words(self) -> None:
        assert asked("--looks", "0", CELL) == [["run", CELL, *RUN[6:]]]
        first, _ = asked("--looks", "3", "--rate", "10 Mbit/s", "--rtt", "50 ms")
        assert first == ["calibrate", "--rate", "10 Mbit/s", "--rtt", "50 ms", "-n", "3", "--backend", "vagrant"]

    @pytest.mark.parametrize("words", [CALIBRATE, RUN, ["run", CELL, *RUN[6:]]])
    def test_lab_understands_them(self, words: list[str]) -> None:
        app = typer.Typer()
        for group in (run_command, calibrate_command):
            group.register(app)
        command = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
        found = command.make_context(words[0], words[1:]).params
        assert found["backend"] == "vagrant"
        assert found.get("any_host", True) is True
        assert found.get("max_samples", 5) == 5

    def test_every_row_at_20_mbit_and_no_other_is_run(self) -> None:
        path = shipped_suites_dir() / f"{prove.SUITE[0]}.robot"
        every, chosen = (robot.api.TestSuite.from_file_system(path) for _ in range(2))
        chosen.filter(included_tests=[prove.SUITE[2]])
        rows = [test.name for test in every.tests if test.body[0].args[0] == "dsl-20"]
        assert [test.name for test in chosen.tests] == rows
        assert len(rows) == 22
        link, arguments = load_topology("dsl-20").link, prove._parser().parse_args([])
        assert (link.rate, link.rtt) == (BitRate.parse(arguments.rate), Duration.parse(arguments.rtt)), "that the looks are at"

    def test_make_has_it_and_setup_brings_what_it_boots_with(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in ((tools.PEERS_VARIABLE, ""), (tools.VMS_VARIABLE, "yes")):
            monkeypatch.setenv(name, value)
        brought = {tool.name for tool in tools.installable()}
        assert {QEMU, *image._HOST_PROGRAMS} - {"tar"} <= brought
        words = ["make", "--no-print-directory", "--dry-run", "vm-proof", "PROOF=--looks 0"]
        done = subprocess.run(words, cwd=project_root(), capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == ".venv/bin/python -m images.vagrant.prove --looks 0"


class NoMachines:
    """Stands in for Machines."""

    booted: int

    def __init__(self, *_: object, **__: object) -> None:
        self.config = Path("/the/ssh-config")

    def __enter__(self) -> Self:
        NoMachines.booted += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        pass


_GIVEN = [CONFIG_VARIABLE, PATIENCE_VARIABLE, CLIENT_VARIABLE, "ROUGHWATER_RESULTS"]
# `lab` here: appends what it was given to $LAB_LOG, and ends as $LAB_CODES says for each command.
_LAB = f"""\
import json, os, sys, time
words = sys.argv[1:]
with open(os.environ["LAB_LOG"], "a") as log:
    log.write(json.dumps([words, [os.environ.get(n) for n in {_GIVEN}]]) + "\\n")
code = json.loads(os.environ["LAB_CODES"])[words[0]]
time.sleep(60 if code == "late" else 0)
os.kill(os.getpid(), 9) if code == "killed" else sys.exit(code)
"""


@pytest.fixture
def proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[Any]]]:
    """Run it with a `lab` that ends with these codes; return its exit code and the arguments of `lab`."""
    NoMachines.booted = 0
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setattr(prove, "Machines", NoMachines)
    monkeypatch.setattr(prove, "_LAB", _LAB)
    monkeypatch.setenv("LAB_LOG", str(log))
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))

    def run(*words: str, calibrate: object = 0, run: object = 0) -> tuple[int, list[Any]]:
        monkeypatch.setenv("LAB_CODES", json.dumps({"calibrate": calibrate, "run": run}))
        return prove.main(list(words)), [json.loads(line) for line in log.read_text().splitlines()]

    return run


def test_the_lab_gets_the_machines_addresses_and_more_patience(
    proof: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CLIENT_VARIABLE, "windows-2022")
    code, told = proof()
    assert code == 0
    assert [words for words, _ in told] == [CALIBRATE, RUN]
    for _, (config, patient, client, _) in told:
        assert (config, client) == ("/the/ssh-config", None), "there is no Windows among these machines"
        monkeypatch.setenv(PATIENCE_VARIABLE, patient)
        assert patience() >= 10


def test_the_labs_results_are_where_the_proof_looks_for_them(
    proof: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The lab starts in the checkout, the proof in the folder where its command was given."""
    monkeypatch.delenv("ROUGHWATER_RESULTS")
    monkeypatch.chdir(tmp_path)
    code, told = proof()
    assert (code, [results for _, (*_, results) in told]) == (0, [str(tmp_path / "results")] * 2)


@pytest.mark.parametrize(
    ("calibrate", "run", "code", "said"),
    [
        (0, 0, 0, "the links were proven, and every cell passed."),
        (0, 1, 0, "FAIL and INCONCLUSIVE above are of a client that emulation slows"),
        (0, 3, 0, "FAIL and INCONCLUSIVE above are of a client that emulation slows"),
        (4, 0, 4, "no verdict (exit code 4)"),
        (0, 4, 4, "no verdict (exit code 4)"),
        (4, 1, 4, "no verdict (exit code 4)"),
        (0, 2, 2, "no verdict (exit code 2)"),
        (0, "killed", 4, "no verdict (exit code 4)"),
    ],
)
def test_only_what_has_no_verdict_fails(
    proof: Callable[..., Any], capsys: pytest.CaptureFixture[str], calibrate: object, run: object, code: int, said: str
) -> None:
    found, told = proof(calibrate=calibrate, run=run)
    assert found == code
    assert len(told) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_real_processor_needs_no_remark_about_emulation(proof: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert proof("--accel", "kvm", run=1)[0] == 0
    assert capsys.readouterr().err.splitlines()[-1].endswith("FAIL and INCONCLUSIVE above are of a client.")


def test_a_command_that_does_not_end_is_ended(proof: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    code, told = proof("--timeout", "1", calibrate="late")
    assert (code, len(told)) == (EXIT_INVALID, 1)
    assert capsys.readouterr().err.splitlines()[-1] == "prove: no verdict: stopped after 1 s (--timeout)"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--looks", "1"), "--looks 1 (give 0, or 2 to 50)"),
        (("--rate", "20 parsec"), "unknown unit"),
        (("--rtt", "soon"), "soon"),
        (("ferry",), "'ferry' is not the name of a cell"),
        (("ferry--no-such-link--http1-get-5MiB",), "no-such-link"),
    ],
)
def test_bad_input_is_refused_before_a_machine_boots(
    proof: Callable[..., Any], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert proof(*words) == (EXIT_USAGE, [])
    assert NoMachines.booted == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def write_run(folder: Path, words: list[str], **verdicts: VerdictName) -> Path:
    run = RunDir.create("throttle", results=folder)
    at = datetime.now(UTC)
    run.write_run(
        RunRecord(
            run=run.name,
            command=["-c", *words],
            lab_version="0",
            git_revision=None,
            started_at=at,
            ended_at=at,
            cells=list(verdicts),
            verdicts=verdicts,
            exit_code=1,
        )
    )
    return run.path / "run.json"


def test_an_invalid_cell_is_not_hidden_by_a_failed_one(tmp_path: Path) -> None:
    """`lab run` ends with 1 then."""
    ours = write_run(tmp_path, RUN, one="FAIL", two="INVALID", three="PASS")
    others = write_run(tmp_path, ["run", "throttle"], four="INVALID")
    assert prove.invalid_cells(RUN, {ours, others}) == ["two"]
    assert prove.conclude([0, 1], ["two"], emulated=True) == (EXIT_INVALID, "no verdict on two: INVALID, see above.")
