"""A comparison of two runs, derived from their folders and never stored in them.

A is the run named first, B the second; every ratio is B over A. Units and names as in `lab.model.results`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from lab.model.answer import Answer
from lab.model.results import SCHEMA_VERSION, Closed, SchemaVersion, VerdictName
from lab.model.units import Ratio


class RunSide(Closed):
    """One of the two runs."""

    run: str = Field(description="the run's name")
    path: str = Field(description="path of its folder")
    started_at: AwareDatetime = Field(description="start of its first cell")
    ended_at: AwareDatetime = Field(description="end of its last cell")
    whole: bool = Field(description="false where run.json is missing or says that the run is not complete")


class Difference(Closed):
    """A circumstance in which the compared cells differ; several values where the cells of one run differ in it."""

    what: str = Field(description="the circumstance, e.g. the kernel")
    a: list[str] = Field(description="its values in the first run's cells")
    b: list[str] = Field(description="its values in the second run's cells")


class Comparison(Closed):
    """Two runs, or the cells of one, an answer for each cell."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    lab_version: str = Field(description="version of the lab that compared")
    a: RunSide = Field(description="the run named first")
    b: RunSide = Field(description="the run named second; ratios are B over A")
    within: Ratio = Field(description="tolerance of the ratio: a PASS lies between 1 - within and 1 + within")
    by: Literal["client", "version", "os", "backend", "topology", "clock"] | None = Field(
        default=None, description="the key in which the compared cells differ; null where cells of one id are compared"
    )
    answers: list[Answer] = Field(
        description="question equal, arms A and B: of every cell and answer that both runs have; by a key, of every two "
        "cells that match"
    )
    only_in_a: list[str] = Field(description="cells and answers, by id")
    only_in_b: list[str] = Field(description="cells and answers, by id")
    differences: list[Difference] = Field(description="circumstances other than the clients in which the two differ")
    notes: list[str] = Field(description="what a reader should know of every ratio")
    problems: list[str] = Field(default_factory=list, description="one line for each file that could not be read")
    exit_code: int = Field(description="0 the same, 1 different, 3 not decided, 4 invalid")

    @property
    def verdicts(self) -> list[VerdictName]:
        return [answer.verdict.name for answer in self.answers if answer.verdict]
