"""Migrate results of older labs: one step per change of schema, on the raw document, before validation.

A step is a pure function of a document of one kind and returns a document of the next version. What the older lab did not record
becomes null or empty, never a guess. Files on disk stay as they are; `lab results migrate` rewrites them.

A change of schema adds a row to STEPS, a folder tests/data/results-OLD with real files of the previous version, and a line to
docs/reference/results.md.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, TypeGuard

from lab.model.cell_name import format_cell_name, parse_cell_name
from lab.model.errors import UsageProblem
from lab.model.numbers import geometric_mean
from lab.model.results import SCHEMA_VERSION, verdict_of_exit_code

Kind = Literal["cell", "run", "answer", "study", "pair", "finding", "qualification"]
"""The last four have been answers since 2.0."""
Document: TypeAlias = Mapping[str, object]
Step = Callable[[Document], dict[str, object]]


def upgrade(document: object, kind: Kind, origin: str) -> dict[str, object]:
    """Migrate `document` to the current schema. Raises UsageProblem, one line with `origin`: no result, newer, or unknown."""
    known = checked_version(document, SCHEMA_VERSION, origin)
    while (version := str(known["schema_version"])) != SCHEMA_VERSION:
        if version not in STEPS:
            wanted = ", ".join((*STEPS, SCHEMA_VERSION))
            remedy = "read it with the lab that wrote it"
            raise UsageProblem(f"{origin}: schema {version} is unknown to this lab ({wanted})", remedy=remedy)
        target, step = STEPS[version][0], STEPS[version][1].get(kind)
        known = {**(step(known) if step else known), "schema_version": target}
    return known


def checked_version(document: object, newest: str, origin: str, *, remedy: str = "") -> dict[str, object]:
    """Check that `document` has a schema_version of at most `newest`. Raises UsageProblem, one line with `origin`."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,6}\.[0-9]{1,6}", version):
        raise UsageProblem(f"{origin}: not a result of this lab, it has no schema_version such as {newest}", remedy=remedy)
    if version_number(version) > version_number(newest):
        newer = f"{origin}: schema {version} is newer than {newest}, the newest this lab reads"
        raise UsageProblem(newer, remedy="update the lab")
    return document


def version_number(version: str) -> tuple[int, ...]:
    """For comparisons: 1.10 is newer than 1.9."""
    return tuple(int(part) for part in version.split("."))


def _cell_1_0(cell: Document) -> dict[str, object]:
    """1.1 added the host's load, transfers set aside, the planned looks, and how the interval was made."""
    grown = {"set_aside": [], "host": None, "plan": [], **_verdict_1_0(cell)}
    if isinstance(samples := cell.get("samples"), list):
        grown["samples"] = [_with(sample, host=None) for sample in samples]
    return grown


def _verdict_1_0(document: Document) -> dict[str, object]:
    """1.1 added how the interval was made."""
    return {**document, **({"verdict": _with(document["verdict"], method=None)} if "verdict" in document else {})}


def _cell_1_1(cell: Document) -> dict[str, object]:
    """1.2 added the virtual clock and seeds of samples; older cells ran in real time."""
    return _with_samples({"clock": "real", "virtual": None, **cell}, seed=None)


def _with_samples(cell: Document, **unknown: object) -> dict[str, object]:
    """The cell, its samples with the fields that they do not have yet."""
    grown = dict(cell)
    if isinstance(samples := cell.get("samples"), list):
        grown["samples"] = [_with(sample, **unknown) for sample in samples]
    if isinstance(aside := cell.get("set_aside"), list):
        grown["set_aside"] = [
            {**each, "sample": _with(each["sample"], **unknown)} if isinstance(each, dict) and "sample" in each else each
            for each in aside
        ]
    return grown


def _run_1_1(run: Document) -> dict[str, object]:
    return {"clocks": ["real"], **run}


def _compared_1_1(document: Document) -> dict[str, object]:
    return {"lab_clock": "real", **document}


def _finding_1_1(finding: Document) -> dict[str, object]:
    return {"clock": "real", **finding}


def _with(part: object, **unknown: object) -> object:
    """`part` with the fields it does not have yet. Anything but an object is left for validation to refuse."""
    return {**unknown, **part} if isinstance(part, dict) else part


def _each(parts: object, **unknown: object) -> object:
    return [_with(part, **unknown) for part in parts] if isinstance(parts, list) else parts


_HOST_NOTE = "host was busy: "


def _cell_1_2(cell: Document) -> dict[str, object]:
    """2.0 keeps notes on the host apart from warnings, times bodies on the wire, and may say why; older cells have none of it."""
    grown = _with_samples(cell, body_error_s=None, said_body_s=None, tail_s=None, why=None)
    if isinstance(certificate := cell.get("certificate"), dict):
        looks = {name: _each(certificate.get(name), trace=None, datagrams=[]) for name in ("before", "after")}
        grown = {**grown, "certificate": {**_with_link(certificate), **looks}}
    return _asked_1_2({**grown, "userlands": {}, "verdict": _verdict_1_2(cell.get("verdict"))})


def _asked_1_2(document: dict[str, object]) -> dict[str, object]:
    """2.0 has networks of one host, links that change, userlands, and requests that repeat or keep no file."""
    added: dict[str, Document] = {
        "topology": {"same_host": False, "schedule": None, "userlands": None},
        "transfer": {"no_file": False, "repeat": False},
    }
    grown = {key: _with(document[key], **new) for key, new in added.items() if document.get(key) is not None}
    if isinstance(topology := grown.get("topology"), dict):
        grown["topology"] = _with_link(topology)
    return {**document, **grown}


def _with_link(part: Document) -> dict[str, object]:
    """2.0 has links that treat UDP or large packets apart."""
    link = part.get("link")
    if not isinstance(link, dict):
        return {**part}
    ways = {way: _with(link[way], udp=None, hidden_mtu=None) for way in ("up", "down") if link.get(way) is not None}
    return {**part, "link": {"udp": "open", "hidden_mtu": None, **link, **ways}}


def _verdict_1_2(verdict: object) -> object:
    if not isinstance(verdict, dict) or not isinstance(warnings := verdict.get("warnings", []), list):
        return verdict
    notes = [text for text in warnings if isinstance(text, str) and text.startswith(_HOST_NOTE)]
    others = [text for text in warnings if text not in notes]
    return {"cause": None, "host_notes": [note.removeprefix(_HOST_NOTE) for note in notes], **verdict, "warnings": others}


def _run_1_2(run: Document) -> dict[str, object]:
    """2.0 lists answers in place of studies, pairs and findings. A qualification was not listed before."""
    kinds = [run.get(kind, []) for kind in ("studies", "pairs", "findings")]
    kept = {key: value for key, value in run.items() if key not in ("studies", "pairs", "findings")}
    return {**kept, "answers": [each for ids in kinds if isinstance(ids, list) for each in ids]}


_NOT_RECORDED: Document = {
    "backend": "",
    "router": {},
    "userlands": {},
    "machine": {},
    "client": None,
    "topology": None,
    "transfer": None,
    "expectation": None,
    "arms": [],
    "observations": [],
    "parts": [],
    "order": [],
    "skipped": {},
    "facts": {},
    "rate_clock": None,
    "bound": None,
    "ratio": None,
    "cost": None,
    "p_outside": None,
    "not_judged": "",
}
_ARM: Document = {
    "value": "",
    "client": None,
    "verdict": None,
    "byte_s": [],
    "mean_byte_s": None,
    "cell": "",
    "interval": None,
    "figures": {},
    "facts": {},
}
"""The fields of an answer and of an arm that the older kinds of result did not have."""


def _study_1_2(study: Document) -> dict[str, object]:
    names = {"floor": "bound", "clock": "rate_clock", "left_out": "skipped"}
    made = {names.get(key, key): value for key, value in study.items() if key not in ("varied", "lab_clock", "arms")}
    verdict = _verdict_1_2(study.get("verdict"))
    arms = study.get("arms")
    return {
        **_NOT_RECORDED,
        **made,
        "question": "buffer-sizes",
        "clocks": [study.get("lab_clock")],
        "arms": [_with(_renamed(arm, setting="name"), **_ARM) for arm in arms] if isinstance(arms, list) else arms,
        "ratio": verdict.get("interval") if isinstance(verdict, dict) else None,
        "verdict": verdict,
    }


def _pair_1_2(pair: Document) -> dict[str, object]:
    names = {"margin": "bound", "clock": "rate_clock", "untold": "not_judged"}
    made = {names.get(key, key): value for key, value in pair.items() if key not in ("lab_clock", "candidate", "baseline")}
    return {
        **_NOT_RECORDED,
        **made,
        "question": "no-slower",
        "clocks": [pair.get("lab_clock")],
        "arms": [_side_1_2(name, pair.get(name)) for name in ("candidate", "baseline")],
        "verdict": _verdict_1_2(pair.get("verdict")),
    }


def _side_1_2(name: str, side: object) -> object:
    if not isinstance(side, dict) or not isinstance(client := side.get("client"), dict):
        return side
    rates = side.get("byte_s")
    known = isinstance(rates, list) and rates and all(isinstance(rate, float | int) and rate > 0 for rate in rates)
    mean = geometric_mean(rates) if known and isinstance(rates, list) else None
    return {**_ARM, **side, "name": name, "value": client.get("name"), "mean_byte_s": mean}


def _finding_1_2(finding: Document) -> dict[str, object]:
    names = {"kind": "question", "rows": "observations"}
    made = {names.get(key, key): value for key, value in finding.items() if key != "clock"}
    return {**_NOT_RECORDED, **made, "clocks": [finding.get("clock")], "verdict": _verdict_1_2(finding.get("verdict"))}


def _qualification_1_2(found: Document) -> dict[str, object]:
    """The verdict was in the exit code, its reason in the headline. The clocks are in the cells."""
    code = found.get("exit_code")
    skipped, items = found.get("skipped"), found.get("items")
    return {
        **_NOT_RECORDED,
        **{key: found[key] for key in ("schema_version", "run", "lab_version", "started_at", "ended_at") if key in found},
        "id": f"{found.get('candidate')}--qualification",
        "question": "qualification",
        "clocks": [],
        "arms": [{**_ARM, "name": name, "value": found[name]} for name in ("candidate", "baseline") if found.get(name)],
        "parts": [_renamed(item, pair="comparison") for item in items] if isinstance(items, list) else items,
        "skipped": {item["name"]: item["reason"] for item in skipped} if _skipped_1_2(skipped) else skipped,
        "facts": {"set": found.get("set")},
        "bound": found.get("margin"),
        "verdict": {
            "name": verdict_of_exit_code(code) if isinstance(code, int) else code,
            "reason": found.get("headline"),
            "interval": None,
            "method": None,
            "band_low": None,
            "band_high": None,
            "looks": [],
            "alpha_per_look": None,
            "warnings": [],
            "host_notes": [],
            "cause": "verdicts",
        },
    }


def _skipped_1_2(skipped: object) -> TypeGuard[list[dict[str, object]]]:
    return isinstance(skipped, list) and all(isinstance(item, dict) and {"name", "reason"} <= item.keys() for item in skipped)


def _renamed(part: object, **names: str) -> object:
    return {names.get(key, key): value for key, value in part.items()} if isinstance(part, dict) else part


def _cell_2_0(cell: Document) -> dict[str, object]:
    """2.1 has the command of each sample, and variables. Before, only a cell had a command, and `lab run` passed no variables.

    It has what the bytes of a cell in virtual time follow from, too, and counts interruptions, which older kernels did not know.
    """
    found = _with_samples(_with_variables(cell), command=[], interruptions=0)
    return {**found, "virtual": _with(cell.get("virtual"), counts={}, digest="")}


def _with_variables(document: Document) -> dict[str, object]:
    client = document.get("client")
    return {**document, **({"client": {"variables": {}, **client}} if isinstance(client, dict) else {})}


def _answer_2_0(answer: Document) -> dict[str, object]:
    """2.1 compares releases by several figures; before, the promises of a qualification counted."""
    arms = answer.get("arms")
    known = {"arms": [_with_variables(arm) if isinstance(arm, dict) else arm for arm in arms]} if isinstance(arms, list) else {}
    return {"claims": [], **_with_variables(answer), **known, "parts": _each(answer.get("parts"), promise_counts=True)}


def _run_2_0(run: Document) -> dict[str, object]:
    """2.1 says how a run ended and what was asked for. An older record does not know more than the cells that its command names.

    A lab before 2.1 stored an interrupted run with the exit code of what it had: a cell that was named and is not there shows it.
    """
    return {"planned": _named(run.get("command")), "ended": None, **run}


def _named(command: object) -> list[str]:
    """Ids of the cells that `lab run` was given; none where it was given suites, whose rows may have changed since."""
    words = command if isinstance(command, list) else []
    found = []
    for word in words[2:] if words[1:2] == ["run"] else []:
        with contextlib.suppress(UsageProblem):
            found.append(format_cell_name(*parse_cell_name(str(word))))
    return found


def _asked_2_1(document: Document) -> dict[str, object]:
    """2.2 has networks with an endpoint in the place of the lab's servers."""
    topology = document.get("topology")
    return {**document, **({"topology": _with(topology, endpoint=None)} if topology is not None else {})}


def _asked_2_2(document: Document) -> dict[str, object]:
    """2.3 has networks with IPv6, a resolver and nodes. Before, a link was all of the path, and a file had all addresses."""
    grown = {**document}
    if (topology := document.get("topology")) is not None:
        grown["topology"] = _with(topology, ip=4, ipv6="open", dns=None, path=["link"])
    if (certificate := document.get("certificate")) is not None:
        grown["certificate"] = _with(certificate, path=None)
    return grown


_ANSWERS: tuple[Kind, ...] = ("answer", "study", "pair", "finding", "qualification")
"""Kinds of files that are answers since 2.0."""
STEPS: dict[str, tuple[str, dict[Kind, Step]]] = {
    "1.0": ("1.1", {"cell": _cell_1_0, "study": _verdict_1_0, "pair": _verdict_1_0, "finding": _verdict_1_0}),
    "1.1": ("1.2", {"cell": _cell_1_1, "run": _run_1_1, "study": _compared_1_1, "pair": _compared_1_1, "finding": _finding_1_1}),
    "1.2": (
        "2.0",
        {
            "cell": _cell_1_2,
            "run": _run_1_2,
            "study": lambda study: _asked_1_2(_study_1_2(study)),
            "pair": lambda pair: _asked_1_2(_pair_1_2(pair)),
            "finding": lambda finding: _asked_1_2(_finding_1_2(finding)),
            "qualification": _qualification_1_2,
        },
    ),
    "2.0": ("2.1", {"run": _run_2_0, "cell": _cell_2_0, **dict.fromkeys(_ANSWERS, _answer_2_0)}),
    "2.1": ("2.2", {"cell": _asked_2_1, **dict.fromkeys(_ANSWERS, _asked_2_1)}),
    "2.2": ("2.3", {"cell": _asked_2_2, **dict.fromkeys(_ANSWERS, _asked_2_2)}),
}
"""By version: the next version, and the step of each kind; other kinds only get the new number."""
