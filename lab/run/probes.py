"""The tries of a bisection in virtual time, some of them ahead of need: one machine per core, independent of each other.

The result of a try follows from its candidate, its plan and its seed alone, so the search takes the same steps whatever ran
ahead. A try that finished but was not needed stays among the results, like any run; a try that was stopped leaves no files.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from lab.judge.bisect import Expected
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.errors import RoughwaterError
from lab.model.scenario import Scenario
from lab.run.clocks import clock_for
from lab.run.parallel import side_by_side
from lab.run.progress import Progress, SharedProgress, Silent
from lab.run.search import Found, Trial, for_try, judge_by_running, step_answer, walk
from lab.run.session import Options

_LOOK_S = 0.05
"""Between two looks at a thread signals are heard."""


def search(
    candidates: Sequence[str],
    scenario: Scenario,
    prepare: Callable[[str], str],
    options: Options,
    told: Callable[[Answer], None],
    *,
    ready: Callable[[str], bool],
    progress: Progress | None = None,
    fix: bool = False,
    skip: Collection[str] = (),
) -> Found:
    """Walk from the good end to the bad one; in virtual time with tries side by side, of those that are `ready` as they are.

    Raises NotSupported where virtual time was asked for and has no answer to the scenario, and as `walk`.
    """
    if clock_for([scenario.cell(scenario.client)], options.clock) == "real":
        return walk(candidates, judge_by_running(scenario, prepare, options, progress), told, fix=fix, skip=skip)
    with Probes(scenario, prepare, options, ready=ready, progress=progress) as probes:
        return walk(candidates, probes.judge, told, fix=fix, expect=probes.expect, skip=skip)


@dataclass
class _Probe:
    """A try in a thread of its own, which outlives its machine."""

    trial: Trial
    thread: threading.Thread = field(init=False)
    judged: Answer | None = None
    problem: BaseException | None = None
    wanted: bool = False

    def start(self) -> Self:
        self.thread = threading.Thread(target=self._work, name=self.trial.record.name, daemon=True)
        self.thread.start()
        return self

    def running(self) -> bool:
        return self.thread.is_alive()

    def _work(self) -> None:
        try:
            self.judged = self.trial.run()
        except BaseException as problem:
            self.problem = problem


class Probes:
    """Use as a context manager: leaving it ends what still runs."""

    def __init__(
        self,
        scenario: Scenario,
        prepare: Callable[[str], str],
        options: Options,
        *,
        ready: Callable[[str], bool],
        progress: Progress | None = None,
        most: int | None = None,
    ) -> None:
        self._scenario, self._prepare, self._ready, self._options = scenario, prepare, ready, options
        self._progress = SharedProgress(progress or Silent())
        self._most = most or side_by_side()
        self._tries: Counter[str] = Counter()
        self._begun: dict[Expected, _Probe] = {}
        self._expected: list[Expected] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._drop([one for one, probe in self._begun.items() if not probe.wanted])

    def expect(self, tries: Sequence[Expected]) -> None:
        """Set the tries that may be needed next, the likeliest first. Stops running tries that are not among them."""
        self._expected = list(tries)
        self._drop([one for one, probe in self._begun.items() if not probe.wanted and one not in self._expected])

    def judge(self, candidate: str, looks: LookPlan) -> Answer:
        """The answer of the candidate's next try; meanwhile other cores run the tries that are likely to be asked for next."""
        asked = Expected(candidate, looks, self._tries[candidate])
        self._tries[candidate] += 1
        if asked not in self._begun:
            try:
                client = self._prepare(candidate)
            except RoughwaterError as problem:
                return step_answer(candidate, "INVALID", str(problem), cause="setup")
            self._make_room()
            self._begin(asked, client)
        probe = self._begun[asked]
        probe.wanted = True
        while probe.running():
            self._fill()
            probe.thread.join(_LOOK_S)
        if probe.problem is not None:
            raise probe.problem
        assert probe.judged is not None
        return probe.judged

    def _begin(self, asked: Expected, client: str) -> None:
        options = for_try(self._options, asked.plan, asked.before)
        self._begun[asked] = _Probe(Trial(self._scenario, client, options, self._progress)).start()

    def _running(self) -> list[Expected]:
        return [one for one, probe in self._begun.items() if probe.running()]

    def _make_room(self) -> None:
        """Stop the least likely of the running tries if no core is left for the try that is needed now."""
        running = [one for one in self._running() if not self._begun[one].wanted]
        if len(running) >= self._most:
            self._drop([max(running, key=self._expected.index)])

    def _fill(self) -> None:
        for one in self._expected:
            if len(self._running()) >= self._most:
                return
            if one not in self._begun and self._ready(one.candidate):
                self._begin(one, self._prepare(one.candidate))

    def _drop(self, unwanted: Sequence[Expected]) -> None:
        dropped = [self._begun.pop(one) for one in unwanted]
        for probe in dropped:
            probe.trial.session.lab.abandon()
        for probe in dropped:
            while probe.running():
                probe.thread.join(_LOOK_S)
