"""The base of the lab's models, and the form of a name."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SLUG_PATTERN = r"[a-z0-9]+(?:[-._][a-z0-9]+)*"
# Never two dashes in a row, because a cell's name is CLIENT--TOPOLOGY--TRANSFER and also a file name.
Slug = Annotated[str, Field(pattern=rf"^{SLUG_PATTERN}$", max_length=64)]
# A version that the lab provides has an @ in its name: curl@8.4.0.
CLIENT_PATTERN = rf"{SLUG_PATTERN}(?:@{SLUG_PATTERN})?"
# A profile among suites and clients: @nightly.
PROFILE_MARK = "@"
YAML_SUFFIXES = (".yaml", ".yml")


class Model(BaseModel):
    """Closed and frozen: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def first_problem(problem: ValueError) -> str:
    """The message of a ValueError, or of the first one in a ValidationError."""
    if not isinstance(problem, ValidationError):
        return str(problem)
    return problem.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
