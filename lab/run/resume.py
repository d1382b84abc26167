"""Goes on with a run that was cut short: what it has is taken as it is, and what it lacks is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab import __version__
from lab.model.errors import UsageProblem
from lab.model.results import CellResult
from lab.run.collected import keep
from lab.run.options import Options
from lab.run.questions import CellQuestion, Question, Result
from lab.run.session import Session
from lab.run.userlands import userlands_for
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder

_REMEDY = "give the options that the run was begun with, or begin a new one without --resume"

_SAME = "give the cells or the suite that the run was begun with, or begin a new one without --resume"


@dataclass(frozen=True)
class Resumed:
    """A run to go on with. A file of it that cannot be read is not there: its question is asked again."""

    run: RunDir
    stored: StoredRun

    @classmethod
    def find(cls, name: str) -> Resumed:
        """The run that a person names. Raises UsageProblem if there is none, or another lab has begun it."""
        run = RunDir.find(name)
        stored = read_run_folder(run.path)
        results: list[Result] = [*stored.cells, *stored.answers]
        if other := next((result.lab_version for result in results if result.lab_version != __version__), ""):
            raise UsageProblem(
                f"{run.name} was begun by version {other} of the lab, and this is version {__version__}", remedy=_REMEDY
            )
        if stored.record is not None and stored.record.ended == "complete":
            raise UsageProblem(f"{run.name} is complete", remedy="begin a new run without --resume")
        return cls(run, stored)

    def answered(self, questions: Sequence[Question], options: Options) -> dict[str, Result]:
        """The results that are there already, by the ids of the questions.

        Raises UsageProblem where the run was begun with other questions, and where a result is the answer to another question:
        another seed, network, transfer or number of samples.
        """
        asked = {question.id for question in questions}
        planned = self.stored.record.planned if self.stored.record else []
        if planned and asked != set(planned):
            other = next(name for name in (*planned, *asked) if (name in asked) != (name in planned))
            where = "has" if other in planned else "has not"
            raise UsageProblem(f"{self.run.name} is a run of other cells: it {where} {other}", remedy=_SAME)
        cells = {cell.id: cell for cell in self.stored.cells}
        answers = {answer.id: answer for answer in self.stored.answers}
        found: dict[str, Result] = {}
        for question in questions:
            if not isinstance(question, CellQuestion):
                if question.id in answers:
                    found[question.id] = answers[question.id]
            elif question.id in cells:
                if problem := _unlike(cells[question.id], question, options):
                    raise UsageProblem(f"{self.run.name}: {question.id} has another {problem} there", remedy=_REMEDY)
                found[question.id] = cells[question.id]
        return found

    def take_up(self, session: Session) -> None:
        """Make everything that the run has the session's."""
        for cell in self.stored.cells:
            keep(session.results, cell)
        for answer in self.stored.answers:
            keep(session.answers, answer)
        session.skipped |= self.stored.skipped
        begun = [result.started_at for results in (session.results, session.answers) for result in results]
        session.started_at = min([session.started_at, *begun])


def _unlike(stored: CellResult, question: CellQuestion, options: Options) -> str:
    """In what a stored cell differs from what is asked; empty where it does not."""
    virtual = stored.clock == "virtual"
    cell = question.cell.in_virtual_time() if virtual else question.cell
    looks = options.virtual_looks if virtual else options.looks
    guest = stored.virtual
    there, here = (
        {host: facts.name for host, facts in stored.userlands.items()},
        userlands_for([question.cell], options.userlands),
    )
    pairs = {
        "network": (stored.topology, cell.topology),
        "transfer": (stored.transfer, cell.transfer),
        "expectation": (stored.expectation, cell.expectation),
        "number of samples": (tuple(stored.plan), tuple(looks.looks)),
        "clock": (stored.clock, stored.clock if options.clock == "auto" else options.clock),
        "seed": (guest and guest.session_seed, guest and options.seed),
        "userland": (there, {host: name for host, name in here._asdict().items() if name} if virtual else there),
        "variable of --env": (stored.client.variables, dict(options.variables)),
        "price of a system call": (guest and guest.charge_ns, guest and options.charge_ns),
    }
    return next((what for what, (one, other) in pairs.items() if one != other), "")
