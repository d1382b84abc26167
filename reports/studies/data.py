"""A template's access to a study's data: cells and answers by their parts, and figures of them. Nothing is judged.

A pattern is a shell pattern; `|` separates alternatives: `curl@8.4.0|curl@8.5.0`, `curl@*`, `http1-get-*`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lab.model.answer import Answer, Question, answer_of
from lab.model.cell_name import format_transfer
from lab.model.errors import UsageProblem
from lab.model.figures import FIGURES, Figure
from lab.model.matrix import Spread
from lab.model.results import CellResult, Interval, Sample
from lab.store.stored_run import StoredRun
from reports.answers import judged_words
from reports.studies.archive import Contents
from reports.totals import total_deviation


@dataclass(frozen=True)
class Cell:
    """A cell of the study."""

    result: CellResult

    @property
    def id(self) -> str:
        return self.result.id

    @property
    def client(self) -> str:
        return self.result.client.name

    @property
    def link(self) -> str:
        return self.result.topology.name

    @property
    def transfer(self) -> str:
        return format_transfer(self.result.transfer)

    @property
    def question(self) -> str:
        return answer_of(self.result).question

    @property
    def verdict(self) -> str:
        return self.result.verdict.name

    @property
    def samples(self) -> Sequence[Sample]:
        return self.result.samples

    @property
    def interval(self) -> Interval:
        """The interval behind its verdict, in the question's unit: for a limit a fraction. Raises UsageProblem if it has none."""
        found = self.result.verdict.interval
        if found is None:
            raise UsageProblem(f"{self.id}: its verdict has no interval: {self.result.verdict.reason}")
        return found

    @property
    def mean(self) -> float:
        return self.interval.mean

    @property
    def low(self) -> float:
        return self.interval.low

    @property
    def high(self) -> float:
        return self.interval.high

    @property
    def n(self) -> int:
        """Samples behind the interval, else samples taken."""
        found = self.result.verdict.interval
        return found.n if found else len(self.samples)

    @property
    def words(self) -> str:
        """The mean of what the cell asks: `+11.8 %`."""
        return judged_words(self.result.expectation, self.interval)[0]

    @property
    def span(self) -> str:
        """Its interval: `+7.8 to +15.9 %`."""
        return judged_words(self.result.expectation, self.interval)[1]

    @property
    def complete(self) -> list[float]:
        """The deviation of each transfer's rate over the complete time from the limit, as fractions."""
        found = (total_deviation(self.result, sample) for sample in self.samples)
        return [value for value in found if value is not None]

    def spread(self, name: str) -> Spread:
        """A figure over the successful samples: n, mean, least, greatest. Raises UsageProblem where no sample has it."""
        figure = figure_of(name)
        values = figure.values(self.result)
        if not values:
            raise UsageProblem(f"{self.id}: no sample has the figure {name}, or it means nothing in {self.result.clock} time")
        return Spread(n=len(values), mean=figure.mean(values), least=min(values), greatest=max(values))

    def figure(self, name: str) -> float:
        """The mean of a figure, in the unit in which it is printed."""
        return self.spread(name).mean / figure_of(name).unit.per

    def values(self, name: str) -> list[float]:
        """A figure of each successful sample, in the unit in which it is printed."""
        figure = figure_of(name)
        return [value / figure.unit.per for value in figure.values(self.result)]

    def text(self, name: str) -> str:
        """The mean of a figure with its unit: `7.1 MB`."""
        return figure_of(name).text(self.spread(name).mean)


class Data:
    """The data of a study, or of those of its runs that have a label."""

    def __init__(self, runs: Mapping[str, Sequence[StoredRun]], files: Mapping[str, bytes]) -> None:
        self._labelled = runs
        self._files = files
        self.runs = sorted((run for each in runs.values() for run in each), key=_started)

    @classmethod
    def of_contents(cls, contents: Contents) -> Data:
        return cls(contents.runs, contents.files)

    def labelled(self, label: str) -> Data:
        """The runs that were packed with this label. Raises UsageProblem if there are none."""
        if label not in self._labelled:
            raise UsageProblem(f"no run has the label {label!r}", remedy=f"labels: {', '.join(filter(None, self._labelled))}")
        return Data({label: self._labelled[label]}, self._files)

    def cells(
        self,
        client: str = "*",
        link: str = "*",
        transfer: str = "*",
        question: str = "*",
        *,
        verdict: str = "*",
        clock: str = "*",
    ) -> list[Cell]:
        """The cells that match, in the order in which they ran; a cell of several runs is taken from the newest."""
        newest = {(cell.id, cell.clock): Cell(cell) for run in self.runs for cell in run.cells}
        patterns = (client, link, transfer, question, verdict, clock)
        return [
            cell
            for cell in newest.values()
            if all(
                map(_matches, (cell.client, cell.link, cell.transfer, cell.question, cell.verdict, cell.result.clock), patterns)
            )
        ]

    def cell(self, client: str, link: str = "*", transfer: str = "*", question: str = "*", clock: str = "*") -> Cell:
        """The one cell that matches; the first argument may be a cell's id. Raises UsageProblem for none and for several."""
        if "--" in client:
            found = [each for each in self.cells(clock=clock) if each.id == client]
        else:
            found = self.cells(client, link, transfer, question, clock=clock)
        if len(found) != 1:
            asked = " ".join(part for part in (client, link, transfer, question, clock) if part != "*")
            raise UsageProblem(f"{len(found)} cells match {asked}, not one: {', '.join(each.id for each in found[:4])}")
        return found[0]

    def answers(self, question: str = "*", id: str = "*", verdict: str = "*", clock: str = "*") -> list[Answer]:
        """The answers (not the cells' own) that match, in the order in which they were given, the newest of each id."""
        newest = {(each.id, *each.clocks): each for run in self.runs for each in run.answers}
        return [
            each
            for each in newest.values()
            if _matches(each.question, question)
            and _matches(each.id, id)
            and _matches(each.verdict.name if each.verdict else "", verdict)
            and any(_matches(own, clock) for own in each.clocks)
        ]

    def answer(self, question: Question, id: str = "*", clock: str = "*") -> Answer:
        """The one answer that matches. Raises UsageProblem for none and for several."""
        found = self.answers(question, id, clock=clock)
        if len(found) != 1:
            raise UsageProblem(f"{len(found)} answers to {question} match {id}, not one")
        return found[0]

    def text(self, name: str) -> str:
        """A file that was packed. Raises UsageProblem if the archive has no file of that name."""
        if name not in self._files:
            raise UsageProblem(f"the data have no file {name}", remedy=f"files: {', '.join(self._files) or 'none'}")
        return self._files[name].decode("utf-8")

    def json(self, name: str) -> object:
        """A packed JSON file."""
        return json.loads(self.text(name))

    def csv(self, name: str) -> list[dict[str, str]]:
        """The rows of a packed CSV file, by its headings."""
        return list(csv.DictReader(io.StringIO(self.text(name))))


def figure_of(name: str) -> Figure:
    """A figure of a sample by name. Raises UsageProblem for an unknown one."""
    if name not in FIGURES:
        raise UsageProblem(f"{name!r} is not a figure", remedy=f"figures: {', '.join(FIGURES)}")
    return FIGURES[name]


def by_row(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells by link and transfer, and what is asked of them where a row of the same name asks something else."""
    key: Callable[[Cell], str] = lambda cell: f"{cell.link}, {cell.id.split('--', 2)[2]}"  # noqa: E731
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(key(cell), []).append(cell)
    return found


def _matches(value: str, pattern: str) -> bool:
    return any(fnmatchcase(value, each) for each in pattern.split("|"))


def _started(run: StoredRun) -> str:
    first = [*(cell.started_at for cell in run.cells), *(answer.started_at for answer in run.answers)]
    return min(first).isoformat() if first else run.path.name
