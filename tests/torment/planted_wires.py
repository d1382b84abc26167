"""Verdicts on generated wires (`wire`) whose rates are known: everything that the lab does from the bytes of a capture on.

A cell is drawn by the seed and its number alone, so that a run can be continued. Each verdict is compared with the truth, and
with what the judge makes of the planted rates themselves: what the two differ in is the reading's, not chance's.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import beta

from lab.clients.ferry import Ferry
from lab.judge.tolerance import judge_samples, judge_tolerance
from lab.model import files
from lab.model.cell import Cell
from lab.model.results import Sample
from lab.model.transfer import ClientSpec
from lab.net.ports import PortSampler
from lab.run.sample import take_sample
from tests.support.liars import DIRECTIONS, PROTOCOLS, limited
from tests.torment.planted import LOOKS, SAMPLES, SPREADS, TOLERANCE, WIDEST, Truth
from tests.torment.wires import WireNetwork

SPOILT, SPOIL = 0.2, 0.01
"""This share of the cells has lost and copied segments, this share of their segments each."""
_TOGETHER = 100
"""Cells that share a network, as those of a run do."""
_MISREAD = 0.005
CLIENT = ClientSpec(name="ferry-planted", program="ferry")
DISTANCES = (0.002, 0.01, 0.03, 1.0)
"""Upper ends of the table's rows: how far the truth is from the nearer edge of the band."""
_COUNTED = ("right", "INCONCLUSIVE", "INVALID", "false PASS", "false FAIL")


@dataclass(frozen=True)
class Planted:
    """A cell, its truth, and what each of its transfers does with the limit."""

    number: int
    cell: Cell
    truth: Truth
    factors: tuple[float, ...]
    spoil: float

    @classmethod
    def draw(cls, seed: int, number: int) -> Planted:
        chance = random.Random(f"{seed}/{number}")
        truth = Truth(1 + chance.uniform(-WIDEST, WIDEST), chance.choice(SPREADS))
        size, limit = f"{chance.randrange(200, 500)} kB", f"{chance.randrange(500, 4_000)} kB/s"
        cell = limited(CLIENT, chance.choice(PROTOCOLS), chance.choice(DIRECTIONS), size, limit)
        factors = tuple(truth.factor * math.exp(chance.gauss(0.0, truth.spread)) for _ in range(SAMPLES))
        return cls(number, cell, truth, factors, SPOIL if chance.random() < SPOILT else 0.0)

    def measure(self, network: WireNetwork, ports: PortSampler) -> list[Sample]:
        """Its samples, by the lab."""
        transfer, limit = self.cell.transfer, self.cell.transfer.limit_byte_s
        assert limit is not None
        found, adapter, servers = [], Ferry(CLIENT.name), network.servers()
        for index, factor in enumerate(self.factors):
            network.play(transfer, limit * factor, self.spoil)
            link = self.cell.link_direction
            found.append(take_sample(network.network, servers, adapter, transfer, index, ports=ports, link=link))
        return found


@dataclass
class Score:
    """Counts by the truth's distance from the nearer edge: of verdicts, and of those of the judge on the planted rates."""

    seed: int
    cells: int = 0
    read: dict[str, Counter[str]] = field(default_factory=dict)
    alone: dict[str, Counter[str]] = field(default_factory=dict)
    misread: int = 0
    unsaid: int = 0
    """Of those, how many are further off than the sample itself says that it may be (`body_error_s`)."""
    widest: float = 0.0
    beyond: list[str] = field(default_factory=list)
    """False verdicts that the judge would not have given on the planted rates, and cells that the lab could not judge."""
    others: list[str] = field(default_factory=list)
    """Other verdicts than the judge's on the planted rates."""

    @classmethod
    def load(cls, path: Path | None, seed: int) -> Score:
        """The score that a run has kept, or a new one."""
        if path is None or not path.exists():
            return cls(seed)
        kept = json.loads(path.read_text())
        if kept["seed"] != seed:
            raise SystemExit(f"torment: {path} is of seed {kept['seed']}")
        counters = {name: {row: Counter(counts) for row, counts in kept.pop(name).items()} for name in ("read", "alone")}
        return cls(**kept, **counters)

    def save(self, path: Path) -> None:
        with files.replacing(path) as part:
            part.write_text(json.dumps(vars(self), indent=1))

    def count(self, planted: Planted, samples: Sequence[Sample]) -> None:
        """One cell more."""
        self.cells += 1
        verdict = judge_samples(samples, planted.cell.expectation, LOOKS)
        alone = judge_tolerance([factor - 1 for factor in planted.factors], TOLERANCE, LOOKS)
        row = self.row(planted.truth)
        found, expected = (_kind(name, planted.truth) for name in (verdict.name, alone.name))
        self.read.setdefault(row, Counter())[found] += 1
        self.alone.setdefault(row, Counter())[expected] += 1
        read_off = [
            (abs((1 + sample.deviation) / factor - 1), _said(sample))
            for sample, factor in zip(samples, planted.factors, strict=True)
            if sample.deviation is not None
        ]
        errors = [error for error, _ in read_off]
        self.misread += sum(error > _MISREAD for error in errors)
        self.unsaid += sum(error > max(_MISREAD, said) for error, said in read_off)
        self.widest = max([self.widest, *errors])
        if found != expected:
            transfer, truth, read = planted.cell.transfer, planted.truth, max(errors, default=0.0)
            line = (
                f"cell {planted.number} ({transfer.protocol} {transfer.direction}): {found}, by the planted rates {expected}; "
                f"planted {truth.factor - 1:+.3%}, spread {truth.spread:.1%}, read {read:.3%} off; {verdict.reason}"
            )
            # Chance may make a verdict false; here it is the reading that did.
            (self.beyond if found == "INVALID" or found.startswith("false") else self.others).append(line)

    @staticmethod
    def row(truth: Truth) -> str:
        distance = abs(abs(truth.factor - 1) - TOLERANCE)
        low = 0.0
        for high in DISTANCES:
            if distance < high:
                return f"{low:.1%} to {high:.1%}" if high < 1 else f"{low:.1%} and more"
            low = high
        raise AssertionError("no truth is that far off")

    def table(self) -> str:
        """Markdown."""
        heads = [*_COUNTED, "false, 95 % at most", "false PASS, FAIL by the planted rates"]
        lines = [f"| truth's distance from the edge | cells | {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) + 1)}"]
        for row in sorted(self.read):
            read, alone = self.read[row], self.alone[row]
            false, cells = read["false PASS"] + read["false FAIL"], read.total()
            lines.append(
                f"| {row} | {cells:,} | {' | '.join(f'{read[kind]:,}' for kind in _COUNTED)} | {upper_bound(false, cells):.3%} | "
                f"{alone['false PASS']:,}, {alone['false FAIL']:,} |"
            )
        return "\n".join(lines)


def _said(sample: Sample) -> float:
    """How far its rate may be off if its body is shorter by what its clock may err."""
    if sample.body_s is None or sample.body_error_s is None:
        return 0.0
    return sample.body_error_s / max(sample.body_s - sample.body_error_s, 1e-9)


def _kind(name: str, truth: Truth) -> str:
    if name in ("INCONCLUSIVE", "INVALID"):
        return name
    return "right" if name == truth.right else f"false {name}"


def upper_bound(errors: int, cells: int, confidence: float = 0.95) -> float:
    """Clopper and Pearson's one-sided bound of an error's probability."""
    return float(beta.ppf(confidence, errors + 1, cells - errors)) if errors < cells else 1.0


def judge(count: int, seed: int, kept: Path | None) -> Score:
    """Judge cells up to that number, and print the score now and then. `kept` holds it from one call to the next."""
    score, begun = Score.load(kept, seed), time.monotonic()
    while score.cells < count:
        network = WireNetwork(random.Random(f"{seed}/{score.cells}/network"))
        with PortSampler(network.network) as ports:
            for number in range(score.cells, min(count, score.cells - score.cells % _TOGETHER + _TOGETHER)):
                planted = Planted.draw(seed, number)
                score.count(planted, planted.measure(network, ports))
        if kept:
            score.save(kept)
        if score.cells % (10 * _TOGETHER) == 0 or score.cells >= count:
            print(
                f"[{time.monotonic() - begun:7.0f} s] {score.cells} cells, {len(score.beyond)} beyond the judge's own",
                flush=True,
            )
    print("\n".join([*score.beyond, *score.others, score.table()]))
    transfers = score.cells * SAMPLES
    print(
        f"{score.misread} of {transfers} transfers read more than {_MISREAD:.1%} off, at most {score.widest:.3%}; "
        f"{score.unsaid} of them further than their samples say that they may be"
    )
    return score
