"""Does the judge keep its promises? Clients are drawn from models and judged by the functions that judge real ones; pure.

A scenario is a client whose true behaviour is known, the verdict that would be wrong for it, and how often that may come.
A scenario without a bound is shown as a warning. A promise is broken if the complete Wilson interval of the observed share lies
above the bound. Random numbers come from numpy's `default_rng`, seeded by the seed and the scenario's stream, so rows do not
depend on each other, and the same seed gives the same table.

A client with spread ("CV") s has log rates of standard deviation s. Its true mean is geometric, and that mean is judged.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from lab.judge.caveats import BIMODAL
from lab.judge.decide import VIRTUAL_PLAN, LookPlan, decide
from lab.judge.interval import mean_interval
from lab.judge.ratio import Tolerance, judge_ratio, paired_ratio, welch_ratio
from lab.judge.regression import judge_ratios
from lab.judge.sweep import turn_order
from lab.judge.tolerance import Band, decide_values, judge_tolerance, next_look
from lab.model.results import Closed, VerdictName

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    Samples = NDArray[np.float64]

PLAN = LookPlan()
TOLERANCE = 0.05
MARGIN = 0.01
"""For comparisons: a ratio outside 1 +- this is a change."""
DRIFT = 0.03
QUIET = 0.005
"""Spread of the compared clients, small enough that noise does not hide the drift."""
UNDECIDED = 0.05
"""The largest share of undecided verdicts on a client with two speeds, 7 % apart and on average 1.5 % or more from the edge."""
TAIL = 0.3
"""Sigma of the lognormal part of a client that stalls: skewness 0.95."""


class Row(Closed):
    """One scenario."""

    scenario: str
    counted: str = Field(description="the wrong verdict, whose share is counted")
    asked: float | None = Field(description="the share may be at most this; null where it is only shown")
    cells: int = Field(ge=1)
    seen: int = Field(description="cells with the wrong verdict")
    share: float
    low: float = Field(description="Wilson interval of the share, 95 %")
    high: float
    verdicts: dict[VerdictName, int]
    mean_samples: float = Field(description="transfers taken until the verdict")

    @property
    def broken(self) -> bool:
        return self.asked is not None and self.low > self.asked

    @property
    def word(self) -> str:
        """The outcome for the promised error rate, in words."""
        if self.asked is None:
            return "shown"
        return "BROKEN" if self.broken else "kept" if self.share <= self.asked else "within chance"


class Simulation(Closed):
    """All scenarios under one plan."""

    seed: int
    looks: list[int]
    alpha_per_look: float
    rows: list[Row]

    @property
    def broken(self) -> list[Row]:
        return [row for row in self.rows if row.broken]


@dataclass(frozen=True)
class Judged:
    """The result of one simulated cell; `wrong` if it got the scenario's wrong verdict."""

    name: VerdictName
    samples: int
    wrong: bool


Draw = Callable[["Generator", int], "Samples"]
"""Draws the given number of cells along the first axis; the other axes are what the scenario's judge takes."""
Judge = Callable[["Samples"], Judged]


@dataclass(frozen=True)
class Scenario:
    """A model of a client, the verdict that would be wrong for it, and how often that may come."""

    name: str
    counted: str
    asked: float | None
    draw: Draw
    judge: Judge
    stream: str = ""
    """Scenarios of one stream see the same samples; its own name where it has none."""


def simulate(cells: int, seed: int, plan: LookPlan = PLAN) -> Iterator[Row]:
    """Every scenario's row, as soon as it is ready. Raises ValueError for fewer than one cell."""
    for scenario in scenarios(plan):
        yield run(scenario, cells, seed)


def run(scenario: Scenario, cells: int, seed: int) -> Row:
    """Simulate one scenario. Raises ValueError for fewer than one cell and for a negative seed."""
    if cells < 1 or seed < 0:
        raise ValueError(f"a simulation needs one cell at least and a seed of 0 or more, got {cells} and {seed}")
    import numpy as np

    draws = scenario.draw(np.random.default_rng([seed, zlib.crc32((scenario.stream or scenario.name).encode())]), cells)
    judged = [scenario.judge(row) for row in draws]
    return counted_row(
        scenario.name,
        scenario.counted,
        scenario.asked,
        seen=sum(each.wrong for each in judged),
        verdicts=Counter(each.name for each in judged),
        mean_samples=sum(each.samples for each in judged) / cells,
    )


def counted_row(
    scenario: str, counted: str, asked: float | None, *, seen: int, verdicts: Mapping[VerdictName, int], mean_samples: float
) -> Row:
    """`seen` of all verdicts, with Wilson's interval."""
    from scipy.stats import binomtest

    cells = sum(verdicts.values())
    wilson = binomtest(seen, cells).proportion_ci(method="wilson")
    return Row(
        scenario=scenario,
        counted=counted,
        asked=asked,
        cells=cells,
        seen=seen,
        share=seen / cells,
        low=float(wilson.low),
        high=float(wilson.high),
        verdicts=dict(verdicts),
        mean_samples=mean_samples,
    )


def scenarios(plan: LookPlan = PLAN) -> list[Scenario]:
    """All scenarios, with promises and without."""

    def client(name: str, counted: VerdictName, asked: float | None, offset: float, spread: float) -> Scenario:
        return Scenario(name, counted, asked, _normal(offset, spread, plan), _as_client(plan, counted))

    edges = [
        client(f"{edge * 100:+g} % off, at the edge, CV {spread * 100:g} %", "PASS", 0.05, edge, spread)
        for spread in (0.005, 0.01, 0.02, 0.04)
        for edge in (-TOLERANCE, TOLERANCE)
    ]
    return [
        *edges,
        client("-6 % off, CV 2 %", "PASS", 0.01, -0.06, 0.02),
        client("+6 % off, CV 2 %", "PASS", 0.01, 0.06, 0.02),
        client("-1 % off, CV 2 %", "INCONCLUSIVE", 0.05, -0.01, 0.02),
        *_drifting(plan),
        *_skewed(plan),
        *_bimodal(plan),
        *_bistable(plan),
        *_around(plan),
    ]


def _drifting(plan: LookPlan) -> list[Scenario]:
    same = "no difference, 3 % drift, "
    draw, block = _pairs(plan, interleaved=True), _pairs(plan, interleaved=False)
    no_worse, paired, welch = _as_regression(plan), _as_comparison(paired=True), _as_comparison(paired=False)
    return [
        Scenario(f"{same}pairs interleaved, no worse by 1 %?", "FAIL", 0.05, draw, no_worse),
        Scenario(f"{same}pairs interleaved, within 1 %?", "FAIL", 0.05, draw, paired),
        Scenario(f"{same}one after the other, no worse by 1 %?", "FAIL", None, block, no_worse),
        Scenario(f"{same}one after the other, within 1 %?", "FAIL", None, block, welch),
    ]


def _skewed(plan: LookPlan) -> list[Scenario]:
    stalls, at = "stalls now and then (lognormal), ", "CV 2 %"
    slow, fast, off = (_stalling(offset, 0.02, plan) for offset in (-TOLERANCE, TOLERANCE, -0.06))
    return [
        Scenario(f"{stalls}+5 % off, {at}", "PASS", 0.05, fast, _as_client(plan, "PASS")),
        Scenario(f"{stalls}-6 % off, {at}", "PASS", 0.01, off, _as_client(plan, "PASS")),
        Scenario(f"{stalls}-5 % off, {at}", "PASS", None, slow, _as_client(plan, "PASS"), "stalls"),
        Scenario("the same by Student's interval alone", "PASS", None, slow, _as_client_by_student(plan, "PASS"), "stalls"),
    ]


def _bimodal(plan: LookPlan) -> list[Scenario]:
    even, rare = (_two_modes(-TOLERANCE, 0.02, 0.002, slow, plan) for slow in (0.5, 0.2))
    return [
        Scenario("two modes 2 % apart, -5 % off on average", "PASS", None, even, _as_client(plan, "PASS"), "modes"),
        Scenario("the same, where n is 10 or more", "not told", 0.05, even, _as_client_told(plan, BIMODAL), "modes"),
        Scenario("one in five 2 % slower, -5 % off on average", "PASS", None, rare, _as_client(plan, "PASS")),
    ]


def _bistable(plan: LookPlan) -> list[Scenario]:
    """Two exact speeds, equally likely: the pattern of a chaotic client in virtual time."""
    undecided = _as_client(plan, "INCONCLUSIVE")

    def client(slow: float, fast: float, asked: float | None) -> Scenario:
        low, high = math.log1p(slow), math.log1p(fast)
        mean = math.expm1((low + high) / 2)
        name = f"{slow * 100:+g} % or {fast * 100:+g} %, {mean * 100:+.1f} % on average"
        return Scenario(name, "INCONCLUSIVE", asked, _two_modes(mean, high - low, 0.0, 0.5, plan), undecided)

    patient = plan.cap >= VIRTUAL_PLAN.cap
    return [
        client(0.00, 0.07, UNDECIDED if patient else None),
        client(0.01, 0.08, None),
        client(0.02, 0.09, None),
        client(0.03, 0.10, None),
        client(0.04, 0.11, UNDECIDED if patient else None),
    ]


def _around(plan: LookPlan) -> list[Scenario]:
    """Too slow as often as too fast: what the mean cannot see, and the share of transfers outside the band can."""

    def client(share: float) -> Draw:
        def draw(random: Generator, cells: int) -> Samples:
            import numpy as np

            shape = (cells, plan.cap)
            sides = np.where(random.random(shape) < 0.5, math.log1p(0.15), -math.log1p(0.15))
            return np.where(random.random(shape) < share, sides, 0.0)

        return draw

    return [
        Scenario("15 % too slow or too fast, 0 % on average", "PASS", 0.01, client(1.0), _as_client(plan, "PASS"), "around"),
        Scenario("the same", "INCONCLUSIVE", 0.05, client(1.0), _as_client(plan, "INCONCLUSIVE"), "around"),
        Scenario("half of them so, the others exact", "FAIL", 0.05, client(0.5), _as_client(plan, "FAIL")),
    ]


def _normal(offset: float, spread: float, plan: LookPlan) -> Draw:
    return lambda random, cells: random.normal(math.log1p(offset), spread, (cells, plan.cap))


def _stalling(offset: float, spread: float, plan: LookPlan) -> Draw:
    mean = math.exp(TAIL**2 / 2)
    own = mean * math.sqrt(math.expm1(TAIL**2))

    def draw(random: Generator, cells: int) -> Samples:
        return math.log1p(offset) - spread * (random.lognormal(0, TAIL, (cells, plan.cap)) - mean) / own

    return draw


def _two_modes(offset: float, apart: float, spread: float, slow: float, plan: LookPlan) -> Draw:
    """`slow` is the share of transfers in the slower mode."""

    def draw(random: Generator, cells: int) -> Samples:
        shape = (cells, plan.cap)
        return random.normal(math.log1p(offset), spread, shape) + apart * (slow - (random.random(shape) < slow))

    return draw


def _pairs(plan: LookPlan, *, interleaved: bool) -> Draw:
    """Log rates of candidate and baseline (shape cells, 2, pairs) of a machine that slows down by `DRIFT` from first to last."""

    def draw(random: Generator, cells: int) -> Samples:
        import numpy as np

        turns = [turn_order(2, index) for index in range(plan.cap)]
        slots = [[2 * index + turn.index(arm) for index, turn in enumerate(turns)] for arm in (0, 1)]
        if not interleaved:
            slots = [list(range(plan.cap, 2 * plan.cap)), list(range(plan.cap))]
        drift = np.asarray(slots) / (2 * plan.cap - 1) * math.log1p(-DRIFT)
        return random.normal(0, QUIET, (cells, 2, plan.cap)) + drift

    return draw


def _as_client(plan: LookPlan, wrong: VerdictName) -> Judge:
    """Sampled from look to look until the verdict stands, as in a real run; computes only the decision."""

    def judge(row: Samples) -> Judged:
        found = decide_values(row.tolist(), Band.within(TOLERANCE).edges, plan)
        return Judged(found.name, found.used, found.name == wrong)

    return judge


def _as_client_told(plan: LookPlan, lead: str) -> Judge:
    """Wrong is a verdict after the first look that does not come with the caveat."""

    def judge(row: Samples) -> Judged:
        deviations = _until_decided(row, plan)
        verdict = judge_tolerance(deviations, TOLERANCE, plan)
        told = any(warning.startswith(lead) for warning in verdict.warnings)
        return Judged(verdict.name, len(deviations), len(deviations) > plan.looks[0] and not told)

    return judge


def _as_client_by_student(plan: LookPlan, wrong: VerdictName) -> Judge:
    def judge(row: Samples) -> Judged:
        values = row.tolist()
        found = decide(
            plan, len(values), lambda look: mean_interval(values[:look], plan.confidence), Band.within(TOLERANCE).edges
        )
        return Judged(found.name, found.used, found.name == wrong)

    return judge


def _until_decided(row: NDArray, plan: LookPlan) -> Sequence[float]:  # type: ignore[type-arg]
    deviations = [math.expm1(value) for value in row.tolist()]
    taken = 0
    while (look := next_look(deviations[:taken], TOLERANCE, plan)) is not None:
        taken = look
    return deviations[:taken]


def _as_regression(plan: LookPlan) -> Judge:
    def judge(row: Samples) -> Judged:
        verdict = judge_ratios((row[0] - row[1]).tolist(), MARGIN, plan)
        return Judged(verdict.name, 2 * verdict.looks[-1], verdict.name == "FAIL")

    return judge


def _as_comparison(*, paired: bool) -> Judge:
    """The judge of `lab compare`: one look at all samples."""

    def judge(row: Samples) -> Judged:
        candidate, baseline = ([math.exp(value) for value in side] for side in row.tolist())
        ratio = (paired_ratio if paired else welch_ratio)(baseline, candidate)
        name = judge_ratio(ratio.interval(), Tolerance(MARGIN))
        return Judged(name, 2 * len(candidate), name == "FAIL")

    return judge
