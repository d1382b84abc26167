"""The part of a cell that must be the same, byte for byte, whenever and wherever it runs in virtual time.

The same cell, seed, kernel and programs give the same view. Left out is what names the real machine or the moment: the run, the
lab's version and revision, paths of programs and captures, times by the real clock, facts and load of the machine, and digests of
what counts, which may differ where nothing follows. Causes stand before effects, so that the first difference of two views is the
one to look at.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import cast

from lab.model.results import CellResult, Sample

_PROGRAM = "PROGRAM"
_LONGEST = 80
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSENT = object()


def view(result: CellResult) -> dict[str, object]:
    """The deterministic part of `result` as plain JSON. In real time it also lacks the times at which things began."""
    cell = result.model_dump(mode="json")
    virtual, before, after = cell["virtual"], cell["before"], cell["after"]
    found: dict[str, object] = {
        **_only(cell, "schema_version", "id", "backend", "clock"),
        "virtual": _without(virtual, "real_s", "counts", "digest") if virtual else None,
        "userlands": cell["userlands"],
        **_only(cell, "topology", "transfer", "expectation", "plan"),
        "client": _client(cell["client"]),
        "router": cell["router"],
        "before": before["hosts"],
        "certificate": cell["certificate"],
        "samples": [_sample(sample, result.client.path) for sample in result.samples],
        "set_aside": [_sample(each.sample, result.client.path) for each in result.set_aside],
        "verdict": cell["verdict"],
        "after": after["hosts"],
    }
    return found if result.clock == "virtual" else _without_moments(found)


def digest(view: Mapping[str, object]) -> str:
    """SHA-256 of a view, 64 hexadecimal digits, whatever the order of its members."""
    return hashlib.sha256(_canonical(view).encode()).hexdigest()


def first_difference(a: object, b: object) -> str | None:
    """The first difference of two views, or of any two JSON values: `$.samples[3].body_s: 2.5, 2.501`. None for equal ones."""
    return _difference(a, b, "$")


def _difference(a: object, b: object, where: str) -> str | None:
    inside: Iterable[tuple[str, object, object]] = ()
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = dict.fromkeys((*a, *b))
        inside = ((_member(where, str(name)), a.get(name, _ABSENT), b.get(name, _ABSENT)) for name in names)
    elif isinstance(a, list) and isinstance(b, list):
        longest = range(max(len(a), len(b)))
        inside = ((f"{where}[{at}]", a[at] if at < len(a) else _ABSENT, b[at] if at < len(b) else _ABSENT) for at in longest)
    elif a is _ABSENT or b is _ABSENT or _canonical(a) != _canonical(b):
        return f"{where}: {_told(a)}, {_told(b)}"
    return next((found for each in inside if (found := _difference(each[1], each[2], each[0])) is not None), None)


def _told(value: object) -> str:
    """One line, not too long."""
    if value is _ABSENT:
        return "not there"
    text = _canonical(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _member(where: str, name: str) -> str:
    """The member's path in the notation of RFC 9535."""
    if _NAME.fullmatch(name):
        return f"{where}.{name}"
    escaped = json.dumps(name)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"{where}['{escaped}']"


def _canonical(value: object) -> str:
    """1, 1.0 and true are three values, as they are in a file."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _client(client: Mapping[str, object]) -> dict[str, object]:
    """The program is known by its digest; where it lies is the machine's."""
    return _without(client, "path", "program") | {"command": _command(client["command"], str(client["path"]))}


def _sample(sample: Sample, program: str) -> dict[str, object]:
    return _without(sample.model_dump(mode="json"), "host", "pcap") | {"command": _command(sample.command, program)}


def _command(words: object, program: str) -> list[str]:
    """A command line without the place of the program."""
    return [word.replace(program, _PROGRAM) if program else word for word in map(str, cast(list[object], words))]


def _only(document: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: document[name] for name in names}


def _without(document: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in document.items() if name not in names}


def _without_moments(found: dict[str, object]) -> dict[str, object]:
    """Leave out the times by the real clock, which differ in every run."""
    kept = dict(found)
    for name in ("samples", "set_aside"):
        samples = kept[name]
        if isinstance(samples, list):
            kept[name] = [_without(sample, "started_at") for sample in samples]
    if isinstance(certificate := kept["certificate"], dict):
        looks = {when: [_without(look, "at") for look in certificate[when]] for when in ("before", "after")}
        kept["certificate"] = {**certificate, **looks}
    return kept
