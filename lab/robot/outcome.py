"""A verdict as Robot has it: a test that passes, fails or is skipped, its message, its tags and its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robot.api import SkipExecution, logger
from robot.libraries.BuiltIn import BuiltIn

from lab.model.answer import Answer, answer_of
from lab.model.errors import ClientFault, LabFault
from lab.model.results import CellResult, worst
from lab.robot import current
from lab.run.questions import Result
from reports.cells import log_html

OUTCOMES: dict[str, Any] = {"FAIL": ClientFault, "INVALID": LabFault, "INCONCLUSIVE": SkipExecution}
"""The exceptions by which Robot fails or skips a test."""


def report(result: Result) -> None:
    """Turn a verdict into Robot's own: message, tag and outcome."""
    robot = BuiltIn()
    answer = answer_of(result) if isinstance(result, CellResult) else result
    verdict = answer.judged
    robot.set_tags(f"verdict:{verdict.name}")
    try:
        client, _, transfer = answer.subject
    except ValueError:  # it is about several clients
        robot.set_tags(*(f"client:{arm.client.name}" for arm in answer.arms if arm.client))
    else:
        robot.set_tags(f"direction:{transfer.direction}", f"protocol:{transfer.protocol}")
        robot.set_suite_metadata("Client", f"{client.name} {client.version}", top=True)
    message = f"{verdict.name}: {verdict.reason} [{result.id}]"
    shown = log_html(result, message) if isinstance(result, CellResult) else ""
    if verdict.name in OUTCOMES:
        # Plain: xunit.xml has this message too. Robot unfolds the log of what failed, and the plot is there.
        logger.info(shown or message, html=bool(shown))
        raise OUTCOMES[verdict.name](message)
    if shown and current.get() is None:
        logger.info(shown, html=True)  # plain `robot` prints a test's message on the console
    robot.set_test_message(f"*HTML*{shown}" if shown and current.get() else message)


def report_scenario(answers: Sequence[Answer]) -> None:
    """Several verdicts are one of Robot's: the worst of those that are not as reported."""
    robot = BuiltIn()
    robot.set_tags(*dict.fromkeys(f"client:{arm.name}" for answer in answers for arm in answer.arms))
    name = worst(answer.judged.name for answer in answers)
    if name != "PASS":
        raise OUTCOMES[name]("; ".join(answer.judged.reason for answer in answers if answer.judged.name == name))
    found = ((arm, answer) for answer in answers for arm in answer.arms)
    robot.set_test_message("; ".join(f"{arm.name} {arm.verdict}: {answer.facts['figure']}" for arm, answer in found))
