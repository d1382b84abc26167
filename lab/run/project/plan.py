"""The commands of a suite inside the machine, one after the other, and their needs there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.hosts.host import shell_code
from lab.model.errors import UsageProblem

PROGRAMS = "{programs}"
"""In the path of a step's program: the folder of the plan's programs, by its path inside."""
_STDERR = 2


@dataclass(frozen=True)
class Step:
    """A command, and the folder that it runs in. `name` is for the line that announces it."""

    name: str
    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Commands for the machine. With `stops` the first that fails is the last."""

    steps: tuple[Step, ...]
    stops: bool = False
    programs: Path | None = None
    """A folder with programs made for this plan alone."""
    writable: tuple[Path, ...] = ()
    """Folders that have to be writable besides the project."""
    notes: tuple[str, ...] = ()


class BuildFailed(Exception):
    """The tool outside refused or did not compile; it has said why, and `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Outside:
    """The caller's machine, where tools compile: the folder of the command, one for programs, and the caller's variables."""

    folder: Path
    scratch: Path
    environment: Mapping[str, str]

    def build(self, *argv: str) -> None:
        """Run a tool that compiles; what it prints goes to the caller's stderr. Raises BuildFailed."""
        self._run(argv, _STDERR)

    def ask(self, *argv: str) -> str:
        """Run a tool for its stdout; what it prints to stderr goes to the caller's. Raises BuildFailed."""
        return self._run(argv, subprocess.PIPE)

    def _run(self, argv: Sequence[str], stdout: int) -> str:
        try:
            # A session of its own, so that its compilers end with it.
            tool = subprocess.Popen(
                argv,
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageProblem(f"{argv[0]} cannot be run: {error.strerror}", remedy="install it, or name its path") from None
        try:
            text, _ = tool.communicate()
        except BaseException:
            os.killpg(tool.pid, signal.SIGKILL)
            tool.wait()
            raise
        if tool.returncode:
            raise BuildFailed(shell_code(tool.returncode))
        return (text or b"").decode(errors="replace")


def refused(tool: str, flag: str, remedy: str) -> UsageProblem:
    return UsageProblem(f"{tool} {flag}: lab test does not know that flag, and would have to drop it", remedy=remedy)


def names(text: str) -> frozenset[str]:
    """Names of flags, from a text with blanks between them."""
    return frozenset(text.split())


def name_of(word: str) -> str:
    """The name of a flag: `--run=x` and `-run` are `run`."""
    return word.lstrip("-").partition("=")[0]


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--` and those after it."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def search_path(folders: Iterable[Path | str]) -> str:
    """A PATH with these folders, each once."""
    return os.pathsep.join(dict.fromkeys(map(str, folders)))
