"""kill -9 of a command at a moment drawn by the seed, and the checks that follow.

Each command first runs to its end once. Half of the moments are drawn from the time that this took, and half from that of one of
its phases, so that kills meet short ones too. A command that had ended before its kill is not counted as killed.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Self

from lab.model.answer import Answer
from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, EXIT_USAGE, RoughwaterError
from lab.model.paths import cache_dir
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import LATEST, RunDir, read_result, run_folders
from tests.support.own_machine import OwnMachine
from tests.support.processes import bury, command, descendants
from tests.support.waiting import until
from tests.torment import own_engine
from tests.torment.own_engine import Engine
from tests.torment.rows import CELL, FEW, LAB, ROWS, VIRTUAL, Row, furnish

SETTLE_S = 30.0
# At the lowest priority on a busy machine, what takes ten seconds has taken two minutes.
_TIDY_S = 900.0
# How much longer a phase may be in coming than it was the first time.
_PATIENCE = 30.0


PHASES = ("started", "network", "measuring", "writing", "done")
"""What a command has come to: it has processes of its own, has told of a sample, has written a result, has ended."""
_VERDICTS = (EXIT_PASS, EXIT_FAIL, EXIT_INCONCLUSIVE)
_SAMPLE = re.compile(rb"  [0-9]+/[0-9]+  ")


@dataclass
class Tally:
    """Counts of a row. `phases`: what the command had come to; `kills` has all but those that had ended."""

    kills: int = 0
    phases: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    whole: int = 0
    temporaries: int = 0
    problems: list[str] = field(default_factory=list)


class Torment:
    """A machine of a test's own, a folder for each row, and the draws of one seed. A context manager; `adopting` must be on.

    With `containers` it has an engine of its own too; with `stored` a run and a bundle for the commands that read one.
    """

    def __init__(self, seed: int, *, containers: bool, stored: bool = True) -> None:
        self._seed, self._stored = seed, stored
        self._begun = 0.0
        # When a command comes to each phase if it is not killed, in seconds from its start.
        self._timed: dict[str, dict[str, float]] = {}
        self._open = ExitStack()
        self.work = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="roughwater-torment-")))
        # After the machine and its engine: a network of `lab up` outlives the command.
        self._open.callback(_kill, lambda _: True)
        self._results, self._said = self.work / "results", self.work / "said"
        self.machine = OwnMachine(self.work / "tmp")
        self.engine = Engine(self.machine, self.work / "engine") if containers else None

    def __enter__(self) -> Self:
        try:
            self._open.enter_context(self.machine)
            if self.engine is not None:
                self._open.enter_context(self.engine)
            furnish(self.work)
            self._make_cache()
            if self._stored:
                self.said(*VIRTUAL, *FEW, results=self.work / "stored")
                shutil.copytree(RunDir.find("latest", results=self.work / "stored").path, self.work / "run")
                self.said("bundle", CELL, "--run", str(self.work / "run"), "-o", str(self.work / "cell.zip"))
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _make_cache(self) -> None:
        """What the user's cache has, but for its labs of containers, which `lab down --all` would find."""
        cache = self.work / "cache"
        cache.mkdir()
        for path in cache_dir().iterdir():
            if path.name != "compose":
                (cache / path.name).symlink_to(path)

    def start(self, *words: str, results: Path, under: Sequence[str] = (), **to: int) -> subprocess.Popen[bytes]:
        """The lab's command in this machine, with a home folder and a cache of its own. `under` runs it."""
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        env = self.machine.environment(
            ROUGHWATER_RESULTS=str(results),
            ROUGHWATER_CACHE=str(self.work / "cache"),
            HOME=str(home),
            # `lab doctor` asks cargo for its version, and rustup writes to a home folder that has none.
            RUSTUP_HOME=os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
            **(self.engine.environment if self.engine else {}),
        )
        argv = [*under, *LAB, *(word.replace("{work}", str(self.work)) for word in words)]
        return subprocess.Popen(self.machine.command(*argv), env=env, stdin=subprocess.DEVNULL, cwd=self.work, **to)

    def said(self, *words: str, results: Path | None = None) -> str:
        """The output of a command, which has to end well."""
        command = self.start(*words, results=results or self.work / "results", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said, _ = command.communicate(timeout=_TIDY_S)
        finally:
            command.kill()
        assert command.returncode in _VERDICTS, f"{words}: exit code {command.returncode}: {said.decode()}"
        return said.decode()

    def kill(self, row: Row, number: int, tally: Tally) -> None:
        """Once, after `lacking`; the moment is drawn by the seed and `number`. Problems and counts go to `tally`."""
        chance = random.Random(f"{self._seed}/{number}")
        spans = list(pairwise(self._timed[row.name].items()))
        (after, begins), (_, ends) = (spans[0][0], spans[-1][1]) if chance.random() < 0.5 else chance.choice(spans)
        delay_s = chance.uniform(0.0, ends - begins)
        before, others = self.state(row), self.machine.processes()
        with self._begin(row) as lab:
            _until(lambda: PHASES.index(self._phase(lab)) >= PHASES.index(after), begins * _PATIENCE)
            _until(lambda: lab.poll() is not None, delay_s)
            met = self._phase(lab)
            lab.kill()
            lab.wait()
        tally.kills += met != "done"
        tally.phases[met] += 1
        where = f"{row.name}, kill {number}, {delay_s:.3f} s after {after}, in {met}"
        tally.problems += (f"{where}: {problem}" for problem in self._left(row, before, others))
        whole, temporaries, halves = read_all(self._results)
        tally.whole += whole
        tally.temporaries += temporaries
        tally.problems += (f"{where}: {half}" for half in [*halves, *_half_outputs(self.work)])

    def lacking(self, row: Row) -> str:
        """Why this row cannot be tried here, in the lab's words; empty if it can. The command runs to its end."""
        if row.containers and self.engine is None:
            return own_engine.lacking()
        times: dict[str, float] = {}
        begun = time.monotonic()
        with self._begin(row) as lab:

            def has_ended() -> bool:
                times.setdefault(self._phase(lab), time.monotonic() - begun)
                return "done" in times

            until(has_ended, f"{row.name} has ended", _TIDY_S)
        said = self._said.read_text(errors="replace")
        if lab.returncode == EXIT_USAGE:
            return said.strip()
        # In real time a busy machine has no verdict.
        assert lab.returncode in (*_VERDICTS, EXIT_INVALID), f"{row.name}: exit code {lab.returncode}: {said}"
        if row.tidy:
            self.said(*row.tidy)
        list(_half_outputs(self.work))
        self._timed[row.name] = {"started": 0.0, **times}
        print(f"{row.name}: " + ", ".join(f"{name} after {after_s:.1f} s" for name, after_s in times.items()), flush=True)
        return ""

    @contextmanager
    def _begin(self, row: Row) -> Iterator[subprocess.Popen[bytes]]:
        shutil.rmtree(self._results, ignore_errors=True)
        self._begun = time.time()
        with self._said.open("wb") as log:
            lab = self.start(*row.words, results=self._results, stdout=log.fileno(), stderr=log.fileno())
            try:
                yield lab
            finally:
                lab.kill()
                lab.wait()

    def _phase(self, lab: subprocess.Popen[bytes]) -> str:
        if lab.poll() is not None:
            return "done"
        results = glob("*/*/*.json", root_dir=self._results)  # noqa: PTH207 - pathlib's fails where the lab renames a file meanwhile
        if results or any(self.work.glob("out.*")) or any(map(self._is_new, (self.work / "run").glob("*.html"))):
            return "writing"
        if _SAMPLE.search(self._said.read_bytes()):
            return "measuring"
        return "network" if descendants(lab.pid) else "started"

    def more_than(self, others: list[str]) -> list[str]:
        """The processes that were not there before. Some of the others may have ended."""
        return [*(Counter(self.machine.processes()) - Counter(others)).elements()]

    def _is_new(self, page: Path) -> bool:
        with suppress(FileNotFoundError):
            return page.stat().st_mtime > self._begun
        return False

    def state(self, row: Row) -> dict[str, object]:
        """What the command must leave as it was."""
        return {**self.machine.state(), "home": _names(self.work / "home"), **self._labs(row)}

    def _labs(self, row: Row) -> dict[str, object]:
        if not row.containers:
            return {}
        assert self.engine is not None
        return {"labs of containers": self.engine.labs(), "names": _names(self.work / "cache" / "compose")}

    def _left(self, row: Row, before: dict[str, object], others: list[str]) -> Iterator[str]:
        try:
            if row.containers:
                # Compose may still be starting some for a lab that is no more.
                assert self.engine is not None
                stopped = self.engine.containers
                until(lambda: all(each.startswith("exited") for each in stopped()), "containers have stopped", SETTLE_S)
            if row.tidy:
                self.said(*row.tidy)
            until(lambda: not self.more_than(others), "the last process has ended", SETTLE_S)
        except TimeoutError as late:
            left = self.more_than(others)
            yield f"{late}: {left}"
            _kill(lambda pid: pid != self.machine.holder and command(pid) in left)
        # Thousands would be looked at again after each kill.
        bury()
        yield from changed(before, self.state(row))


def changed(before: dict[str, object], after: dict[str, object]) -> Iterator[str]:
    """A line for each kind of state that is not the same: what has gone, and what has come."""
    for name, state in before.items():
        was, now = _lines(state), _lines(after[name])
        if was != now:
            yield f"{name}: {[*(was - now).elements()]} became {[*(now - was).elements()]}"


def _lines(state: object) -> Counter[str]:
    return Counter(state.splitlines() if isinstance(state, str) else map(str, state if isinstance(state, list) else [state]))


def _kill(which: Callable[[int], bool]) -> None:
    """Those of this process's descendants."""
    for pid in filter(which, descendants(os.getpid())):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _until(condition: Callable[[], bool], timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def read_all(results: Path) -> tuple[int, int, list[str]]:
    """Complete results below the folder, temporary files that a kill left, and a line for each half file."""
    whole, halves = 0, []
    for folder in run_folders(results) if results.is_dir() else ():
        run = RunDir.open(folder)
        for kind in (CellResult, Answer, RunRecord):
            for path in run.files(kind):
                try:
                    read_result(path, kind)
                    whole += 1
                except RoughwaterError as fault:
                    halves.append(fault.message)
    files = [path for path in results.rglob("*") if path.is_file()] if results.is_dir() else []
    halves += (f"{path.name} is half a page" for path in files if path.suffix == ".html" and not _ends(path, b"</html>"))
    hidden = [path for path in files if path.name.startswith(".") and path.name != LATEST]
    return whole, len(hidden), halves


def _half_outputs(work: Path) -> Iterator[str]:
    """Half files among the outputs that the words name."""
    for path in work.glob("out.*"):
        with path.open("rb") as file:
            if path.suffix == ".zip" and (not zipfile.is_zipfile(file) or zipfile.ZipFile(path).testzip()):
                yield f"{path.name} is half an archive"
        if path.suffix == ".json":
            try:
                json.loads(path.read_bytes())
            except ValueError:
                yield f"{path.name} is half a document"
        if path.suffix == ".html" and not _ends(path, b"</html>"):
            yield f"{path.name} is half a page"
        path.unlink()


def _ends(path: Path, ending: bytes) -> bool:
    return path.read_bytes().rstrip().endswith(ending)


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def rows(names: list[str]) -> list[Row]:
    """Those of these names, or all."""
    if unknown := set(names) - {row.name for row in ROWS}:
        raise SystemExit(f"torment: no row called {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not names or row.name in names]
