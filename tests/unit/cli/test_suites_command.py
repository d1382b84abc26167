"""`lab suites`: every suite with its question and its size, the titles of its rows, and what of it a client can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli import suites as command
from lab.model.errors import UsageProblem
from lab.robot.suite import Choice, list_suites, read_suites, suite_file


def lab_suites(*words: str | Path) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def found(*words: str | Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(lab_suites(*words, "--json").stdout)}


def test_every_suite_has_a_question_and_rows() -> None:
    suites = found()
    assert list(suites) == list_suites()
    for each in suites.values():
        assert each["question"].endswith(("?", "."))
        assert each["rows"]
    assert (suites["throttle"]["cells"], suites["throttle"]["clock"]) == (52, "virtual")
    assert suites["requests"]["clock"] == "real"
    lines = lab_suites().stdout.splitlines()
    assert next(line for line in lines if line.startswith("throttle ")).split()[1:4] == ["52", "52", "virtual"]


def test_the_titles_of_a_suite_are_what_test_takes() -> None:
    rows = found("faults")["faults"]["rows"]
    lines = lab_suites("faults").stdout.splitlines()
    for row in rows:
        assert any(line.startswith(row["title"]) for line in lines)
    chosen = read_suites([suite_file("faults")], choice=Choice(tests=[rows[3]["title"]]))
    assert chosen.test_count == 1
    assert "tags, for --include: " in lab_suites("throttle").stdout


def test_what_a_client_can_do(tmp_path: Path) -> None:
    """Its description alone decides: it has neither the protocols nor the limit that the rows ask for."""
    own = tmp_path / "mine.yaml"
    own.write_text("name: mine\nprogram: /bin/true\nprotocols: [http1]\nput: /bin/true {source} {url}\n", encoding="utf-8")
    suites = found("faults", "throttle", "windows-quirks", "--client", own)
    assert suites["throttle"]["fits"] == 0
    fits = [row["title"] for row in suites["faults"]["rows"] if not row["problem"]]
    assert len(fits) == suites["faults"]["fits"] > 5
    assert all(title.endswith("HTTP Up") for title in fits)
    assert 0 < suites["windows-quirks"]["fits"] < len(suites["windows-quirks"]["rows"])
    shown = lab_suites("faults", "--client", own).stdout
    assert f"can do {len(fits)} of {len(suites['faults']['rows'])} rows" in shown
    assert "cannot: mine" in shown


def test_an_unknown_suite_or_client_is_one_line() -> None:
    for words, said in (
        (["thrott"], "no suite called 'thrott'; did you mean 'throttle'? (suites: dual-stack, endpoints, faults, "),
        (["throttle", "--client", "nix"], "unknown client 'nix'"),
    ):
        problem = lab_suites(*words).exception
        assert isinstance(problem, UsageProblem)
        assert str(problem).startswith(said)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice(tests=["*Put*"]), "no test of faults matches '*Put*' (its rows are 'Connection Closed, HTTP Down', "),
        (Choice(tests=["Succes Before*"]), "(its rows are 'Success Before The End, "),
        (Choice(include=["quik"]), "no test of faults matches 'quik' (tags of its rows are "),
    ],
)
def test_a_pattern_that_matches_nothing_names_what_there_is(choice: Choice, said: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        read_suites([suite_file("faults")], choice=choice)
    assert said in str(problem.value), str(problem.value)
    assert str(problem.value).endswith("lab suites faults lists all)")
