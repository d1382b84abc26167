"""What a scenario's verdicts amount to, and what is refused before anything is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.assets import curl_build, libcurl_build, store
from lab.cli import repro as command
from lab.model.cell import Cell
from lab.model.errors import NotSupported, UsageProblem
from lab.model.paths import shipped_suites_dir
from lab.model.results import CellResult, Verdict, exit_code
from lab.model.scenario import Scenario
from lab.model.transfer import Expectation
from lab.robot.bugs import find_scenario
from lab.robot.suite import Choice
from lab.run.reproduce import as_reported, check_clients, figure, plan
from lab.run.session import Options
from tests.support.noted_session import NotedSession, run_suite

MakeCell = Callable[..., CellResult]
NAME = "http1-get-5MiB-at-2MBps"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No versions, and results of the test's own."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    return tmp_path


def scenario(name: str = "mine", good: str = "curl@8.8.0", bad: str = "curl@8.4.0", transfer: str = NAME) -> Scenario:
    return Scenario.model_validate({"name": name, "topology": "dsl-50", "transfer": transfer, "good": (good,), "bad": (bad,)})


def pretend_built(version: str, place: Callable[[str], Path] = curl_build.place, program: str = curl_build.PROGRAM) -> None:
    directory = place(version)
    directory.mkdir(parents=True)
    (directory / program).write_text("curl")
    store.write_manifest(directory, {}, store.digests(directory))


def lab_repro(*words: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(words))


# -- verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "found", "code"),
    [
        ("PASS", "PASS", 0),
        ("FAIL", "FAIL", 0),
        ("PASS", "FAIL", 1),
        ("FAIL", "PASS", 1),
        ("PASS", "INCONCLUSIVE", 3),
        ("FAIL", "INCONCLUSIVE", 3),
        ("PASS", "INVALID", 4),
        ("FAIL", "INVALID", 4),
    ],
)
def test_what_was_said_against_what_is_found(make_cell: MakeCell, expected: Any, found: Any, code: int) -> None:
    cell = make_cell()
    result = cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": found})})
    came = as_reported(scenario(), expected, result)
    assert (came.judged.name == "PASS") == (code == 0)
    assert exit_code([came.judged.name]) == code


def test_a_failed_transfer_does_not_reproduce_a_figure(make_cell: MakeCell) -> None:
    cell = make_cell((0.5, None), problem="exit code 2")
    failed = cell.model_copy(update={"verdict": Verdict(name="FAIL", reason="transfer 2 of 2 failed: exit code 2")})
    came = as_reported(scenario(), "FAIL", failed)
    assert (came.arms[0].verdict, came.judged.name) == ("FAIL", "FAIL")
    assert "exit code 2" in came.judged.reason
    # Where nothing is expected but that they arrive, that is what was reported.
    none = failed.model_copy(update={"expectation": Expectation(kind="none")})
    assert as_reported(scenario(), "FAIL", none).judged.name == "PASS"


def test_the_figure_is_printed_in_its_own_unit(make_cell: MakeCell) -> None:
    cell = make_cell((0.5, 0.5, 0.5, 0.5, 0.5))
    assert figure(cell) == "+50.00 %"
    memory = cell.model_copy(update={"expectation": Expectation(kind="memory", bound=100e6)})
    assert figure(memory) == "150.0 MB"
    assert cell.verdict.interval
    invalid = cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": "INVALID", "reason": "the link"})})
    assert figure(invalid) == "the link"


# -- what is refused ------------------------------------------------------------------------------------------------


def test_what_has_not_been_built_is_one_line_for_all_of_them() -> None:
    pretend_built("8.8.0")
    due = plan([scenario(), scenario("other", good="ferry", bad="curl@8.22.0")])
    with pytest.raises(NotSupported) as caught:
        check_clients(cell for *_, cell in due)
    assert caught.value.message == "curl@8.4.0, curl@8.22.0: they have not been built"
    assert caught.value.remedy == "lab client build curl@8.4.0 curl@8.22.0, or add --build"


def test_a_client_that_cannot_do_its_cell_is_refused_before_anything_is_started() -> None:
    pretend_built("7.84.0", libcurl_build.place, libcurl_build.PROGRAM)
    due = plan([scenario(good="ferry", bad="libcurl@7.84.0", transfer="sftp-get-5MiB-at-2MBps")])
    with pytest.raises(NotSupported, match="was built without sftp"):
        check_clients(cell for *_, cell in due)


def test_two_scenarios_with_the_same_cell_are_not_run_together() -> None:
    with pytest.raises(UsageProblem, match=r"mine and other have the cell curl@8\.4\.0--dsl-50"):
        plan([scenario(), scenario("other", good="ferry")])


def test_a_bare_cell_has_no_reports_to_check() -> None:
    with pytest.raises(UsageProblem, match="no client is said") as caught:
        plan([find_scenario(f"curl--dsl-50--{NAME}")])
    assert "lab bisect" in caught.value.remedy


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["upload-limit"], "curl@8.22.0, curl@8.17.0: they have not been built (lab client build curl@8.22.0 curl@8.17.0"),
        (["nosuch"], "no scenario called 'nosuch'"),
        ([f"curl--dsl-50--{NAME}"], "no client is said"),
    ],
)
def test_the_command_refuses_before_it_makes_a_run(words: list[str], said: str, places: Path) -> None:
    done = lab_repro(*words)
    assert isinstance(done.exception, UsageProblem)
    assert said in str(done.exception)
    assert not (places / "results").exists()


def test_the_list_says_what_there_is_and_what_is_missing() -> None:
    pretend_built("8.17.0")
    done = lab_repro("--list")
    assert done.exit_code == 0
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("upload-limit ")]
    assert row.split() == ["upload-limit", "dsl-50--http1-put-1999999B-at-1MBps", "curl@8.17.0", "curl@8.22.0"]
    (missing,) = [line for line in done.stdout.splitlines() if line.startswith("not built yet: lab client build ")]
    assert "curl@8.22.0" in missing.split()
    assert "curl@8.17.0" not in missing.split()
    listed = json.loads(lab_repro("burst", "--list", "--json").stdout)
    assert [each["transfer"] for each in listed["scenarios"]] == [NAME]
    assert "curl@8.22.0" in listed["not_built"]


# -- the suite ------------------------------------------------------------------------------------------------------


class Notes(NotedSession):
    """Bad clients FAIL and good ones PASS, except those in `odd`."""

    def __init__(self, folder: Path, make_cell: MakeCell, odd: dict[str, str]) -> None:
        super().__init__(folder)
        self.options = Options()
        self._make, self._odd = make_cell, odd

    def run_cell(self, cell: Cell) -> CellResult:
        made = self._make()
        name = self._odd.get(cell.client.name, "FAIL" if cell.client.name == "curl@8.22.0" else "PASS")
        verdict = made.verdict.model_copy(update={"name": name})
        client = made.client.model_copy(update={"name": cell.client.name})
        self.results.append(made.model_copy(update={"verdict": verdict, "id": cell.id, "client": client}))
        return self.results[-1]


@pytest.mark.parametrize(
    ("odd", "status", "said"),
    [
        ({}, "PASS", "curl@8.22.0 FAIL: "),
        ({"curl@8.22.0": "PASS"}, "FAIL", "ClientFault: upload-limit: curl@8.22.0 was said to FAIL, but it is PASS"),
        ({"curl@8.17.0": "FAIL"}, "FAIL", "ClientFault: upload-limit: curl@8.17.0 was said to PASS, but it is FAIL"),
        ({"curl@8.17.0": "INVALID"}, "FAIL", "LabFault: upload-limit: curl@8.17.0"),
        ({"curl@8.17.0": "INCONCLUSIVE"}, "SKIP", "upload-limit: curl@8.17.0"),
    ],
)
def test_a_row_passes_when_it_is_reproduced(
    tmp_path: Path, make_cell: MakeCell, odd: dict[str, str], status: str, said: str
) -> None:
    for version in ("8.17.0", "8.22.0"):
        pretend_built(version)
    notes = Notes(tmp_path, make_cell, odd)
    run_suite(shipped_suites_dir() / "repros.robot", notes, {}, choice=Choice(tests=["upload-limit"]))
    assert [result.client.name for result in notes.results] == ["curl@8.22.0", "curl@8.17.0"]
    assert f'<status status="{status}"' in notes.output
    assert said in notes.output.replace("&#x27;", "'")


def test_a_row_whose_versions_are_not_built_says_how_to_build_them(tmp_path: Path, make_cell: MakeCell) -> None:
    notes = Notes(tmp_path, make_cell, {})
    with pytest.raises(UsageProblem, match=r"lab client build curl@8\.22\.0 curl@8\.17\.0"):
        run_suite(shipped_suites_dir() / "repros.robot", notes, {}, choice=Choice(tests=["upload-limit"]))
