"""Whole cells in virtual time and generated wires of the same truths: does `wire` say the same as the real thing?"""

from __future__ import annotations

import random
import tempfile
from itertools import product
from pathlib import Path

from lab.judge.tolerance import judge_samples
from lab.model.cell import Cell
from lab.net.ports import PortSampler
from lab.run.options import Options
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.support.liars import DIRECTIONS, PROTOCOLS, limited
from tests.torment.planted import LOOKS, SAMPLES, WIDEST, Truth, write_client
from tests.torment.planted_wires import CLIENT, Planted
from tests.torment.wires import WireNetwork


def compare(count: int, seed: int) -> int:
    """`count` cells of each protocol and direction, without spread; prints a table, returns how many verdicts differ."""
    chance, differences = random.Random(seed), 0
    print("| protocol | direction | cells | verdicts that differ | complete cell - truth | wire - truth |")
    print("|---|---|--:|--:|--:|--:|", flush=True)
    for protocol, direction in product(PROTOCOLS, DIRECTIONS):
        with tempfile.TemporaryDirectory(prefix="roughwater-planted-") as place:
            cells, planted = [], []
            for number in range(count):
                truth = Truth(1 + chance.uniform(-WIDEST, WIDEST), 0.0)
                size, limit = f"{chance.randrange(200, 500)} kB", f"{chance.randrange(500, 4_000)} kB/s"
                cells.append(limited(write_client(Path(place), f"p{number}", truth, chance), protocol, direction, size, limit))
                planted.append(
                    Planted(number, cells[-1].model_copy(update={"client": CLIENT}), truth, (truth.factor,) * SAMPLES, 0.0)
                )
            whole, names = _whole(cells, Path(place), seed)
        network = WireNetwork(chance)
        with PortSampler(network.network) as ports:
            samples = [each.measure(network, ports) for each in planted]
        wires = [[sample.deviation or 0.0 for sample in each] for each in samples]
        judged = [judge_samples(found, each.cell.expectation, LOOKS).name for found, each in zip(samples, planted, strict=True)]
        differ = sum(one != other for one, other in zip(names, judged, strict=True))
        differences += differ
        columns = [_beside(found, planted) for found in (whole, wires)]
        print(f"| {protocol} | {direction} | {count} | {differ} | {' | '.join(columns)} |", flush=True)
    return differences


def _whole(cells: list[Cell], folder: Path, seed: int) -> tuple[list[list[float]], list[str]]:
    with Session(RunDir.create("compare", results=folder), Options(clock="virtual", seed=seed, virtual_looks=LOOKS)) as session:
        _, results = session.run_together("compare", cells, SAMPLES)
    return [[sample.deviation or 0.0 for sample in each.samples] for each in results], [each.verdict.name for each in results]


def _beside(found: list[list[float]], planted: list[Planted]) -> str:
    """The mean and the widest difference of a cell's mean rate from its truth."""
    errors = [(1 + sum(each) / len(each)) / one.truth.factor - 1 for each, one in zip(found, planted, strict=True)]
    return f"{sum(errors) / len(errors):+.2%}, at most {max(errors, key=abs):+.2%}"
