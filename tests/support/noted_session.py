"""A session that notes the questions of a suite instead of running them; every question ends in the same verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.model.cell import Cell
from lab.model.study import BufferStudy
from lab.robot.suite import Choice, read_suites
from lab.robot.suite import run_suite as run_read


class NotedSession:
    """As much of a Session as keywords need."""

    def __init__(self, folder: Path) -> None:
        (folder / "robot").mkdir()
        self.run = SimpleNamespace(path=folder)
        self.results: list[Any] = []
        self.answers: list[Any] = []
        self.options: Any = SimpleNamespace(flamegraph=None, syscalls=False, clock="real")
        self.cells: list[Cell] = []
        self.studies: list[BufferStudy] = []
        self.verdict = "PASS"

    def __enter__(self) -> NotedSession:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def found_something(self) -> bool:
        return bool(self.results)

    @contextmanager
    def noting_skip(self, _: str) -> Iterator[None]:
        yield

    def run_cell(self, cell: Cell) -> Any:
        self.cells.append(cell)
        return self.result(cell)

    def run_study(self, study: BufferStudy) -> Any:
        self.studies.append(study)
        return self.result(study)

    def result(self, asked: Cell | BufferStudy) -> Any:
        verdict = SimpleNamespace(name=self.verdict, reason="so it is")
        client = SimpleNamespace(name=asked.client.name, version="1")
        subject = (client, asked.topology, asked.transfer)
        self.results.append(SimpleNamespace(judged=verdict, subject=subject, id=asked.id))
        return self.results[-1]

    @property
    def clients(self) -> list[str]:
        return [cell.client.program for cell in self.cells]

    @property
    def ids(self) -> list[str]:
        return [cell.id for cell in self.cells]

    @property
    def output(self) -> str:
        """Robot's output.xml."""
        return (self.run.path / "robot/output.xml").read_text()


def run_suite(
    path: Path, session: NotedSession, variables: dict[str, str], *, clients: Sequence[str] = (), choice: Choice | None = None
) -> None:
    """Run the chosen rows of a suite under Robot."""
    run_read(read_suites([path], clients, choice), session, variables)  # type: ignore[arg-type]
