"""Plays a plan on the stage, and returns what was violated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.engine.versions.draws import Hold, Plan, Step, draw
from tests.engine.versions.invariants import Judge
from tests.engine.versions.origin import HONEST
from tests.engine.versions.source import Source
from tests.engine.versions.stage import PATIENCE_S, Run, Stage
from tests.support.waiting import until

# Further connections have said so much when the first goes on.
_BEGUN = 2500


def repeat(seed: int) -> str:
    """The command that plays a seed again."""
    return f".venv/bin/python -m tests.engine.versions --seed {seed}"


@dataclass
class Play:
    """One plan. `tell` gets each step as it is made."""

    stage: Stage
    plan: Plan
    tell: Callable[[str], None]
    runs: dict[str, Run] = field(default_factory=dict)
    source: Source = field(init=False)
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self.source = self.stage.set(self.plan)
        self.judge = Judge(self.stage, self.source)

    def all(self) -> list[str]:
        for step in self.plan.steps:
            if self.judge.problems:
                break
            self._step(step)
        for run in self._alive():
            self._go(run, None)
        if not self.judge.problems:
            self._settle()
        return self.judge.problems

    def _alive(self) -> list[Run]:
        return [run for run in self.runs.values() if run.alive()]

    def _step(self, step: Step) -> None:
        self.tell(str(step))
        if step.what == "change":
            done = self.source.change(step.kind, step.path, step.share, same_size=step.same_size)
            self.tell(f"    {done}")
        elif step.what == "start":
            self._start(step)
        elif (run := self.runs[step.who]).alive():
            if step.what == "kill":
                self._kill(run)
            elif step.what == "cut":
                run.disturbed = True
                run.proxy.cut()
                self._go(run, step.hold)
            else:
                self._go(run, step.hold)
        self._look()

    def _look(self) -> None:
        """A run that has ended by itself is judged when its turn comes."""
        alive = self._alive()
        changed = self.judge.look(alive)
        for run in alive:
            run.published |= changed
            run.others |= len(alive) > 1

    def _start(self, step: Step) -> None:
        due = self.source.followed["a"].size if step.alone else self._due()
        run = self.runs[step.who] = self.stage.start(step, len(self.source.history) - 1, due=due)
        if step.hold is None:
            self._end(run)
        else:
            run.held()

    def _due(self) -> int:
        """Bytes that a run has to move, if it moves each file once, and a mirror what differs."""
        found = self.judge.found if self.plan.way.endswith("mirror") else {}
        files = self.source.followed.items()
        return sum(version.size for path, version in files if path not in found or found[path].version != version)

    def _go(self, run: Run, hold: Hold | None) -> None:
        """Until so much more has passed, or to the end."""
        self._let_further(run)
        run.proxy.release(None if hold is None else self.stage.moment(hold, self._due() // 2))
        if hold is None:
            self._end(run)
        else:
            run.held()

    def _let_further(self, run: Run) -> None:
        """The further connections open what is there now, while the first is still held."""
        if not run.proxy.holds_first_only:
            return
        waiting = len(run.proxy.down_further())
        run.proxy.let_further()
        with contextlib.suppress(TimeoutError):
            until(lambda: self._have_begun(run, waiting), "further connections have begun", 2.0)

    def _have_begun(self, run: Run, waiting: int) -> bool:
        begun = [count for count in run.proxy.down_further() if count >= _BEGUN]
        return run.is_over() or len(begun) >= max(1, waiting)

    def _kill(self, run: Run) -> None:
        self._look()
        run.kill()
        self.judge.look([*self._alive(), run])

    def _end(self, run: Run) -> None:
        self._look()
        alive = self._alive()
        if not run.end():
            self.judge.say("hang", f"{run.name} has not ended after {PATIENCE_S:g} s: {run.stderr[-300:]}")
        self.tell(f"    {run.name} ended with {run.code}")
        run.published |= self.judge.look(alive)
        self.judge.ended(run)

    def _settle(self) -> None:
        """In the end, an honest server and nothing else: everything arrives."""
        self.tell("settle")
        self.stage.origin.manners = HONEST
        self.source.note()
        self.runs = {}
        self._start(Step("start", "settle", resume=True))


def play(stage: Stage, seed: int, tell: Callable[[str], None] = lambda _: None) -> list[str]:
    """The findings of a seed, each line with its kind first."""
    plan = draw(seed)
    tell(str(plan))
    made = Play(stage, plan, tell)
    try:
        return made.all()
    finally:
        stage.clear()
