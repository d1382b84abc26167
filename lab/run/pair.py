"""A candidate's cell and a baseline's: what makes them a pair, and the answer made of their samples."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lab import __version__
from lab.clients import versions
from lab.clients.registry import userland_of
from lab.judge.host import host_problems, judge_together
from lab.judge.regression import Rates, judge_regression, pair_rates, ratio_interval
from lab.judge.tolerance import LookPlan
from lab.model.answer import BASELINE, CANDIDATE, Answer, Arm, Claim, Question
from lab.model.cell import Cell
from lab.model.errors import UsageProblem
from lab.model.numbers import geometric_mean
from lab.model.results import CellResult, Interval, Verdict
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio

MARGIN = Ratio(0.05)
SIDES = (CANDIDATE, BASELINE)


def check_pair(candidate: Cell, baseline: Cell) -> None:
    """Raises ValueError where the cells differ in more than the client, UsageProblem as `check_names`."""
    ours, theirs = (cell.model_copy(update={"client": candidate.client}) for cell in (candidate, baseline))
    if ours != theirs:
        raise ValueError(f"not a pair: {candidate.id} and {baseline.id} differ in more than the client")
    check_names(candidate.client, baseline.client)


def check_names(candidate: ClientSpec, baseline: ClientSpec) -> None:
    """Raises UsageProblem for two clients of one name, because results are named by it."""
    if candidate.name == baseline.name:
        raise UsageProblem(f"candidate and baseline are both called {candidate.name!r}", remedy="give one of them as NAME=PATH")


def told_apart(candidate: ClientSpec, baseline: ClientSpec) -> ClientSpec:
    """The baseline, as NAME-baseline where both have one name: results are named by it, and a program may be its own baseline.

    Raises UsageProblem where there is no room for such a name.
    """
    if candidate.name != baseline.name:
        return baseline
    program = baseline.program
    if "@" in program and program == baseline.name and not userland_of(baseline):
        program = versions.program(baseline.name)
    try:
        return ClientSpec(name=f"{baseline.name}-{BASELINE}", program=program)
    except ValueError:
        check_names(candidate, baseline)
        raise


def pair_id(candidate: Cell, baseline: Cell) -> str:
    return f"{candidate.id}--vs-{baseline.client.name}"


def why_not_judged(cell: Cell) -> str:
    """The reason why the ratio of this cell's rates is not judged; empty where it is."""
    if cell.transfer.limit is not None:
        return "the transfer is limited: each client is judged against its limit"
    if cell.expectation.kind in ("memory", "cpu"):
        return f"the cell is about {'memory' if cell.expectation.kind == 'memory' else 'CPU time'}, not speed"
    if cell.link_direction.rate is None:
        return "the link is not shaped: its speed is the machine's"
    return ""


def no_slower(
    cell: Cell,
    pair: str,
    results: Sequence[CellResult],
    *,
    margin: Ratio,
    order: Sequence[int],
    problems: Sequence[str],
    looks: LookPlan,
) -> Answer:
    """Is the candidate no slower? `results` are the candidate's cell and the baseline's.

    `order` has an index per transfer; `problems` are the lab's.
    """
    ours, theirs = results
    rates = pair_rates(ours.samples, theirs.samples)
    not_judged = why_not_judged(cell)
    verdict: Verdict | None = None
    if not not_judged:
        # Samples on a link that failed its calibration do not support a verdict, nor do they for a single cell.
        grounds = ours.samples and ours.certificate is not None
        verdict = judge_regression(ours.samples, theirs.samples, margin.value, looks) if grounds else None
        if verdict is None and not problems and not host_problems(results):
            not_judged = f"{theirs.client.name} failed a transfer: there is nothing to compare with"
        else:
            verdict = judge_together(verdict, results, looks, problems=problems)
    return pair_answer(
        pair,
        "no-slower",
        cell,
        results,
        rates,
        order,
        bound=margin,
        ratio=verdict.interval if verdict and verdict.interval else ratio_interval(rates.ratios, looks),
        verdict=verdict,
        not_judged=not_judged,
    )


def pair_answer(  # noqa: PLR0917 - two callers
    pair: str,
    question: Question,
    cell: Cell,
    results: Sequence[CellResult],
    rates: Rates,
    order: Sequence[int],
    *,
    ratio: Interval | None,
    verdict: Verdict | None,
    bound: Ratio | None = None,
    claims: Sequence[Claim] = (),
    not_judged: str = "",
) -> Answer:
    """The answer to a question about two clients that took turns; it ends now. `order` has an index of `results` per transfer."""
    ours, theirs = results
    return Answer(
        id=pair,
        question=question,
        run=ours.run,
        lab_version=__version__,
        backend=ours.backend,
        clocks=[ours.clock],
        topology=cell.topology,
        transfer=cell.transfer,
        expectation=cell.expectation,
        arms=[_arm(CANDIDATE, ours, rates.candidate), _arm(BASELINE, theirs, rates.baseline)],
        claims=list(claims),
        bound=bound,
        rate_clock=rates.clock,
        order=[SIDES[index] for index in order],
        ratio=ratio,
        verdict=verdict,
        not_judged=not_judged,
        started_at=ours.started_at,
        ended_at=datetime.now(UTC),
    )


def _arm(name: str, result: CellResult, rates: list[float]) -> Arm:
    """One side of a pair; `rates` are its bytes per second, a value per pair."""
    return Arm(
        name=name,
        value=result.client.name,
        cell=result.id,
        client=result.client,
        verdict=result.verdict.name,
        byte_s=rates,
        mean_byte_s=geometric_mean(rates),
    )
