"""The regressions of a candidate that do not fail its qualification, known or wanted: a YAML file, by the lab or by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from lab.model.answer import ComparedFigure
from lab.model.base import Model
from lab.model.errors import UsageProblem
from lab.model.load import parse_model, read_text


def _share(value: object) -> object:
    """`48.2 %` or `0.482`; more than 100 % is possible."""
    text = str(value).strip()
    number, scale = (text.removesuffix("%"), 100) if text.endswith("%") else (text, 1)
    try:
        found = float(number) / scale
    except ValueError:
        raise ValueError(f"{text!r} is not a share such as 12 % or 0.12") from None
    if not math.isfinite(found) or found < 0:
        raise ValueError(f"{text!r} is not a share of 0 % or more")
    return found


class AcceptedFigure(Model):
    """One figure of one row that may be worse than the baseline's."""

    row: str = Field(min_length=1, description="the row as the suite calls it: TOPOLOGY--TRANSFER[--KIND]")
    figure: ComparedFigure = Field(description="name of the figure; arrives: whether the files arrive")
    worse: Annotated[float, BeforeValidator(_share)] = Field(
        description="how much worse it may be: 12 % or 0.12; of `arrives` the share of transfers that fail"
    )
    why: str = Field("", description="for people")


class AcceptedFile(Model):
    """The file of --accept."""

    baseline: str = Field("", description="the baseline that the sizes are against; empty for any")
    accepted: list[AcceptedFigure] = Field([], description="what is accepted")

    @model_validator(mode="after")
    def _once(self) -> AcceptedFile:
        seen: set[tuple[str, str]] = set()
        for each in self.accepted:
            if (key := (each.row, each.figure)) in seen:
                raise ValueError(f"{each.figure} of {each.row} is there twice")
            seen.add(key)
        return self

    def of(self, row: str) -> dict[str, float]:
        """By figure, how much worse is accepted in that row."""
        return {each.figure: each.worse for each in self.accepted if each.row == row}


def load_accepted(path: Path) -> AcceptedFile:
    """The file. Raises UsageProblem."""
    return parse_model(AcceptedFile, read_text("accepted figures", path), str(path))


def accepted_text(found: AcceptedFile, heading: Sequence[str]) -> str:
    """The file's text, with comments at its head; `load_accepted` reads it."""
    lines = [f"# {' '.join(line.split())}" for line in heading]
    lines += [f"baseline: {_quoted(found.baseline)}", f"accepted:{'' if found.accepted else ' []'}"]
    for each in found.accepted:
        lines += [f"  - row: {_quoted(each.row)}", f"    figure: {each.figure}", f"    worse: {share_text(each.worse)}"]
        lines += [f"    why: {_quoted(each.why)}"] if each.why else []
    return "\n".join(lines) + "\n"


def share_text(share: float) -> str:
    """`12.3 %`: three digits, never less than the share, so that what was written covers what was seen."""
    if share <= 0:
        return "0 %"
    digits = 2 - math.floor(math.log10(share * 100))
    rounded = math.ceil(share * 100 * 10**digits - 1e-9) / 10**digits
    return f"{rounded:.{max(digits, 0)}f} %"


def check_rows(found: AcceptedFile, rows: Sequence[str], path: Path) -> list[str]:
    """The accepted figures of rows that are not in this set. Raises UsageProblem where none of the file's is."""
    other = [each for each in found.accepted if each.row not in rows]
    if found.accepted and len(other) == len(found.accepted):
        raise UsageProblem(f"{path}: none of its rows is in this set", remedy=f"a row is called as in --list, e.g. {rows[0]}")
    return [f"{each.row}, {each.figure}" for each in other]


def _quoted(text: str) -> str:
    """The text in YAML's single quotes, on one line."""
    return "'" + text.replace("'", "''").replace("\n", " ") + "'"
