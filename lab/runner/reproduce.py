"""Runs a scenario on the clients that are said to have its bug, and on those said not to: does this lab find the same?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.assets import curl_build
from lab.client import versions
from lab.client.registry import resolve_for
from lab.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, NotSupported, UsageProblem
from lab.judge.figures import asked
from lab.result.models import CellResult, VerdictName
from lab.runner.ahead import run_ahead
from lab.runner.clocks import clock_for
from lab.runner.session import Session
from lab.spec.models import Cell, ClientSpec
from lab.spec.numbers import percent
from lab.spec.scenario import Said, Scenario


@dataclass(frozen=True)
class Outcome:
    """What one client of a scenario was said to do, and what it did."""

    scenario: str
    client: str
    expected: Said
    found: VerdictName
    figure: str
    cell: str
    run: str
    as_expected: bool

    @property
    def exit_code(self) -> int:
        if self.as_expected:
            return EXIT_PASS
        return {"INCONCLUSIVE": EXIT_INCONCLUSIVE, "INVALID": EXIT_INVALID}.get(self.found, EXIT_FAIL)

    def __str__(self) -> str:
        """One sentence about what was not as expected."""
        said = f"{self.client} was said to {self.expected}, and here it is {self.found}"
        return f"{self.scenario}: {said}: {self.figure} [{self.cell}]"


def outcome(scenario: Scenario, expected: Said, result: CellResult) -> Outcome:
    """A transfer that failed is no reproduction of a figure that is off: the client FAILs, and by another fault."""
    as_expected = result.verdict.name == expected and not (expected == "FAIL" and transfer_failed(result))
    return Outcome(
        scenario=scenario.name,
        client=result.client.name,
        expected=expected,
        found=result.verdict.name,
        figure=figure(result),
        cell=result.id,
        run=result.run,
        as_expected=as_expected,
    )


def transfer_failed(result: CellResult) -> bool:
    """Whether its FAIL is that of a transfer, where the expectation is about a figure."""
    return result.verdict.name == "FAIL" and result.verdict.interval is None and result.expectation.kind != "none"


def figure(result: CellResult) -> str:
    """The mean in the unit of its expectation, `+99.41 %` or `190.2 MB`; where there is none, the verdict's reason."""
    verdict = result.verdict
    if verdict.interval is None or verdict.name == "INVALID":
        return verdict.reason
    meant = asked(result.expectation)
    return meant.told(verdict.interval.mean) if meant else percent(verdict.interval.mean)


def worst_exit_code(outcomes: Iterable[Outcome]) -> int:
    """As a run's: 1 for any decided verdict that is the other one, else 4 for INVALID, else 3 for INCONCLUSIVE, else 0."""
    seen = {each.exit_code for each in outcomes}
    return next((code for code in (EXIT_FAIL, EXIT_INVALID, EXIT_INCONCLUSIVE) if code in seen), EXIT_PASS)


def plan(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, Said, Cell]]:
    """Every cell that is due, in order. Raises UsageProblem where one could not be run, or would overwrite another's result."""
    due: list[tuple[Scenario, Said, Cell]] = []
    taken: dict[str, str] = {}
    for scenario in scenarios:
        if not scenario.good and not scenario.bad:
            remedy = "say it in a YAML file, good: and bad:; or search for the first that has it with `lab bisect`"
            raise UsageProblem(f"nobody has said of {scenario.name} which clients have it", remedy=remedy)
        for client, said in scenario.said:
            cell = scenario.cell(client)
            if (other := taken.setdefault(cell.id, scenario.name)) != scenario.name:
                raise UsageProblem(
                    f"{other} and {scenario.name} have the cell {cell.id} in common", remedy="run one after the other"
                )
            due.append((scenario, said, cell))
    return due


def check_clients(cells: Iterable[Cell]) -> None:
    """Say before anything is started what has not been built, is not there, or cannot do its cell.

    Raises NotSupported, which a suite skips, and UsageProblem for a client that there is not.
    """
    cells = list(cells)
    if missing := unbuilt([cell.client for cell in cells]):
        words = " ".join(missing)
        some = "it has" if len(missing) == 1 else "they have"
        raise NotSupported(f"{', '.join(missing)}: {some} not been built", remedy=f"lab client build {words}, or add --build")
    for cell in cells:
        resolve_for(cell.client, cell.transfer, cell.id)


def unbuilt(clients: Iterable[ClientSpec]) -> list[str]:
    """Of those that are versions, the ones that are not in the cache. Raises UsageProblem for a version that is none."""
    named = dict.fromkeys(client.name for client in clients if "@" in client.name and client.program == client.name)
    asked_for = {name: versions.parse(name) for name in named}
    return [name for name, version in asked_for.items() if version != versions.SYSTEM and curl_build.find(version) is None]


def build(names: Iterable[str], say: Callable[[str], None]) -> None:
    """Build versions, `curl@8.4.0`, into the cache. Raises UsageProblem or LabFault as `curl_build.build`."""
    for name in names:
        curl_build.build(versions.parse(name), say)


def reproduce(session: Session, due: Sequence[tuple[Scenario, Said, Cell]]) -> list[Outcome]:
    """Run what `plan` made: in virtual time side by side, in real time one cell after the other. Raises as `Session.run_cell`."""
    cells = [cell for *_, cell in due]
    virtual = [cell for cell in cells if clock_for([cell], session.options.clock) == "virtual"]
    if virtual:
        session.ahead = run_ahead(session, virtual)
    return [outcome(scenario, said, session.run_cell(cell)) for scenario, said, cell in due]
