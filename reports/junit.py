"""A run as JUnit XML, for a CI that shows test cases: one per cell, study, finding and judged pair. Pure.

FAIL is a failure, INVALID an error, INCONCLUSIVE and what was skipped are skipped; each with its reason. Figures are
properties, in the units of their names. The form is the one that Jenkins' and Ant's schema have in common (`testsuites`,
`testsuite`, `properties`, `testcase`).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from lab.result.finding import Finding
from lab.result.meaning import rate_is_real
from lab.result.models import CellResult, Verdict
from lab.result.qualification import PairResult
from lab.result.salvage import Salvaged
from lab.result.study import StudyResult
from lab.result.table import judged_words
from lab.spec.clock import Clock

Outcome = Literal["", "failure", "error", "skipped"]
_OUTCOMES: dict[str, Outcome] = {"PASS": "", "FAIL": "failure", "INVALID": "error", "INCONCLUSIVE": "skipped"}
# What XML 1.0 cannot hold, escaped or not.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class _Case:
    id: str
    classname: str
    outcome: Outcome
    reason: str
    seconds: float = 0.0
    properties: dict[str, str] = field(default_factory=dict)
    more: str = ""


def junit_xml(run: Salvaged) -> str:
    """The document, with an XML declaration. A file of the run that cannot be read is an error of a case of its own."""
    cases = [*_cases(run)]
    everything: list[CellResult | StudyResult | PairResult | Finding] = [*run.cells, *run.studies, *run.pairs, *run.findings]
    times = [each.started_at for each in everything]
    counts = Counter(case.outcome for case in cases)
    totals: dict[str, str] = {
        "tests": str(len(cases)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }
    root = ET.Element("testsuites", {"name": _text(run.path.name), **totals})
    suite = ET.SubElement(root, "testsuite", {"name": _text(run.path.name), **totals})
    if times:
        suite.set("timestamp", min(times).strftime("%Y-%m-%dT%H:%M:%S"))
    _properties(suite, _run_facts(run))
    for case in cases:
        element = ET.SubElement(suite, "testcase", classname=_text(case.classname), name=_text(case.id))
        element.set("time", f"{case.seconds:.3f}")
        _properties(element, case.properties)
        if case.outcome:
            told = ET.SubElement(element, case.outcome, message=_text(case.reason))
            if case.outcome != "skipped":
                told.set("type", "FAIL" if case.outcome == "failure" else "INVALID")
                told.text = _text("\n".join(line for line in (case.reason, case.more) if line))
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _cases(run: Salvaged) -> Iterator[_Case]:
    baselines = {pair.baseline.cell for pair in run.pairs} | set(run.record.baselines if run.record else ())
    for cell in run.cells:
        yield _cell(cell, baseline=cell.id in baselines)
    others: list[StudyResult | Finding] = [*run.studies, *run.findings]
    for each in others:
        clock = each.clock if isinstance(each, Finding) else each.lab_clock
        place = f"{each.client.name}.{each.topology.name}"
        yield _other(each.id, place, each.verdict, clock, _seconds(each))
    for pair in run.pairs:
        if pair.verdict:
            place = f"{pair.candidate.client.name}.{pair.topology.name}"
            yield _other(pair.id, place, pair.verdict, pair.lab_clock, _seconds(pair))
    for name, reason in (run.record.skipped if run.record else {}).items():
        client, _, rest = name.partition("--")
        yield _Case(name, f"{client}.{rest.partition('--')[0]}", "skipped", f"the client cannot do it: {reason}")
    for number, problem in enumerate(run.problems, 1):
        yield _Case(f"unreadable file {number}", "throughline.results", "error", problem)


def _cell(cell: CellResult, *, baseline: bool) -> _Case:
    verdict = cell.verdict
    figures: dict[str, str] = {"verdict": verdict.name, "clock": cell.clock, "expectation": cell.expectation.kind}
    figures["samples"] = str(len(cell.samples))
    if verdict.interval:
        told, between = judged_words(cell.expectation, verdict.interval)
        figures |= {"figure": told, "interval": between, "n": str(verdict.interval.n)}
        figures["mean"], figures["low"], figures["high"] = (
            repr(value) for value in (verdict.interval.mean, verdict.interval.low, verdict.interval.high)
        )
    rates = [sample.body_byte_s for sample in cell.samples if sample.ok and sample.body_byte_s is not None]
    if rates and rate_is_real(cell):
        figures["mean_body_byte_s"] = f"{sum(rates) / len(rates):.1f}"
    if cell.set_aside:
        figures["set_aside"] = str(len(cell.set_aside))
    outcome, reason = _OUTCOMES[verdict.name], f"{verdict.name}: {verdict.reason}"
    if baseline and outcome in ("failure", "error"):
        # Its verdict does not count; a CI that counted it would be red where the run is green.
        outcome, reason = "skipped", f"baseline, does not count: {reason}"
    place = f"{cell.client.name}.{cell.topology.name}"
    return _Case(cell.id, place, outcome, reason, _seconds(cell), figures, "\n".join(verdict.warnings))


def _other(name: str, place: str, verdict: Verdict, clock: Clock, seconds: float) -> _Case:
    figures: dict[str, str] = {"verdict": verdict.name, "clock": clock}
    if verdict.interval:
        low, high = verdict.interval.low, verdict.interval.high
        figures |= {"mean": repr(verdict.interval.mean), "low": repr(low), "high": repr(high), "n": str(verdict.interval.n)}
    reason = f"{verdict.name}: {verdict.reason}"
    return _Case(name, place, _OUTCOMES[verdict.name], reason, seconds, figures, "\n".join(verdict.warnings))


def _seconds(each: CellResult | StudyResult | PairResult | Finding) -> float:
    return (each.ended_at - each.started_at).total_seconds()


def _run_facts(run: Salvaged) -> dict[str, str]:
    facts = {"run": run.path.name, "whole": "yes" if run.record else "no"}
    if run.record:
        facts |= {"lab_version": run.record.lab_version, "git_revision": run.record.git_revision or ""}
        facts["exit_code"] = str(run.record.exit_code)
    return facts


def _properties(parent: ET.Element, found: dict[str, str]) -> None:
    if found:
        holder = ET.SubElement(parent, "properties")
        for name, value in found.items():
            ET.SubElement(holder, "property", name=name, value=_text(value))


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
