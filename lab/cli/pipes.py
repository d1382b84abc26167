"""Ends a command whose output has no reader.

Who reads it leaves (`lab ... | head -1`): the command ends in order, quietly, with 141. The disk it goes to is full: it ends with
one line and 2.

A BrokenPipeError is not left to who meets it: Rich and Typer each end the program with exit code 1, which here means that a
client failed, and Python at its own end prints a traceback. SIGPIPE would be a sudden death, and leave a network behind.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.model.errors import DISK_IS_FULL, EXIT_USAGE

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_PIPE = 128 + signal.SIGPIPE


class _Outlet(io.FileIO):
    """A descriptor that may take no more: what is written then and later goes nowhere, and the program ends."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._let_go()
            raise SystemExit(EXIT_PIPE) from None
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise
            self._let_go()
            with contextlib.suppress(OSError):
                os.write(2, f"lab: the output cannot be written: {error.strerror}; free some space\n".encode())
            raise SystemExit(EXIT_USAGE) from None

    def _let_go(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def ending_quietly() -> Iterator[None]:
    """Buffers standard output and error unless they are terminals, and writes everything at the end."""
    names = [name for name in ("stdout", "stderr") if _may_end(getattr(sys, name))]
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


def _may_end(stream: object) -> bool:
    if not isinstance(stream, io.TextIOWrapper):
        return False
    try:
        return not os.isatty(stream.fileno())
    except OSError:
        return False


def _guarded(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    raw = _Outlet(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
