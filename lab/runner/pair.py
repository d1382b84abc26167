"""Two clients' cells of one transfer: what makes them a pair, and from their samples to its result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lab import __version__
from lab.errors import UsageProblem
from lab.judge.host import host_problems, judge_together
from lab.judge.regression import judge_regression, pair_rates, ratio_interval
from lab.judge.tolerance import LookPlan
from lab.result.models import CellResult, Verdict
from lab.result.qualification import PairResult, PairSide, Side
from lab.spec.models import Cell, ClientSpec
from lab.spec.units import Ratio

MARGIN = Ratio(0.05)
_SIDES: tuple[Side, Side] = ("candidate", "baseline")


def check_pair(candidate: Cell, baseline: Cell) -> None:
    """Raises ValueError for two different questions, UsageProblem as `check_names`."""
    ours, theirs = (cell.model_copy(update={"client": candidate.client}) for cell in (candidate, baseline))
    if ours != theirs:
        raise ValueError(f"not a pair: {candidate.id} and {baseline.id} differ in more than the client")
    check_names(candidate.client, baseline.client)


def check_names(candidate: ClientSpec, baseline: ClientSpec) -> None:
    """Raises UsageProblem for two clients of one name: results are called by it."""
    if candidate.name == baseline.name:
        raise UsageProblem(f"candidate and baseline are both called {candidate.name!r}", remedy="give one of them as NAME=PATH")


def pair_id(candidate: Cell, baseline: Cell) -> str:
    return f"{candidate.id}--vs-{baseline.client.name}"


def why_untold(cell: Cell) -> str:
    """Why the ratio of this cell's rates is not judged; empty where it is."""
    if cell.transfer.limit is not None:
        return "the transfer is limited: each client is judged against its limit"
    if cell.expectation.kind in ("memory", "cpu"):
        return f"the cell is about {'memory' if cell.expectation.kind == 'memory' else 'CPU time'}, not speed"
    if cell.link_direction.rate is None:
        return "the link is not shaped: its speed is the machine's"
    return ""


def pair_result(
    cell: Cell,
    pair: str,
    results: Sequence[CellResult],
    *,
    margin: Ratio,
    order: Sequence[int],
    problems: Sequence[str],
    looks: LookPlan,
) -> PairResult:
    """Compare what two cells hold, the candidate's first. `order` has an index per transfer; `problems` are the lab's."""
    ours, theirs = results
    rates = pair_rates(ours.samples, theirs.samples)
    untold = why_untold(cell)
    verdict: Verdict | None = None
    if not untold:
        # As for a cell: what was taken on a link that then failed its lab is no ground for a verdict.
        grounds = ours.samples and ours.certificate is not None
        verdict = judge_regression(ours.samples, theirs.samples, margin.value, looks) if grounds else None
        if verdict is None and not problems and not host_problems(results):
            untold = f"{theirs.client.name} failed a transfer: there is nothing to compare with"
        else:
            verdict = judge_together(verdict, results, looks, problems=problems)
    return PairResult(
        id=pair,
        run=ours.run,
        lab_version=__version__,
        topology=cell.topology,
        transfer=cell.transfer,
        expectation=cell.expectation,
        candidate=_side(ours, rates.candidate),
        baseline=_side(theirs, rates.baseline),
        margin=margin,
        clock=rates.clock,
        lab_clock=ours.clock,
        order=[_SIDES[index] for index in order],
        ratio=verdict.interval if verdict and verdict.interval else ratio_interval(rates.ratios, looks),
        verdict=verdict,
        untold=untold,
        started_at=ours.started_at,
        ended_at=datetime.now(UTC),
    )


def _side(result: CellResult, rates: list[float]) -> PairSide:
    return PairSide(client=result.client, cell=result.id, verdict=result.verdict.name, byte_s=rates)
