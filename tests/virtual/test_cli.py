"""The command in virtual time: what is the same the second time, a shell, a link of one's own, and a bundle run again."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from lab.model.results import CellResult
from lab.store.deterministic import digest, view
from lab.store.run_dir import RunDir, read_cell
from tests.support.command import lab, one_line

CELL = "curl--dsl-20--http1-get-200kB-at-1MBps"
_LONGEST_S = 540


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


def here(results: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return lab(*words, env={"ROUGHWATER_RESULTS": str(results)}, timeout=_LONGEST_S)


def ran(results: Path, seed: int, *more: str) -> CellResult:
    done = here(results, "run", CELL, "--clock", "virtual", "--seed", str(seed), "--max-samples", "5", "--json", *more)
    assert done.returncode in (0, 1, 3), done.stderr
    return read_cell(RunDir(results / json.loads(done.stdout)["run"]).cell_path(CELL))


@pytest.fixture(scope="module")
def first(results: Path) -> CellResult:
    return ran(results, 5)


def test_the_same_seed_gives_the_same_result_and_another_gives_other_samples(results: Path, first: CellResult) -> None:
    assert (first.clock, first.backend) == ("virtual", "virtual")
    assert first.virtual is not None
    assert first.virtual.session_seed == 5
    assert digest(view(first)) == digest(view(ran(results, 5)))
    other = ran(results, 6)
    assert [sample.body_s for sample in other.samples] != [sample.body_s for sample in first.samples]


@pytest.mark.parametrize("watched", [(), ("--pcap", "--why")], ids=["plain", "watched"])
def test_a_bundle_run_again_agrees_exactly(results: Path, watched: tuple[str, ...], tmp_path: Path) -> None:
    file = str(tmp_path / "cell.zip")
    packed = here(results, "bundle", CELL, "--run", ran(results, 5, *watched).run, "-o", file)
    assert packed.returncode == 0, packed.stderr
    done = here(results, "rerun", file, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["notes"] == ["the two agree exactly: every sample, byte for byte"]
    assert [cell["verdict"]["name"] for cell in found["answers"]] == ["PASS"]


def test_another_seed_says_where_the_two_first_differ(results: Path, first: CellResult, tmp_path: Path) -> None:
    file = str(tmp_path / "cell.zip")
    assert here(results, "bundle", CELL, "--run", first.run, "-o", file).returncode == 0
    done = here(results, "rerun", file, "--seed", "6", "--json")
    assert json.loads(done.stdout)["notes"][0].startswith("the two first differ, A then B, at $.virtual.")


def test_a_command_on_a_link(results: Path) -> None:
    timed = ("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", "http://server/files/5MiB")
    done = here(results, "shell", "--clock", "virtual", "--rate", "20mbit", "--rtt", "40ms", "--", *timed)
    assert done.returncode == 0, done.stderr
    code, seconds = done.stdout.split()
    assert code == "200"
    assert 5242880 * 8 / 20e6 < float(seconds) < 2.5, "the link's rate, and some round trips"
    clock, why = done.stderr.splitlines()[-2:]
    told = re.fullmatch(r"lab: ([0-9.]+) s of virtual time, [0-9.]+ s of this machine's", clock)
    assert told
    assert "; limited by the line:" in why
    assert float(told[1]) == pytest.approx(float(seconds), abs=0.1)


def test_a_file_has_the_size_of_its_name(results: Path) -> None:
    fetched = "for each in /files/300kB /files/1MiB /chunked/300kB; do curl -fsS http://server$each | wc -c; done"
    done = here(results, "shell", "--clock", "virtual", "--", "sh", "-c", fetched)
    assert done.stdout.split() == ["300000", "1048576", "300000"], done.stderr


def test_the_exit_code_of_a_command_is_the_shells(results: Path) -> None:
    assert here(results, "shell", "--clock", "virtual", "--", "sh", "-c", "exit 7").returncode == 7
    missing = here(results, "shell", "--clock", "virtual", "--", "nosuchcommand")
    assert missing.returncode == 2
    assert "no such command" in missing.stderr.splitlines()[-1]


def test_a_link_of_ones_own(results: Path) -> None:
    words = ("calibrate", "--clock", "virtual", "--rate", "33mbit", "--rtt", "37ms", "-n", "2", "--json")
    done = here(results, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["clock"], found["ok"]) == ("virtual", True)
    assert abs(found["rtt_excess_ms"]["mean"]) < 0.01
    assert all(abs(side["goodput_error"]["mean"]) < 0.001 for side in found["directions"].values())
    assert json.loads(here(results, *words).stdout) == found, "the same whenever it is measured"


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "--clock", "virtual", "--router", "uml"),
        ("shell", "--backend", "virtual", "--clock", "real", "--", "true"),
        ("run", CELL, "--clock", "virtual", "--flamegraph"),
        ("run", CELL, "--clock", "real", "--why"),
    ],
)
def test_contradictions_are_one_line(results: Path, words: tuple[str, ...]) -> None:
    done = here(results, *words)
    assert done.returncode == 2
    assert "contradict each other" in one_line(done)
