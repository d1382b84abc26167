"""The share of qualifications by comparison that call an equal client worse. The real judge judges drawn gates; pure.

A gate is every figure of every row of a set. For each figure the differences of its pairs are drawn: the logarithm of how much
worse the candidate's transfer is than the baseline's. For equal clients:

- `stored`: normal, with a spread drawn for each figure from `STORED_SPREADS`, what equal programs were measured to differ by;
- `one cause per row`: the same, but all figures of a row are one number, scaled: they are right or wrong together;
- `two speeds`: both clients are 7 % slower in half of their transfers;
- `long tails`: Student's t with two degrees of freedom, times 2 %;
- `a machine that drifts`: 3 % from the first to the last transfer of a row, the two in turns, and 0.5 % of noise.

A worse client differs in one figure of one row. A failing one fails at random, as the baseline does, and is judged by whether
its files arrive; that is not part of the promise (`lab.judge.worse`).
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.judge.decide import LookPlan
from lab.judge.gate import corrected
from lab.judge.simulate import Row, counted_row
from lab.judge.sweep import turn_order
from lab.judge.worse import GATE_ALPHA, Gate, decide_harms, verdict_of
from lab.model.answer import Claim
from lab.model.results import VerdictName

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    Samples = NDArray[np.float64]

MARGIN = 0.02
FIGURES_PER_ROW = 5
# fmt: off
STORED_SPREADS: tuple[float, ...] = (
    0, 0, 0, 0, 0, 0, 0, 0, 9.5e-08, 1.4e-06, 2.6e-05, 5.2e-05,
    0.00015, 0.00022, 0.00035, 0.00049, 0.00062, 0.0011, 0.0085, 0.02, 0.034, 0.075, 0.13, 0.23,
)
# fmt: on
"""Standard deviations of how much worse one pair is, between two runs of one program.

They are 24 quantiles of 144 figures in 37 rows of the suite `release`: curl 7.88.1 against itself, 28 November 2026.
The largest are limits that this curl keeps by chance.
"""

Draw = Callable[["Generator", int, int], "Samples"]
"""Draws one gate: an array of figures by pairs."""


@dataclass(frozen=True)
class GateScenario:
    """A model of a candidate and its baseline; `wrong` is the gate's verdict that is counted, and `asked` its highest share."""

    name: str
    wrong: VerdictName
    asked: float | None
    draw: Draw


def scenarios() -> list[GateScenario]:
    """Equal clients, for which an alarm is false; then clients that are worse in one figure, whose alarms are the power."""
    equal = [("stored", _stored), ("one cause per row", _together), ("two speeds", _two_speeds)]
    equal += [("long tails", _tails), ("a machine that drifts", _drift)]
    found = [GateScenario(f"equal, {name}", "FAIL", GATE_ALPHA, draw) for name, draw in equal]
    found += [GateScenario(f"one figure {share:g} % worse, stored", "FAIL", None, _worse(share / 100)) for share in _SHARES]
    return found


_SHARES = (1.0, 2.0, 2.5, 3.0, 5.0, 10.0)


def simulate_gates(gates: int, seed: int, *, rows: int, plan: LookPlan) -> Iterator[Row]:
    """A row of the table per scenario. Raises ValueError for fewer than one gate or row."""
    if gates < 1 or rows < 1 or seed < 0:
        raise ValueError(f"a simulation needs a gate, a row and a seed of 0 or more, got {gates}, {rows} and {seed}")
    for scenario in scenarios():
        yield run_gates(scenario, gates, seed, rows=rows, plan=plan)


def run_gates(scenario: GateScenario, gates: int, seed: int, *, rows: int, plan: LookPlan) -> Row:
    """Draw and judge that many gates. `mean_samples` are the pairs of a figure until it is decided."""
    import numpy as np

    random = np.random.default_rng([seed, zlib.crc32(scenario.name.encode())])
    gate = Gate(rows * FIGURES_PER_ROW)
    found: Counter[VerdictName] = Counter()
    pairs = 0
    for _ in range(gates):
        claims = [judged(row.tolist(), plan, gate) for row in scenario.draw(random, gate.claims, plan.cap)]
        pairs += sum(claim.n for claim in claims)
        (final,) = corrected([claims], gate)
        found[verdict_of(final)] += 1
    return counted_row(
        scenario.name,
        scenario.wrong,
        scenario.asked,
        seen=found[scenario.wrong],
        verdicts=found,
        mean_samples=pairs / (gates * gate.claims),
    )


def judged(harms: list[float], plan: LookPlan, gate: Gate) -> Claim:
    """One figure of a gate, by the judge's own looks."""
    decision = decide_harms(harms, [math.log1p(MARGIN)] * len(harms), plan, gate)
    return Claim(figure="rate", margin=MARGIN, n=decision.used, beyond=decision.beyond, p=decision.p, standing=decision.standing)


# ----------------------------------------------------------------------------------------------------------------------


def _spreads(random: Generator, figures: int) -> Samples:
    import numpy as np

    return random.choice(np.asarray(STORED_SPREADS), size=(figures, 1))


def _stored(random: Generator, figures: int, pairs: int) -> Samples:
    return random.normal(0, 1, (figures, pairs)) * _spreads(random, figures)


def _together(random: Generator, figures: int, pairs: int) -> Samples:
    import numpy as np

    rows = -(-figures // FIGURES_PER_ROW)
    causes: Samples = np.repeat(random.normal(0, 1, (rows, pairs)), FIGURES_PER_ROW, axis=0)[:figures]
    return causes * _spreads(random, figures)


def _two_speeds(random: Generator, figures: int, pairs: int) -> Samples:
    slow = random.random((2, figures, pairs)) < 0.5
    found: Samples = (slow[0].astype(float) - slow[1]) * math.log1p(0.07)
    return found


def _tails(random: Generator, figures: int, pairs: int) -> Samples:
    return random.standard_t(2, (figures, pairs)) * 0.02


def _drift(random: Generator, figures: int, pairs: int) -> Samples:
    import numpy as np

    second = np.asarray([turn_order(2, index).index(0) for index in range(pairs)])
    step = math.log1p(0.03) / (2 * pairs - 1)
    return random.normal(0, 0.005, (figures, pairs)) + (2 * second - 1) * step


def _worse(share: float) -> Draw:
    def draw(random: Generator, figures: int, pairs: int) -> Samples:
        found = _stored(random, figures, pairs)
        found[0] += math.log1p(share)
        return found

    return draw


def failing_share(gates: int, seed: int, *, chance: float, plan: LookPlan) -> float:
    """The share of regressions in rows of an equal client whose transfers fail with that chance: a failed transfer is a fact."""
    import numpy as np

    random = np.random.default_rng([seed, zlib.crc32(f"failing {chance}".encode())])
    alarms = 0
    for _ in range(gates):
        failed = random.random((2, plan.cap)) < chance
        taken = next((look for look in plan.looks if not failed[0, :look].any() or failed[1, :look].any()), plan.cap)
        alarms += bool(failed[0, :taken].any() and not failed[1, :taken].any())
    return alarms / gates
