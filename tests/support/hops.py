"""The path of one command through the rooms of `lab`, as stages and returns.

    python -m tests.support.hops run ferry--dsl-20--http1-get-1MB-at-1MBps

runs that `lab` command in this process (sys.setprofile, all threads) and prints its stages. How they are counted:

- The spine is the code that calls the rooms: `lab.cli`, `lab.robot` and `lab.run`. A call from the spine into another room is one
  step of the path. Not counted: calls that this room makes in turn, `lab.model` (the vocabulary of all rooms), the construction
  of values, and imports. Taking one sample (`lab.run.sample`) counts as one step, whatever it reads.
- A step is a module, at the first call into it from another room. Later calls add nothing: a loop over samples is one step.
- A *stage* is a run of steps in one room. A *return* is a stage in a room that had one before. A room that is never entered again
  costs one stage. Each time it is entered again, for another of its modules, costs one more stage and one return.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import lab
import reports

PACKAGES = {str(Path(package.__file__ or "").parent): package.__name__ for package in (lab, reports)}
VOCABULARY = "lab.model"
INSTRUMENTS = ("lab.run.sample",)
SPINE = ("lab.cli", "lab.robot", "lab.run")


def module_of(filename: str) -> str:
    """The dotted name of a module of `lab` or `reports`; empty for code of others."""
    for folder, name in PACKAGES.items():
        if filename.startswith(f"{folder}/"):
            return f"{name}.{filename.removeprefix(f'{folder}/').removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")
    return ""


def room_of(module: str) -> str:
    """`lab.net` for `lab.net.ports`; `reports` for `reports.page`."""
    return ".".join(module.split(".")[:2]) if module.startswith("lab.") else module.split(".", maxsplit=1)[0]


@dataclass
class Stage:
    """Modules of one room, in the order in which they were first called from another room."""

    room: str
    modules: list[str]


@dataclass
class Route:
    """Modules in the order in which each was first called from another room."""

    modules: list[str] = field(default_factory=list)

    @property
    def stages(self) -> list[Stage]:
        found: list[Stage] = []
        for module in self.modules:
            if found and found[-1].room == room_of(module):
                found[-1].modules.append(module)
            else:
                found.append(Stage(room_of(module), [module]))
        return found

    @property
    def returns(self) -> int:
        rooms = [stage.room for stage in self.stages]
        return len(rooms) - len(set(rooms))


class Tracer:
    """Records calls between rooms while it is installed, in all threads that start meanwhile."""

    def __init__(self) -> None:
        self.path = Route()
        self._names: dict[str, str] = {}
        self._seen: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code.co_name.startswith(("<module>", "__")):
            return
        module = self._module(frame)
        if not module or module in self._seen or room_of(module) == VOCABULARY:
            return
        if self._from_spine(frame, module):
            self._seen.add(module)
            self.path.modules.append(module)

    def _from_spine(self, frame: FrameType, module: str) -> bool:
        """Whether the caller is of another room, and no room below the spine is on the stack."""
        own = room_of(module)
        caller, first = frame.f_back, True
        while caller is not None:
            importing = caller.f_code.co_name == "<module>"
            if importing and (self._module(caller) or caller.f_code.co_filename.startswith("<")):
                return False
            known = self._module(caller)
            if known and (room := room_of(known)) != VOCABULARY:
                if (first and room == own) or room not in SPINE or known in INSTRUMENTS:
                    return False
                first = False
            caller = caller.f_back
        return not first or room_of(module) == "lab.cli"  # a thread goes on where its room started it

    def _module(self, frame: FrameType) -> str:
        filename = frame.f_code.co_filename
        if filename not in self._names:
            self._names[filename] = module_of(filename)
        return self._names[filename]


def trace(words: list[str]) -> Route:
    """The path of `lab WORDS`; its results go to a folder that is removed."""
    from lab.cli import main

    tracer = Tracer()
    with (
        tempfile.TemporaryDirectory() as results,
        patch.dict("os.environ", ROUGHWATER_RESULTS=results),
        patch.object(sys, "argv", ["lab", *words]),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        threading.setprofile(tracer)
        sys.setprofile(tracer)
        try:
            main.main()
        except SystemExit as ended:
            if ended.code not in (0, 1, 3):
                raise
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return tracer.path


if __name__ == "__main__":
    found = trace(sys.argv[1:])
    for number, stage in enumerate(found.stages, 1):
        names = ", ".join(module.removeprefix(f"{stage.room}.") for module in stage.modules)
        print(f"{number:3} {stage.room:14} {names}")
    print(f"{len(found.stages)} stages, {found.returns} returns")
