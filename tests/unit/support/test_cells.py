from __future__ import annotations

import pytest

from tests.support.cells import Outcome, settle

CELL = "ferry--dsl-20--http1-get-5MiB-at-1MBps"
BUSY = "the host was busy: hogs"
PASS, FAIL = Outcome("PASS", "", None), Outcome("FAIL", "too fast", BUSY)
NOISE, UNDECIDED = Outcome("INVALID", "no link", BUSY), Outcome("INCONCLUSIVE", "n = 5", BUSY)
QUIET_INVALID, NOTHING = Outcome("INVALID", "no router", None), Outcome("", "exit code 2", None)
FERRY, CURL = ("PASS",), ("PASS", "FAIL", "INCONCLUSIVE")


@pytest.mark.parametrize(
    ("allowed", "script", "outcome"),
    [
        (FERRY, [PASS], "passed"),
        (FERRY, [NOISE, UNDECIDED, PASS], "passed"),
        (FERRY, [NOISE, FAIL], "failed"),
        (FERRY, [FAIL], "failed"),
        (FERRY, [QUIET_INVALID], "failed"),
        (FERRY, [NOTHING], "failed"),
        (FERRY, [NOISE, UNDECIDED, NOISE, UNDECIDED], "skipped"),
        (CURL, [FAIL], "passed"),
        (CURL, [UNDECIDED], "passed"),
        (CURL, [NOISE, NOISE, NOISE, NOISE], "skipped"),
        (CURL, [NOISE, QUIET_INVALID], "failed"),
    ],
)
def test_a_cell_runs_again_only_without_a_verdict_on_a_disturbed_machine(
    allowed: tuple[str, ...], script: list[Outcome], outcome: str
) -> None:
    left, waits = list(script), []
    final = settle(CELL, allowed, lambda _: left.pop(0), lambda: waits.append(1))
    assert final.outcome == outcome
    assert (left, len(waits)) == ([], len(script) - 1)
    assert ("hogs" in final.note) == (len(script) > 1)
