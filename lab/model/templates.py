"""Texts with words in braces that are filled in. Standard library only: images ship this module."""

from __future__ import annotations

import re
from collections.abc import Mapping

WORD = re.compile(r"(?<!\$)\{([A-Za-z_0-9]+)(?:\.([A-Za-z0-9_-]+))?\}")
"""`{port.http}`: its word, and the name behind the dot where it has one. `${NAME}` is a shell's."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its words; braces around anything else stay. A word with a name is `port.http` in `values`."""
    return WORD.sub(lambda match: values.get(match[0][1:-1], match[0]), template)
