"""Run a scenario on the clients that are said to have its bug and on those that are not: does this lab find the same?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lab.clients import versions
from lab.clients.registry import resolve_for, userland_of
from lab.model.answer import Answer, answer_of
from lab.model.cell import Cell
from lab.model.errors import NotSupported, RoughwaterError, UsageProblem
from lab.model.results import CellResult, Verdict, VerdictName
from lab.model.scenario import Said, Scenario
from lab.model.transfer import ClientSpec
from lab.run.questions import Asking, CellQuestion


def as_reported(scenario: Scenario, expected: Said, result: CellResult) -> Answer:
    """Judge if a client behaved as the scenario reports; the arm holds the client's own verdict.

    A failed transfer does not reproduce a wrong figure: the client FAILs, but because of another fault.
    """
    found, client = result.verdict.name, result.client.name
    held = found == expected and not (expected == "FAIL" and transfer_failed(result))
    name: VerdictName = "PASS" if held else found if found in ("INCONCLUSIVE", "INVALID") else "FAIL"
    said = "" if held else f"{scenario.name}: {client} was said to {expected}, but it is {found}: "
    where = "" if held else f" [{result.id}]"
    changed = {
        "question": "as-reported",
        "facts": {"scenario": scenario.name, "expected": expected, "figure": figure(result)},
        "verdict": Verdict(name=name, reason=f"{said}{figure(result)}{where}", cause="verdicts"),
    }
    return answer_of(result).model_copy(update=changed)


def transfer_failed(result: CellResult) -> bool:
    """True if the cell FAILs because a transfer failed although the expectation is about a figure."""
    return result.verdict.name == "FAIL" and result.verdict.interval is None and result.expectation.kind != "none"


def figure(result: CellResult) -> str:
    """The mean in the unit of its expectation, `+99.41 %` or `190.2 MB`; without a mean, the verdict's reason."""
    verdict = result.verdict
    if verdict.interval is None or verdict.name == "INVALID":
        return verdict.reason
    return result.expectation.text(verdict.interval.mean)


def plan(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, Said, Cell]]:
    """The cells to run, in order. Raises UsageProblem where one cannot be run or would overwrite another's result."""
    due: list[tuple[Scenario, Said, Cell]] = []
    taken: dict[str, str] = {}
    for scenario in scenarios:
        if not scenario.good and not scenario.bad:
            remedy = "make it a row of a suite like suites/repros.robot, or search for the first bad version with `lab bisect`"
            raise UsageProblem(f"no client is said to have or not to have {scenario.name}", remedy=remedy)
        for client, said in scenario.said:
            cell = scenario.cell(client)
            if (other := taken.setdefault(cell.id, scenario.name)) != scenario.name:
                raise UsageProblem(
                    f"{other} and {scenario.name} have the cell {cell.id} in common", remedy="run one after the other"
                )
            due.append((scenario, said, cell))
    return due


def check_clients(cells: Iterable[Cell]) -> None:
    """Check before the start that every client is there and can do its cell.

    Raises NotSupported, which a suite skips, and UsageProblem for an unknown client.
    """
    cells = list(cells)
    if missing := unbuilt([cell.client for cell in cells]):
        words = " ".join(missing)
        some = "it has" if len(missing) == 1 else "they have"
        raise NotSupported(f"{', '.join(missing)}: {some} not been built", remedy=f"lab client build {words}, or add --build")
    for cell in cells:
        resolve_for(cell.client, cell.transfer, cell.id)


def unbuilt(clients: Iterable[ClientSpec]) -> list[str]:
    """Versions that have not been built. Raises UsageProblem for an unknown version."""
    named = dict.fromkeys(
        client.name for client in clients if "@" in client.name and client.program == client.name and not userland_of(client)
    )
    return [name for name in named if versions.find(name) is None and name != f"{versions.CURL}@{versions.SYSTEM}"]


def build(names: Iterable[str], say: Callable[[str], None]) -> None:
    """Build versions, `curl@8.4.0`, into the cache. Raises UsageProblem or LabFault as `versions.build`."""
    for name in names:
        versions.build(name, say)


def reproduce(asking: Asking, due: Sequence[tuple[Scenario, Said, Cell]]) -> list[Answer]:
    """Run what `plan` made: in virtual time side by side, in real time one cell after the other.

    Raises the first problem that left a cell without a result.
    """
    asking.ahead([CellQuestion(cell) for *_, cell in due])
    answers: list[Answer] = []
    for scenario, said, cell in due:
        found = asking.ask(CellQuestion(cell))
        if isinstance(found, RoughwaterError):
            raise found
        assert isinstance(found, CellResult)
        answers.append(as_reported(scenario, said, found))
    return answers
