"""Results on their way: the bytes of their files with digests, held by a worker and written by the lab that asked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ValidationError

from lab.model.answer import Answer
from lab.model.errors import LabFault, NotSupported, RoughwaterError, UsageProblem
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir, file_bytes

_PROBLEMS = {kind.__name__: kind for kind in (UsageProblem, NotSupported, LabFault)}


class Document(NamedTuple):
    """A file of a run."""

    kind: Literal["cell", "answer"]
    sha256: str
    data: bytes


@dataclass(frozen=True)
class Parcel:
    """The reply to one question. `outcome` is the id of its result; a reply without one has a `problem`: kind, message, remedy.

    `gone`: this process has taken the place of the process that was asked.
    """

    documents: tuple[Document, ...] = ()
    outcome: str = ""
    problem: tuple[str, str, str] | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    gone: bool = False


class HeldRun(RunDir):
    """A run that holds its results instead of writing them: a worker that is killed leaves no file."""

    def __init__(self, name: str) -> None:
        super().__init__(Path(name))
        self._held: dict[Path, Document] = {}

    @property
    def documents(self) -> tuple[Document, ...]:
        return tuple(self._held.values())

    def write_cell(self, cell: CellResult) -> Path:
        return self._hold("cell", self.cell_path(cell.id), cell)

    def write_answer(self, answer: Answer) -> Path:
        return self._hold("answer", self.answer_path(answer.id), answer)

    def write_run(self, record: RunRecord) -> Path:  # noqa: ARG002
        """The run's record is for the lab that asked."""
        return self.path

    def evidence(self, cell_id: str) -> Path:
        raise LabFault(f"{cell_id}: a worker keeps no evidence", remedy="run the cell without --workers")

    def _hold(self, kind: Literal["cell", "answer"], path: Path, model: BaseModel) -> Path:
        data = file_bytes(path, model)
        self._held[path] = Document(kind, hashlib.sha256(data).hexdigest(), data)
        return path


def problem_of(problem: RoughwaterError) -> tuple[str, str, str]:
    """A problem as it travels. A kind that `found_problem` does not know arrives as the lab's fault."""
    return type(problem).__name__, problem.message, problem.remedy


def found_problem(problem: tuple[str, str, str]) -> RoughwaterError:
    kind, message, remedy = problem
    return _PROBLEMS.get(kind, LabFault)(message, remedy=remedy)


def unpack(parcel: Parcel, run: RunDir) -> list[CellResult | Answer]:
    """Write the documents into the run, byte for byte. Raises LabFault where they are not what was sent, or another run's."""
    found: list[CellResult | Answer] = []
    for document in parcel.documents:
        model = _model(document, run)
        run.write_valid(model, document.data)
        found.append(model)
    return found


def _model(document: Document, run: RunDir) -> CellResult | Answer:
    if hashlib.sha256(document.data).hexdigest() != document.sha256:
        raise LabFault(
            "a result was damaged on its way: the bytes received are not those sent",
            remedy="check the network between the machines",
        )
    model: CellResult | Answer
    try:
        kind = CellResult if document.kind == "cell" else Answer
        model = kind.model_validate_json(document.data)
        same = file_bytes(run.path, model) == document.data
    except (ValidationError, json.JSONDecodeError) as error:
        raise LabFault(f"a result from a worker is not valid: {str(error).splitlines()[0]}") from error
    if not same or model.run != run.name:
        raise LabFault(f"{model.id}: a result from a worker is not one of {run.name}", remedy="install the same lab on both")
    return model
