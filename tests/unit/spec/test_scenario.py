"""Scenarios from files and from cells' names: the shipped ones can be run as they stand, and every fault is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import admin
from lab.client import versions
from lab.client.registry import list_clients
from lab.errors import UsageProblem
from lab.paths import repros_dir, suites_dir
from lab.spec.cell import parse_cell_name
from lab.spec.models import ClientSpec
from lab.spec.scenario import find_scenario, list_scenarios

GOOD = "name: mine\ntopology: dsl-50\ntransfer: http1-get-5MiB-at-2MBps\ngood: [curl@8.8.0]\nbad: [curl@8.4.0]\n"
SHIPPED = list_scenarios()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scenario_can_be_run_as_it_stands(name: str) -> None:
    scenario = find_scenario(name)
    assert scenario.reported
    assert scenario.good
    assert scenario.bad
    assert not {*scenario.good} & {*scenario.bad}
    for client, _ in scenario.said:
        cell = scenario.cell(client)
        # A result's name says what was expected, so that it can be run again by it.
        assert parse_cell_name(cell.id) == (client, scenario.topology, scenario.transfer, scenario.expectation.named)
        assert versions.parse(client) if "@" in client else client in list_clients()


def test_few_versions_are_needed_and_no_two_results_have_one_name() -> None:
    said = {client for name in SHIPPED for client, _ in find_scenario(name).said}
    assert len(said - {"ferry"}) <= 7
    cells = [f"{client}--{find_scenario(name).what}" for name in SHIPPED for client, _ in find_scenario(name).said]
    assert len(set(cells)) == len(cells), "two scenarios would overwrite each other's results"


def test_the_suite_has_a_row_for_every_scenario() -> None:
    words = (suites_dir() / "repros.robot").read_text(encoding="utf-8").split()
    assert [name for name in SHIPPED if words.count(name) != 1] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file_tells_editors_its_schema(name: str) -> None:
    first = (repros_dir() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=./scenario.schema.json"


def test_the_bad_ones_come_first_and_the_good_ones_pass(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    scenario = find_scenario("mine", tmp_path)
    assert scenario == find_scenario(str(tmp_path / "mine.yaml"))
    assert list(scenario.said) == [("curl@8.4.0", "FAIL"), ("curl@8.8.0", "PASS")]
    assert scenario.what == "dsl-50--http1-get-5MiB-at-2MBps"
    assert scenario.cell("curl-new=/opt/curl").client == ClientSpec(name="curl-new", program="/opt/curl")
    assert scenario.expectation.kind == "limit"


def test_an_expectation_is_in_the_cells_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD + "expect: {kind: burst, bound: 2}\n")
    scenario = find_scenario("mine", tmp_path)
    assert scenario.expectation.bound == 2
    assert (
        scenario.cell("curl@8.8.0").id == f"curl@8.8.0--{scenario.what}" == "curl@8.8.0--dsl-50--http1-get-5MiB-at-2MBps--burst"
    )


@pytest.mark.parametrize("client", ["curl", "curl@8.4.0", "ferry"])
@pytest.mark.parametrize("kind", ["", "--burst"])
def test_a_cells_name_is_a_scenario_of_which_nothing_was_said(client: str, kind: str) -> None:
    name = f"{client}--dsl-50--http1-put-1999999B-at-1MBps{kind}"
    scenario = find_scenario(name)
    assert scenario.client == client.partition("@")[0]
    assert list(scenario.said) == []
    assert scenario.cell("curl@8.22.0").id == f"curl@8.22.0--dsl-50--http1-put-1999999B-at-1MBps{kind}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("transfer", "transfers"), ":3: transfers: there is no such field; did you mean 'transfer'?"),
        (GOOD.replace("http1-get", "http1-fetch"), ":3: transfer: 'http1-fetch-5MiB-at-2MBps' is not the name of a transfer"),
        (GOOD.replace("curl@8.8.0", "curl@8.4.0"), "a client is named twice: curl@8.4.0"),
        (GOOD.replace("curl@8.8.0", "/"), "gives no name for a client"),
        (GOOD.replace("-at-2MBps", "") + "expect: {kind: burst}\n", "without a limit there is no burst"),
        (GOOD + "expect: {kind: bursts}\n", ":6: expect.kind: "),
        (GOOD.replace("mine", "other"), "it says 'other' but the file is called mine.yaml"),
        (GOOD.replace("topology: dsl-50\n", ""), "topology: it is missing"),
    ],
)
def test_a_fault_in_a_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageProblem) as caught:
        find_scenario(str(path))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_scenario_says_which_there_are() -> None:
    with pytest.raises(UsageProblem, match="no scenario called 'upload-limits'; did you mean 'upload-limit'") as caught:
        find_scenario("upload-limits")
    assert "h1-limit" in caught.value.remedy
    with pytest.raises(UsageProblem, match="no topology called 'dsl-51'"):
        find_scenario("curl--dsl-51--http1-get-5MiB")


def test_a_topology_that_is_not_there_is_found_when_the_cell_is_made(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD.replace("dsl-50", "dsl-51"))
    with pytest.raises(UsageProblem, match="no topology called 'dsl-51'"):
        find_scenario("mine", tmp_path).cell("curl")


def test_the_schema_is_of_what_a_person_writes() -> None:
    app = typer.Typer()
    admin.register(app)
    shown = json.loads(CliRunner().invoke(app, ["schema", "scenario"]).stdout)
    assert shown["properties"]["transfer"]["type"] == "string"
    assert shown["additionalProperties"] is False
    assert sorted(shown["required"]) == ["name", "topology", "transfer"]
