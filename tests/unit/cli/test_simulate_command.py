"""`lab simulate`: a table or a model, one exit code for a broken promise, one line for impossible options."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli import simulate as command
from lab.judge.decide import VIRTUAL_PLAN
from lab.judge.simulate import Row, Simulation, scenarios
from lab.model.errors import EXIT_FAIL, EXIT_PASS, UsageProblem


def lab_simulate(*words: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(words))


def test_a_model_with_every_scenario() -> None:
    done = lab_simulate("--cells", "3", "--seed", "4", "--json")
    found = Simulation.model_validate_json(done.stdout)
    assert done.exit_code == (EXIT_FAIL if found.broken else EXIT_PASS)
    assert [row.scenario for row in found.rows] == [scenario.name for scenario in scenarios()]
    assert {row.cells for row in found.rows} == {3}
    assert (found.seed, found.looks, found.alpha_per_look) == (4, [5, 10, 15, 20], 0.016)


def test_virtual_time_has_a_plan_of_its_own() -> None:
    found = Simulation.model_validate_json(lab_simulate("--cells", "2", "--clock", "virtual", "--json").stdout)
    assert (found.looks, found.alpha_per_look) == ([5, 10, 20, 40, 80], VIRTUAL_PLAN.alpha_per_look)
    assert lab_simulate("--clock", "wall").exit_code != EXIT_PASS


def test_a_table_and_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Row(
        scenario="at the edge",
        counted="PASS",
        asked=0.05,
        cells=100,
        seen=4,
        share=0.04,
        low=0.02,
        high=0.1,
        verdicts={"PASS": 4, "INCONCLUSIVE": 96},
        mean_samples=19.5,
    )
    monkeypatch.setattr(command, "simulate", lambda *_: iter([kept]))
    done = lab_simulate()
    assert done.exit_code == EXIT_PASS
    for words in ("at the edge", "<= 5 %", "4.00 %", "2.00 to 10.00 %", "4 / 0 / 96", "19.5", "kept", "every one of 1 promises"):
        assert words in done.stdout
    broken = kept.model_copy(update={"share": 0.2, "low": 0.15})
    monkeypatch.setattr(command, "simulate", lambda *_: iter([kept, broken]))
    done = lab_simulate()
    assert done.exit_code == EXIT_FAIL
    assert "BROKEN: at the edge (20.00 %)" in done.stdout


@pytest.mark.parametrize("words", [("--cells", "0"), ("--seed", "-1")])
def test_impossible_options_are_one_line(words: tuple[str, ...]) -> None:
    done = lab_simulate(*words)
    assert isinstance(done.exception, UsageProblem)
    assert "\n" not in str(done.exception)
