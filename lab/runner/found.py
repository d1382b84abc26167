"""What a session has found so far, and its record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypeVar

from lab import __version__
from lab.result.finding import Finding
from lab.result.models import CellResult, RunRecord, VerdictName
from lab.result.provenance import git_revision
from lab.result.qualification import PairResult
from lab.result.store import RunDir, exit_code
from lab.result.study import StudyResult
from lab.spec.clock import CLOCKS

Kept = TypeVar("Kept", CellResult, StudyResult, PairResult)


class Found:
    """Results in the order in which they came; what ran again takes the place of what was, as its file does."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.results: list[CellResult] = []
        self.studies: list[StudyResult] = []
        self.pairs: list[PairResult] = []
        self.findings: list[Finding] = []
        self.skipped: dict[str, str] = {}
        self.started_at = datetime.now(UTC)

    def result(self, cell_id: str) -> CellResult:
        """What came of a cell that ran."""
        return next(result for result in self.results if result.id == cell_id)

    def absorb(self, lane: Found) -> None:
        """Take over what another has found so far of the same run."""
        for result in lane.results:
            keep(self.results, result)
        for study in lane.studies:
            keep(self.studies, study)
        for pair in lane.pairs:
            keep(self.pairs, pair)
        self.skipped |= lane.skipped
        for taken in (lane.results, lane.studies, lane.pairs):
            taken.clear()

    def record(self) -> RunRecord:
        verdicts = dict(self._verdicts())
        clocks = {cell.clock for cell in self.results} | {finding.clock for finding in self.findings}
        baselines = [pair.baseline.cell for pair in self.pairs]
        return RunRecord(
            run=self.run.name,
            command=sys.argv,
            lab_version=__version__,
            git_revision=git_revision(),
            started_at=self.started_at,
            ended_at=datetime.now(UTC),
            cells=[result.id for result in self.results],
            studies=[study.id for study in self.studies],
            pairs=[pair.id for pair in self.pairs],
            baselines=baselines,
            findings=[finding.id for finding in self.findings],
            clocks=[clock for clock in CLOCKS if clock in clocks],
            verdicts=verdicts,
            skipped=self.skipped,
            exit_code=exit_code(name for key, name in verdicts.items() if key not in baselines),
        )

    def _verdicts(self) -> Iterator[tuple[str, VerdictName]]:
        yield from ((cell.id, cell.verdict.name) for cell in self.results)
        yield from ((study.id, study.verdict.name) for study in self.studies)
        yield from ((finding.id, finding.verdict.name) for finding in self.findings)
        for pair in self.pairs:
            if pair.verdict:
                yield pair.id, pair.verdict.name


def keep(results: list[Kept], result: Kept) -> None:
    """Add it, in place of one of its id."""
    results[:] = [each for each in results if each.id != result.id]
    results.append(result)
