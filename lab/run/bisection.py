"""A search as a run of its own: one answer with every step, the change that was found, and the runs of the tries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from lab import __version__
from lab.model.answer import Answer, Arm
from lab.model.results import RunRecord, Verdict, VerdictName, exit_code
from lab.model.scenario import Scenario
from lab.run.revisions import Commit
from lab.run.search import Found
from lab.store.provenance import git_revision
from lab.store.run_dir import RunDir

CHANGED = "changed"
"""The fact that holds a commit's files, a line each."""


def keep_search(found: Found, scenario: Scenario, *, started_at: datetime, facts: Mapping[str, str]) -> RunDir:
    """Write the search into a run of its own, of which `reports` make a page. Raises LabFault as `RunDir.write_answer`."""
    run = RunDir.create(f"bisection-{scenario.name}")
    answer = bisection_answer(found, scenario, run.name, started_at=started_at, facts=facts)
    run.write_answer(answer)
    verdicts = {answer.id: answer.judged.name}
    run.write_run(
        RunRecord(
            run=run.name,
            command=sys.argv,
            lab_version=__version__,
            git_revision=git_revision(),
            started_at=started_at,
            ended_at=answer.ended_at,
            clocks=answer.clocks,
            cells=[],
            answers=[answer.id],
            verdicts=verdicts,
            exit_code=exit_code(verdicts.values()),
        )
    )
    return run


def bisection_answer(found: Found, scenario: Scenario, run: str, *, started_at: datetime, facts: Mapping[str, str]) -> Answer:
    """PASS: the search names one candidate; INCONCLUSIVE: it does not. An arm is a step."""
    verdict: VerdictName = "PASS" if found.conclusion.kind == "found" else "INCONCLUSIVE"
    return Answer(
        id=f"{scenario.cell(scenario.client).id}--bisection",
        question="bisection",
        run=run,
        lab_version=__version__,
        clocks=list(dict.fromkeys(clock for step in found.steps for clock in step.clocks)) or ["virtual"],
        topology=scenario.cell(scenario.client).topology,
        transfer=scenario.transfer,
        expectation=scenario.expect,
        arms=[_arm(step) for step in found.steps],
        skipped=dict(found.skipped),
        facts={
            "good": found.candidates[0],
            "bad": found.candidates[-1],
            "candidates": str(len(found.candidates)),
            "result": found.conclusion.reason,
            **facts,
        },
        verdict=Verdict(name=verdict, reason=found.headline),
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )


def commit_words(commit: Commit) -> dict[str, str]:
    """The facts of an answer that name a commit."""
    return {
        "commit": commit.name,
        "subject": commit.subject,
        "author": commit.author,
        "date": commit.date,
        CHANGED: "\n".join(commit.changed),
    }


def _arm(step: Answer) -> Arm:
    verdict = step.judged
    return Arm(
        name=f"{step.facts['number']}.",
        value=step.id,
        verdict=verdict.name,
        facts={"figure": verdict.reason, "why": step.facts["why"], "run": step.run},
    )
