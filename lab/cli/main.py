"""The `lab` command: one file per group of subcommands; here they are put together and errors become one line."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Never

import typer

from lab import __version__
from lab.cli.characters import show_all
from lab.cli.pipes import ending_quietly
from lab.model.errors import DISK_IS_FULL, EXIT_USAGE, RoughwaterError

app = typer.Typer(
    name="lab",
    help="Roughwater: qualify file-transfer clients on networks that are proven to be what they claim.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_VERSION = "--version"


def _version(show: bool) -> None:
    if show:
        typer.echo(f"roughwater {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, _VERSION, callback=_version, is_eager=True, help="Show the version and exit."),
) -> None:
    """Exit codes: 0 pass, 1 fail, 2 usage, 3 inconclusive, 4 invalid (the lab was at fault)."""


GROUPS: dict[str, tuple[str, ...]] = {
    "run": ("run",),
    "topologies": ("topologies",),
    "endpoints": ("endpoints",),
    "suites": ("suites",),
    "traces": ("traces",),
    "report": ("report",),
    "repro": ("repro",),
    "bisect": ("bisect",),
    "bisect_step": ("bisect-step",),
    "search": ("search",),
    "harm": ("harm",),
    "compare": ("compare",),
    "history": ("history", "trend", "export"),
    "matrix": ("matrix",),
    "uploads": ("uploads",),
    "totals": ("totals",),
    "qualify": ("qualify",),
    "bundle": ("bundle", "rerun"),
    "workers": ("worker", "workers"),
    "calibrate": ("calibrate",),
    "live": ("shell", "up", "link", "exec", "status", "down"),
    "test": ("test",),
    "client": ("client",),
    "userland": ("userland",),
    "new": ("new",),
    "images": ("images",),
    "results": ("results",),
    "simulate": ("simulate",),
    "admin": ("doctor", "setup", "schema"),
}
"""The files of this folder and the commands that each of them brings, in the order of `lab --help`."""


def register(words: Sequence[str]) -> None:
    """Load what the command that the words begin with is in: nothing for the version; everything where they begin with neither.

    Importing every group costs over half a second, which neither the version nor a question to the history should pay for.
    """
    first = words[0] if words else ""
    meant = next((name for name, commands in GROUPS.items() if first in commands), None)
    for name in () if first == _VERSION else (meant,) if meant else GROUPS:
        import_module(f"lab.cli.{name}").register(app)


_REFUSALS = {
    *DISK_IS_FULL,
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO),
}
"""Refusals of the machine: the reader can cure them, and a traceback would not help. A missing file may be a defect."""


def _stop(number: int, _: FrameType | None) -> Never:
    raise SystemExit(128 + number)


def main() -> None:
    """Entry point. Every known error ends in one line on stderr and its exit code; SIGTERM and SIGHUP end in order.

    So does a command whose output has no reader.
    """
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        show_all()
        with ending_quietly():
            _run()
    except KeyboardInterrupt:
        # Before or after the command itself; a second Ctrl-C, too.
        _end("interrupted", 128 + signal.SIGINT)


def _run() -> Never:
    try:
        # The shell's completion asks by the environment, and may mean any command.
        register(() if "_LAB_COMPLETE" in os.environ else sys.argv[1:])
        # Imports make no garbage, and a command that lasts a second should not look through them again and again.
        gc.freeze()
        gc.enable()
        sys.exit(app(standalone_mode=False) or 0)
    except RoughwaterError as problem:
        _end(str(problem), problem.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _end("interrupted", 128 + signal.SIGINT)
    except OSError as error:
        if error.errno not in _REFUSALS or error.filename is None:
            raise
        _end(f"{os.fsdecode(error.filename)}: {error.strerror}", getattr(error, "exit_code", EXIT_USAGE))
    except Exception as error:
        # Typer's own usage errors: which library they come from depends on its version, what they can do does not.
        show = getattr(error, "format_message", None)
        if show is None:
            if not hasattr(error, "exit_code"):
                raise
            # A defect that ended a run which has results: the session has noted the code that it stored.
            sys.excepthook(type(error), error, error.__traceback__)
            sys.exit(error.exit_code)
        _end(" ".join(str(show()).split()), getattr(error, "exit_code", EXIT_USAGE))


def _end(line: str, code: int) -> Never:
    typer.echo(f"lab: {line}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
