"""x509-limbo, the test suite of pyca/cryptography for the verifiers of TLS: what a client trusts, and for which name."""

from __future__ import annotations

import base64
import calendar
import json
import lzma
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.conformance.cases import Excluded, Outcome
from tests.conformance.program import answers, vendored

_LISTS = "Only a revocation list says that the path is not valid, and ferry asks for none."
_CLIENTS = "A client's certificate, which a server verifies."
_DEPTH = "The caller wants no more than a number of authorities, which ferry has no option for."
# The suite's own, for cases that any day does for.
_ANY_DAY = calendar.timegm((2024, 1, 1, 0, 0, 0))


def _rule(case: dict[str, Any]) -> str:
    """By what the case says it is about."""
    if case["kind"] != "SERVER":
        return _CLIENTS
    if case["depth"] is not None:
        return _DEPTH
    return _LISTS if case["crls"] and case["expected"] == "FAILURE" else ""


def _hex(certificate: str) -> str:
    return base64.b64decode(certificate).hex()


def limbo() -> Iterator[Outcome | Excluded]:
    """All of the suite but `bettertls` and `online`, which are collections of others."""
    cases: list[dict[str, Any]] = json.loads(lzma.decompress(vendored("x509-limbo").read_bytes()))
    asked = [case for case in cases if not _rule(case)]
    yield from (Excluded(rule) for case in cases if (rule := _rule(case)))
    given = [
        {
            "kind": "certificate",
            "chain": [_hex(each) for each in (case["peer"], *case["intermediates"])],
            "roots": [_hex(each) for each in case["roots"]],
            "name": case["name"][1] if case["name"] else "conformance.test",
            "time": int(datetime.fromisoformat(case["time"]).timestamp()) if case["time"] else _ANY_DAY,
        }
        for case in asked
    ]
    for case, answer in zip(asked, answers(given), strict=True):
        error = answer["error"] or ("" if answer["named"] or not case["name"] else "another name")
        if case["expected"] == "SUCCESS":
            yield Outcome(case["id"], f"refuses it: {error}" if error else "")
        else:
            yield Outcome(case["id"], "" if error else "accepts it")
