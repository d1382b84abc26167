"""Scenarios from rows of suites and from cells' names: the shipped ones can be run as they stand, and every fault is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.clients import versions
from lab.clients.registry import list_clients
from lab.model.cell_name import parse_cell_name
from lab.model.errors import UsageProblem
from lab.model.paths import shipped_suites_dir
from lab.model.scenario import Scenario
from lab.model.transfer import ClientSpec
from lab.robot.bugs import find_scenario, list_scenarios

SHIPPED = [scenario.name for scenario in list_scenarios()]
HEAD = "*** Settings ***\nLibrary    lab.robot.library.LabLibrary\n*** Test Cases ***\n"
GOOD = "dsl-50    http1-get-5MiB-at-2MBps    limit    curl@8.4.0    curl@8.8.0    none    too fast"


def row(folder: Path, columns: str, name: str = "mine") -> str:
    path = folder / "bugs.robot"
    path.write_text(f"{HEAD}{name}\n    Reproduce Bug    {name}    {columns}\n")
    return str(path)


def mine(folder: Path, columns: str = GOOD) -> Scenario:
    return find_scenario(row(folder, columns))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scenario_can_be_run_as_it_stands(name: str) -> None:
    scenario = find_scenario(name)
    assert scenario.symptom
    assert scenario.good
    assert scenario.bad
    assert not {*scenario.good} & {*scenario.bad}
    for client, _ in scenario.said:
        cell = scenario.cell(client)
        # A result's name says what was expected, so that it can be run again by it.
        assert parse_cell_name(cell.id) == (client, scenario.topology, scenario.transfer, scenario.expectation.named)
        assert versions.parse(client) if "@" in client else client in list_clients()


def test_the_bugs_of_http3_can_be_run_without_the_bad_versions_that_no_registry_has() -> None:
    for scenario in list_scenarios(shipped_suites_dir() / "repros-http3.robot"):
        assert (scenario.bad, scenario.good) == ((), ("curl@debian13", "ferry"))
        assert scenario.report
        assert scenario.cell("ferry").id == f"ferry--{scenario.what}"


def test_few_versions_are_needed_and_no_two_results_have_one_name() -> None:
    said = {client for name in SHIPPED for client, _ in find_scenario(name).said}
    assert len(said - {"ferry"}) <= 7
    cells = [f"{client}--{find_scenario(name).what}" for name in SHIPPED for client, _ in find_scenario(name).said]
    assert len(set(cells)) == len(cells), "two scenarios would overwrite each other's results"


def test_the_bad_ones_come_first_and_the_good_ones_pass(tmp_path: Path) -> None:
    scenario = mine(tmp_path)
    assert scenario == find_scenario(f"{tmp_path / 'bugs.robot'}:mine")
    assert list(scenario.said) == [("curl@8.4.0", "FAIL"), ("curl@8.8.0", "PASS")]
    assert scenario.what == "dsl-50--http1-get-5MiB-at-2MBps"
    assert scenario.cell("curl-new=/opt/curl").client == ClientSpec(name="curl-new", program="/opt/curl")
    assert scenario.expectation.kind == "limit"


def test_an_expectation_is_in_the_cells_name(tmp_path: Path) -> None:
    scenario = mine(tmp_path, GOOD.replace("limit", "burst at most 2"))
    assert scenario.expectation.bound == 2
    assert (
        scenario.cell("curl@8.8.0").id == f"curl@8.8.0--{scenario.what}" == "curl@8.8.0--dsl-50--http1-get-5MiB-at-2MBps--burst"
    )


@pytest.mark.parametrize("client", ["curl", "curl@8.4.0", "ferry"])
@pytest.mark.parametrize("kind", ["", "--burst"])
def test_a_cells_name_is_a_scenario_without_reports(client: str, kind: str) -> None:
    name = f"{client}--dsl-50--http1-put-1999999B-at-1MBps{kind}"
    scenario = find_scenario(name)
    assert scenario.client == client.partition("@")[0]
    assert list(scenario.said) == []
    assert scenario.cell("curl@8.22.0").id == f"curl@8.22.0--dsl-50--http1-put-1999999B-at-1MBps{kind}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("http1-get", "http1-fetch"), "'http1-fetch-5MiB-at-2MBps' is not the name of a transfer"),
        (GOOD.replace("curl@8.8.0", "curl@8.4.0"), "a client is named twice: curl@8.4.0"),
        (GOOD.replace("curl@8.8.0", "/"), "gives no name for a client"),
        (GOOD.replace("-at-2MBps", "").replace("limit", "burst"), "a burst needs a transfer with a limit"),
        (GOOD.replace("limit", "bursts"), "no such bug"),
        (GOOD.replace("dsl-50", "dsl-51"), "no topology called 'dsl-51'"),
        ("dsl-50", "expected at least 7 arguments, got 2"),
    ],
)
def test_a_fault_in_a_row_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        mine(tmp_path, text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_suite_without_bugs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.robot"
    path.write_text(f"{HEAD}One\n    Log    hello\n")
    with pytest.raises(UsageProblem, match="One reproduces no bug"):
        find_scenario(str(path))


def test_an_unknown_scenario_lists_the_known_ones() -> None:
    with pytest.raises(UsageProblem, match="no scenario called 'upload-limits'; did you mean 'upload-limit'") as caught:
        find_scenario("upload-limits")
    assert "h1-limit" in caught.value.remedy
    with pytest.raises(UsageProblem, match="no topology called 'dsl-51'"):
        find_scenario("curl--dsl-51--http1-get-5MiB")
