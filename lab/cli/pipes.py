"""What happens when whoever reads our output leaves (`lab ... | head -1`): the command ends in order, quietly, with 141.

A BrokenPipeError is not left to who meets it: Rich and Typer each end the program with exit code 1, which here means that a
client failed, and Python at its own end prints a traceback. SIGPIPE would be a sudden death, and leave a network behind.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_PIPE = 128 + signal.SIGPIPE


class _Pipe(io.FileIO):
    """A descriptor whose reader may leave: what is written then and later goes nowhere, and the program ends."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            raise SystemExit(EXIT_PIPE) from None


@contextlib.contextmanager
def ending_quietly() -> Iterator[None]:
    """Standard output and error as pipes that may close; everything is written when this ends."""
    names = [name for name in ("stdout", "stderr") if _is_pipe(getattr(sys, name))]
    kept = {name: getattr(sys, name) for name in names}
    for name in names:
        setattr(sys, name, _guarded(kept[name]))
    try:
        yield
    finally:
        try:
            for name in names:
                getattr(sys, name).flush()
        finally:
            for name, stream in kept.items():
                setattr(sys, name, stream)


def _is_pipe(stream: object) -> bool:
    if not isinstance(stream, io.TextIOWrapper):
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _guarded(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    raw = _Pipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
