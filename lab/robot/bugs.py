"""Scenarios by name: rows of `suites/repros.robot`, or of a suite of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.model.errors import UsageProblem, did_you_mean
from lab.model.paths import shipped_suites_dir
from lab.model.scenario import Scenario, scenario_of_cell
from lab.robot.checked import check_suite
from lab.robot.tables import read_rows

REPROS = "repros.robot"


def list_scenarios(path: Path | None = None) -> list[Scenario]:
    """A suite's scenarios (by default the project's), in order. Raises UsageProblem for a row that is about something else."""
    path = path or shipped_suites_dir() / REPROS
    if not path.is_file():
        raise UsageProblem(f"no suite {path}", remedy="give the path of a .robot file")
    from robot.api import TestSuite

    check_suite(path, "lab repro")
    found: list[Scenario] = []
    for row in read_rows(TestSuite.from_file_system(str(path))):
        scenarios = [declared.scenario for declared in row.declared if declared.scenario]
        if not scenarios:
            raise UsageProblem(f"{path}: {row.name} reproduces no bug", remedy=row.problem or "its keyword is Reproduce Bug")
        found += scenarios
    return found


def find_scenarios(text: str) -> Sequence[Scenario]:
    """A row by its name, the rows of a suite by its path, or what a cell's name stands for. Raises UsageProblem."""
    if text.endswith(".robot"):
        return list_scenarios(Path(text))
    if "--" in text:
        return [scenario_of_cell(text)]
    path, colon, name = text.rpartition(".robot:")
    known = list_scenarios(Path(f"{path}.robot") if colon else None)
    wanted = name if colon else text
    found = [scenario for scenario in known if scenario.name == wanted]
    if not found:
        names = [scenario.name for scenario in known]
        remedy = f"there are: {', '.join(names)}; the path of a .robot file or a cell's name will do too"
        raise UsageProblem(f"no scenario called {wanted!r}{did_you_mean(wanted, names)}", remedy=remedy)
    return found


def find_scenario(text: str) -> Scenario:
    """The one scenario that `find_scenarios` finds. Raises UsageProblem for several."""
    found = find_scenarios(text)
    if len(found) > 1:
        raise UsageProblem(f"{text} has {len(found)} rows", remedy=f"name one of them: {text}:{found[0].name}")
    return found[0]
