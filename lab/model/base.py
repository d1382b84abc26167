"""The base of the lab's models, and the form of a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SLUG_PATTERN = r"[a-z0-9]+(?:[-._][a-z0-9]+)*"
# Never two dashes in a row, because a cell's name is CLIENT--TOPOLOGY--TRANSFER and also a file name.
LONGEST_NAME = 64
Slug = Annotated[str, Field(pattern=rf"^{SLUG_PATTERN}$", max_length=LONGEST_NAME)]
# A version that the lab provides has an @ in its name: curl@8.4.0.
CLIENT_PATTERN = rf"{SLUG_PATTERN}(?:@{SLUG_PATTERN})?"
# A profile among suites and clients: @nightly.
PROFILE_MARK = "@"
YAML_SUFFIXES = (".yaml", ".yml")


class Model(BaseModel):
    """Closed and frozen: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def digest_without(self, fields: set[str]) -> str:
        """SHA-256 of the other fields, 64 hexadecimal digits."""
        return hashlib.sha256(self.model_dump_json(exclude=fields).encode()).hexdigest()


_FIELDS = "fields are expected, one `name: value` a line"


def first_problem(problem: ValueError) -> str:
    """The message of a ValueError, or of the first one in a ValidationError."""
    if not isinstance(problem, ValidationError):
        return str(problem)
    first = problem.errors(include_url=False)[0]
    return plain_words(first["type"], first["msg"], first.get("ctx", {}))


class FieldFault(ValueError):
    """A fault between fields of a file; the line of the field `at` names it."""

    def __init__(self, at: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.at = at


_WORDS = {
    "list_type": "a list is expected",
    "tuple_type": "a list is expected",
    "dict_type": _FIELDS,
    "mapping_type": _FIELDS,
    "model_type": _FIELDS,
    "model_attributes_type": _FIELDS,
    "string_type": "text is expected",
    "int_type": "a number without a fraction is expected",
    "int_parsing": "a number without a fraction is expected",
    "int_from_float": "a number without a fraction is expected",
    "float_type": "a number is expected",
    "float_parsing": "a number is expected",
    "bool_type": "true or false is expected",
    "bool_parsing": "true or false is expected",
}
"""Pydantic's faults of Python's types, in the words of a person who writes YAML."""
OF_FORM = frozenset(_WORDS)
"""The kinds of faults that each form of a field may have."""


def plain_words(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """The message of a fault of pydantic's, in words for people."""
    if kind == "literal_error":
        return f"one of these is expected: {context['expected']}"
    return _WORDS.get(kind, message.removeprefix("Value error, "))
