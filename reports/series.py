"""Goodput over time of every sample, packed small enough for two thousand of them in one page; `page.js` unpacks it.

A cell's series are one text: base64 of gzip of two planes of bytes, first the low byte of every number, then the high one. A
number is payload in a slot, in `unit` bytes per second (a thousandth of the cell's highest slot: what a plot can show). Slots
follow each other without a gap from the first data packet on. Each sample has its own slot length: see `choose`.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from lab.model.results import CellResult, Sample

STEPS = 1000
"""Steps up to the highest slot."""
PAGE_BYTES = 1_900_000
_CELL_BYTES = 7_500
_LEAST_BYTES = 250_000
SLOTS_MS = (10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0)
_MOST_POINTS = 20_000


@dataclass(frozen=True)
class Packed:
    """One cell's series; `samples` are (number, slot in ms, slots) in the order in which their numbers are packed."""

    unit: float
    samples: tuple[tuple[int, float, int], ...]
    text: str

    @property
    def finest_ms(self) -> float:
        return min(slot for _, slot, _ in self.samples)

    @property
    def coarsest_ms(self) -> float:
        return max(slot for _, slot, _ in self.samples)


def room(cells: int) -> int:
    """Bytes for series in a page with that many cells. A page of 200 cells of 10 samples stays below 2 MB."""
    return max(PAGE_BYTES - _CELL_BYTES * cells, _LEAST_BYTES)


def choose(cells: Sequence[CellResult], budget_bytes: int | None = None) -> list[Packed | None]:
    """Every cell's series at the finest slots that all of them together have room for; None for a cell without one.

    Where they must be merged, the worst sample of a cell keeps its full series if there is room for that, so that a burst of
    10 ms stays visible; the others share one slot length.
    """
    budget_bytes = room(len(cells)) if budget_bytes is None else budget_bytes
    found: list[Packed | None] = []
    for slot_ms in SLOTS_MS:
        for worst_slot_ms in dict.fromkeys((SLOTS_MS[0], slot_ms)):
            found = [pack(cell, slot_ms, worst_slot_ms) for cell in cells]
            if sum(len(packed.text) for packed in found if packed is not None) <= budget_bytes:
                return found
    return found


def pack(cell: CellResult, slot_ms: float, worst_slot_ms: float) -> Packed | None:
    """One cell's series in slots of at least `slot_ms`, those of its worst sample of at least `worst_slot_ms`."""
    worst = worst_sample(cell)
    taken: list[tuple[int, float, list[float]]] = []
    for sample in cell.samples:
        if sample.series is not None and sample.series.goodput_bit_s:
            least = worst_slot_ms if sample is worst else slot_ms
            length = len(sample.series.goodput_bit_s)
            merged = max(round(least / sample.series.slot_ms), 1, -(-length // _MOST_POINTS))
            taken.append((sample.index + 1, sample.series.slot_ms * merged, merge(sample.series.goodput_bit_s, merged)))
    if not taken:
        return None
    unit = max(max(rates) for *_, rates in taken) / 8 / STEPS or 1.0
    numbers = [round(rate / 8 / unit) for *_, rates in taken for rate in rates]
    planes = bytes(value & 255 for value in numbers) + bytes(value >> 8 for value in numbers)
    text = base64.b64encode(gzip.compress(planes, 9, mtime=0)).decode()
    return Packed(unit, tuple((number, slot, len(rates)) for number, slot, rates in taken), text)


def merge(rates: Sequence[float], count: int) -> list[float]:
    """The mean of each `count` neighbours; of a last, shorter group over what it has."""
    if count <= 1:
        return list(rates)
    groups = (rates[at : at + count] for at in range(0, len(rates), count))
    return [fsum(group) / len(group) for group in groups]


def worst_sample(cell: CellResult) -> Sample | None:
    """The one whose series is evidence: it failed, else it burst most, else it is furthest from its limit, else the slowest."""
    known = [sample for sample in cell.samples if sample.series is not None and sample.series.goodput_bit_s]

    def badness(sample: Sample) -> tuple[bool, float]:
        if cell.expectation.kind == "burst" and sample.burst_ratio is not None:
            return not sample.ok, sample.burst_ratio
        if sample.deviation is not None:
            return not sample.ok, abs(sample.deviation)
        return not sample.ok, -(sample.body_byte_s or 0.0)

    return max(known, key=badness, default=None)
