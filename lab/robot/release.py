"""The rows of a suite that a release is put through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.model.errors import UsageProblem
from lab.robot.suite import Choice, read_suites
from lab.robot.tables import good_rows
from lab.run.questions import BufferQuestion, CellQuestion, FaultQuestion
from lab.run.release import ANY, ReleaseRow


def release_rows(paths: Sequence[Path], choice: Choice | None = None) -> list[ReleaseRow]:
    """Every chosen row about a cell, buffer sizes or a fault, once. Raises UsageProblem for a suite without any."""
    suite = read_suites(paths, (), choice, reader="lab qualify")
    found: dict[ReleaseRow, None] = {}
    for row in good_rows(suite, {"CLIENT": ANY.name}):
        for declared in row.declared:
            for question in declared.questions:
                if isinstance(question, CellQuestion | BufferQuestion | FaultQuestion) and declared.scenario is None:
                    found[ReleaseRow(question, declared.why or row.name)] = None
    if not found:
        raise UsageProblem(f"{', '.join(path.stem for path in paths)}: no row asks about a cell, buffer sizes or a fault")
    return list(found)
