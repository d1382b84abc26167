"""A question that does nothing: what is left of its time is what it costs to ask. In a module that workers can import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lab.model.cell import Cell
from lab.model.results import CellResult
from lab.run.collected import keep
from lab.run.session import Session
from lab.store.run_dir import read_cell


@dataclass(frozen=True)
class Instant:
    """Its answer is the stored cell of `path`, under a name of its own; `cells` decide its clock."""

    path: str
    number: int
    cells: Sequence[Cell] = field(default=(), compare=False)

    @property
    def id(self) -> str:
        return f"{_stored(self.path).id}-{self.number}"

    def ask(self, session: Session) -> CellResult:
        result = _stored(self.path).model_copy(update={"id": self.id, "run": session.run.name})
        session.run.write_cell(result)
        keep(session.results, result)
        return result


@cache
def _stored(path: str) -> CellResult:
    return read_cell(Path(path))
