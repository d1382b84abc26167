"""The declaration that a question keyword makes when its suite is read and not run."""

from __future__ import annotations

from dataclasses import dataclass

from lab.model.scenario import Scenario
from lab.run.questions import Question

LIBRARY = "lab.robot.library.LabLibrary"
QUESTION = "question"
"""The tag of keywords that ask a question which can be read from their arguments alone."""


@dataclass(frozen=True)
class Declared:
    """The questions of a keyword: several where a bug is reproduced on several clients."""

    questions: tuple[Question, ...]
    why: str = ""
    scenario: Scenario | None = None


class NotedError(Exception):
    """A suite is read, not run: the question is noted, and the keyword ends."""
