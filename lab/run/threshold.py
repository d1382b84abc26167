"""A search for a client's threshold: one cell per trial in virtual time, all in one run, and an answer that names the interval.

`lab.judge.threshold` decides the trials. Searches differ in the part of a cell that the variable sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from lab import __version__
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.judge.threshold import PROBES, Conclusion, Goal, Next, Trial, decide
from lab.link.path import as_one_link
from lab.link.theory import ideal_goodput_bit_s
from lab.model.answer import Answer, Arm
from lab.model.base import first_problem
from lab.model.cell import Cell
from lab.model.errors import UsageProblem
from lab.model.link import carrier
from lab.model.obeyed import refuse
from lab.model.results import CellResult, Verdict
from lab.model.threshold import Variable
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import ByteRate, Duration, Ratio, Size
from lab.run.session import Session

LOOKS = LookPlan(looks=VIRTUAL_PLAN.looks[:3], alpha_per_look=VIRTUAL_PLAN.alpha_per_look)
"""The first looks of virtual time's plan: a client still undecided after twenty samples is at the edge, and stays open."""
_MOST_BASE = 40
"""Characters of a network's name that its variants keep; a name has at most 64."""

Made = Callable[[float], Cell]
"""The cell at a value of the variable."""


@dataclass(frozen=True)
class Search:
    """The subject of a search: the client and its transfers, the cell at each value, and the meaning of a PASS, in words."""

    variable: Variable
    client: ClientSpec
    topology: Topology
    transfer: Transfer | None
    """The transfer of every trial; None where the variable sets it."""
    expectation: Expectation
    asks: str
    goal: Goal
    cell: Made = field(compare=False)
    way: str = ""
    """Protocol and direction, for the answer's name."""

    @property
    def id(self) -> str:
        return f"{self.client.name}--{self.topology.name}--{self.way}--search-{self.variable.name}"


def most_limit_byte_s(topology: Topology, direction: str, tolerance: Ratio) -> float | None:
    """The highest limit that the link can judge, bytes per second: 1 % less than what would take its ideal goodput.

    None for a link without a rate.
    """
    ideal = ideal_goodput_bit_s(as_one_link(topology.in_virtual_time()).direction(carrier(direction)), ipv6=topology.ip != 4)
    return ideal / 8 / (1 + tolerance.value) / 1.01 if ideal else None


def limit_cell(client: ClientSpec, topology: Topology, base: Transfer, lasts: Duration, expectation: Expectation) -> Made:
    """Cells whose client has that limit, bytes per second; a transfer takes `lasts`, whatever its limit."""

    def made(value: float) -> Cell:
        limit = ByteRate(round(value))
        settings = {**dict(base), "limit": limit, "size": Size(max(1, round(limit.byte_s * lasts.s)))}
        transfer = Transfer.model_validate(settings)
        return Cell(client=client, topology=topology, transfer=transfer, expectation=expectation)

    return made


def link_cell(client: ClientSpec, topology: Topology, transfer: Transfer, variable: Variable, expectation: Expectation) -> Made:
    """Cells over the same link with that round trip (seconds), or that loss each way (a fraction)."""
    _check_link(topology, variable)

    def made(value: float) -> Cell:
        setting = Duration(round(value * 1e9)) if variable.name == "rtt" else Ratio(value)
        try:
            link = type(topology.link).model_validate({**dict(topology.link), variable.name: setting})
        except ValidationError as problem:
            why = f"{topology.name} cannot have a {variable.title} of {variable.text(value)}: {first_problem(problem)}"
            raise UsageProblem(why) from None
        name = f"{topology.name[:_MOST_BASE].rstrip('-._')}-{variable.name}-{variable.number(value)}{variable.suffix}"
        description = f"{topology.name} with a {variable.title} of {variable.text(value)}."
        varied = topology.model_copy(update={"name": name, "description": description, "link": link})
        return Cell(client=client, topology=varied, transfer=transfer, expectation=expectation)

    return made


def _check_link(topology: Topology, variable: Variable) -> None:
    """The variable must be what the link has in both directions, and nothing else may change it."""
    refuse("search rtt" if variable.name == "rtt" else "search loss", topology, "virtual")


def run_search(session: Session, search: Search, told: Callable[[str], None]) -> Answer:
    """Trials until there is an answer; each cell and the answer are written. `told` gets a line per trial.

    Raises as `Session.run_cell`.
    """
    started_at = datetime.now(UTC)
    trials: list[Trial] = []
    arms: list[Arm] = []
    while isinstance(due := decide(search.goal, trials), Next):
        result = session.run_cell(search.cell(due.value))
        trials.append(Trial(due.value, result.verdict.name, due.probe))
        arms.append(_arm(search, due, result, len(trials)))
        told(f"{arms[-1].name} {arms[-1].value} ({due.why}): {result.verdict.name}, {arms[-1].facts['figure']}")
    return session.keep(_answer(search, due, arms, session, started_at))


def _arm(search: Search, due: Next, result: CellResult, number: int) -> Arm:
    figures = {search.variable.key: due.value}
    interval, bound = result.verdict.interval, result.expectation.bounded
    rates = [sample.body_byte_s for sample in result.samples if sample.ok and sample.body_byte_s]
    if interval is not None:
        figures[result.expectation.figure.name] = bound.value(interval.mean) if bound else interval.mean
    told = result.expectation.text(interval.mean) if interval and result.verdict.name != "INVALID" else result.verdict.reason
    return Arm(
        name=f"{number}.",
        value=search.variable.text(due.value),
        cell=result.id,
        verdict=result.verdict.name,
        byte_s=rates,
        mean_byte_s=math.fsum(rates) / len(rates) if rates else None,
        figures=figures,
        facts={"figure": f"{told}, n = {len(result.samples)}", "why": due.why},
    )


def _answer(search: Search, found: Conclusion, arms: Sequence[Arm], session: Session, started_at: datetime) -> Answer:
    goal, variable = search.goal, search.variable
    facts = {
        "variable": variable.name,
        "asks": search.asks,
        "range": f"{variable.text(goal.low)} to {variable.text(goal.high)}",
        "width": f"{goal.width * 100:g} %",
        "budget": str(goal.budget),
        "kind": found.kind,
    }
    facts |= {name: variable.text(value) for name, value in (("passed", found.passed), ("failed", found.failed)) if value}
    carried = next((arm.mean_byte_s for arm in arms if arm.figures[variable.key] == found.passed), None)
    if carried:
        # RFC 9971 calls it conditional throughput: what was carried at the relevant lower bound.
        facts["carried there"] = f"{carried / 1e6:.3f} MB/s"
    first = session.results[0]
    return Answer(
        id=search.id,
        question="threshold",
        run=session.run.name,
        lab_version=__version__,
        backend=first.backend,
        clocks=[first.clock],
        router=first.router,
        machine=first.before.machine,
        client=first.client,
        topology=search.topology,
        transfer=search.transfer,
        expectation=search.expectation,
        arms=list(arms),
        order=[arm.name for arm in arms for _ in arm.byte_s],
        facts=facts,
        verdict=Verdict(name=found.verdict, reason=_sentence(search, found, arms), warnings=_warnings(search, found, arms)),
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )


def _sentence(search: Search, found: Conclusion, arms: Sequence[Arm]) -> str:
    """The answer in one sentence, with the number of trials behind it."""
    variable, goal = search.variable, search.goal
    low, high = (variable.text(value) if value else "" for value in (found.passed, found.failed))
    cells = f"{len(arms)} cells"
    apart = f"{found.width * 100:.1f} % apart" if found.width is not None else ""
    if found.kind == "found":
        return f"{search.asks} up to {low} and not at {high}, {apart}, {cells}"
    if found.kind == "above":
        ends = f"{variable.text(goal.low)} to {variable.text(goal.high)}"
        return f"{search.asks} everywhere from {ends}, the end of the range, {cells}"
    if found.kind == "below":
        return f"{search.asks} nowhere: FAIL at {variable.text(goal.low)}, the start of the range, {cells}"
    if found.kind == "several":
        above = [arm.value for arm in arms if arm.verdict == "PASS" and arm.figures[variable.key] > (found.failed or 0)]
        return f"not one threshold: FAIL at {high} and PASS above it, at {', '.join(above)}, {cells}"
    if found.kind == "range":
        return f"not narrowed to {goal.width * 100:g} %: PASS at {low}, FAIL at {high}, {apart}, {cells}"
    open_ends = [arm for arm in arms[:2] if arm.verdict not in ("PASS", "FAIL")]
    told = "; ".join(f"{arm.value} is {arm.verdict}: {arm.facts['figure']}" for arm in open_ends)
    return f"no search: an end of the range has no verdict: {told}"


def _warnings(search: Search, found: Conclusion, arms: Sequence[Arm]) -> list[str]:
    variable = search.variable
    warnings = [
        f"{arm.value} is {arm.verdict} and moved no bound"
        for arm in arms
        if arm.verdict not in ("PASS", "FAIL") and found.kind != "unknown"
    ]
    if found.kind in ("found", "above", "below") and found.probes < PROBES:
        warnings.append(
            f"{found.probes} of {PROBES} probes for a second threshold were made: the budget of {search.goal.budget} cells was "
            f"used or no {variable.title} was left to try"
        )
    return warnings
