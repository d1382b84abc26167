"""Characters that the output cannot show, in a locale without UTF-8: similar ones instead, and never the end of a command."""

from __future__ import annotations

import codecs
import io
import sys

_ALIKE = {"±": "+-", "✕": "x", "●": "*", "…": "...", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "×": "x", "→": "->", "µ": "u"}
_NAME = "roughwater-alike"
_RAW_BYTES = (0xDC80, 0xDCFF)


def _alike(error: UnicodeError) -> tuple[str | bytes, int]:
    """For `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return b"".join(map(_one, error.object[error.start : error.end])), error.end


def _one(character: str) -> bytes:
    first, last = _RAW_BYTES
    if first <= ord(character) <= last:
        # Python keeps a byte of a file's name so where it is not text. The reader has that name.
        return bytes([ord(character) - 0xDC00])
    return _ALIKE.get(character, "?").encode("ascii")


def show_all() -> None:
    """Make stdout and stderr take every character."""
    codecs.register_error(_NAME, _alike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_NAME)
