"""A run as JUnit XML, for a CI that shows test cases: one per cell and per judged answer. Pure.

FAIL is a failure, INVALID an error, INCONCLUSIVE and what was skipped are skipped, unless `no_verdict` says otherwise.
Each has its reason.
Figures are properties, in the units of their names. The form is common to Jenkins' and Ant's schemas (`testsuites`, `testsuite`,
`properties`, `testcase`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from lab.model.answer import Answer
from lab.model.figures import RATE
from lab.model.results import CellResult, Verdict, VerdictName
from lab.store.stored_run import StoredRun
from reports.answers import judged_words
from reports.machine import without_places
from reports.no_verdict import NoVerdict

Outcomes = Mapping[VerdictName, type[FinalResult] | None]
_OUTCOMES: Outcomes = {"PASS": None, "FAIL": Failure, "INVALID": Error, "INCONCLUSIVE": Skipped}
_NO_VERDICT: dict[NoVerdict, Outcomes] = {
    "usual": _OUTCOMES,
    "error": {**_OUTCOMES, "INCONCLUSIVE": Error},
    "skip": {**_OUTCOMES, "INVALID": Skipped},
}
# Characters that XML 1.0 cannot hold, escaped or not.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(run: StoredRun, no_verdict: NoVerdict = "usual") -> str:
    """The document, with an XML declaration. A file of the run that cannot be read is an error of a case of its own."""
    suite = TestSuite(_text(run.path.name))
    for name, value in _run_facts(run).items():
        suite.add_property(name, _text(value))
    suite.add_testcases([*_cases(run, _NO_VERDICT[no_verdict])])
    if times := [each.started_at for each in run.everything]:
        suite.timestamp = min(times).strftime("%Y-%m-%dT%H:%M:%S")
    document = JUnitXml(_text(run.path.name))
    document.add_testsuite(suite)
    document.update_statistics()
    out = io.BytesIO()
    document.write(out, pretty=True)
    return without_places(out.getvalue().decode())


def _cases(run: StoredRun, outcomes: Outcomes) -> Iterator[TestCase]:
    for cell in run.cells:
        yield _cell(cell, outcomes, run.baselines.get(cell.id, ""))
    for answer in run.answers:
        if answer.verdict and answer.counts:
            yield _answer(answer, answer.verdict, outcomes, run.baselines.get(answer.id, ""))
    for name, reason in run.skipped.items():
        client, _, rest = name.partition("--")
        yield _case(name, f"{client}.{rest.partition('--')[0]}", Skipped, f"not asked: {reason}")
    if not run.whole:
        yield _case("end of the run", "roughwater.results", Error, f"not complete: {run.state}")
    for number, problem in enumerate(run.problems, 1):
        yield _case(f"unreadable file {number}", "roughwater.results", Error, problem)


def _cell(cell: CellResult, outcomes: Outcomes, aside: str) -> TestCase:
    """`aside`: why its verdict does not count, in a word; empty where it does."""
    properties = {"clock": cell.clock, "expectation": cell.expectation.kind, "samples": str(len(cell.samples))}
    if interval := cell.verdict.interval:
        properties["figure"], properties["interval"] = judged_words(cell.expectation, interval)
    if (rate := RATE.summarise(cell)) is not None:
        properties["mean_body_byte_s"] = f"{rate:.1f}"
    if cell.set_aside:
        properties["set_aside"] = str(len(cell.set_aside))
    return _judged(cell, cell.verdict, f"{cell.client.name}.{cell.topology.name}", properties, outcomes, aside=aside)


def _answer(answer: Answer, verdict: Verdict, outcomes: Outcomes, aside: str) -> TestCase:
    client = answer.client or next((arm.client for arm in answer.arms if arm.client), None)
    place = ".".join([client.name if client else "clients", answer.topology.name if answer.topology else "networks"])
    known = {"clock": " and ".join(answer.clocks), "question": answer.question}
    return _judged(answer, verdict, place, known, outcomes, aside=aside)


def _judged(
    each: CellResult | Answer,
    verdict: Verdict,
    place: str,
    properties: dict[str, str],
    outcomes: Outcomes,
    *,
    aside: str = "",
) -> TestCase:
    outcome, reason = outcomes[verdict.name], f"{verdict.name}: {verdict.reason}"
    if aside:
        # Its verdict does not count. A CI that counted it would have another number than the run, or be red where it is green.
        outcome, reason = Skipped, f"{aside}, does not count: {reason}"
    if interval := verdict.interval:
        properties |= {"n": str(interval.n), **{key: repr(getattr(interval, key)) for key in ("mean", "low", "high")}}
    seconds = (each.ended_at - each.started_at).total_seconds()
    known = {"verdict": verdict.name, **properties}
    return _case(each.id, place, outcome, reason, seconds=seconds, properties=known, notes=verdict.notes)


def _case(
    name: str,
    place: str,
    outcome: type[FinalResult] | None,
    reason: str,
    *,
    seconds: float = 0.0,
    properties: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> TestCase:
    case = TestCase(_text(name), _text(place), round(seconds, 3))
    if properties:
        holder = Properties()
        for key, value in properties.items():
            holder.add_property(Property(key, _text(value)))
        case.append(holder)
    if outcome:
        result = outcome(_text(reason))
        if outcome is not Skipped:
            result.type = "FAIL" if outcome is Failure else "INVALID"
            result.text = _text("\n".join((reason, *notes)))
        case.result = [result]
    return case


def _run_facts(run: StoredRun) -> dict[str, str]:
    facts = {"run": run.path.name, "whole": "not recorded" if run.doubt else "yes" if run.whole else "no"}
    if run.record:
        facts |= {"lab_version": run.record.lab_version, "git_revision": run.record.git_revision or ""}
        facts["ended"] = run.record.ended or ""
        facts["exit_code"] = str(run.record.exit_code)
    return facts


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
