"""What a log of CI comes to, and when two of them say the same."""

from __future__ import annotations

from tests.support.loaded_ci import outcome

LOG = """\
== set-up
== set-up: 31 s
engine: 1 passed, 0 failed, 0 skipped
548 passed, 0 failed, 2 skipped
== engine: {engine} s
5 passed, 0 failed of something else
6036 passed, {failed} failed, 13 skipped
== tests: 700 s
== end to end, ferry: 12 s
"""


def test_counts_and_seconds_are_read() -> None:
    found = outcome(0, LOG.format(engine=120, failed=0))
    assert found.counts == (
        "engine: 1 passed, 0 failed, 0 skipped",
        "548 passed, 0 failed, 2 skipped",
        "6036 passed, 0 failed, 13 skipped",
    )
    assert found.seconds == {"set-up": 31, "engine": 120, "tests": 700, "end to end, ferry": 12}


def test_seconds_make_no_other_result_and_a_count_does() -> None:
    one, slower, other = (outcome(0, LOG.format(engine=seconds, failed=failed)) for seconds, failed in ((9, 0), (99, 0), (9, 1)))
    assert one.result == slower.result != other.result
    assert one.result != outcome(1, LOG.format(engine=9, failed=0)).result


def test_the_line_of_a_job_has_its_seconds_and_only_the_closing_line_counts() -> None:
    lines = ["== engine lint: 103 s, 0 passed, 0 failed, 0 skipped", "unit | 7 passed in 1.0s", "7 passed, 0 failed, 0 skipped"]
    found = outcome(0, "\n".join(lines))
    assert (found.counts, found.seconds) == (("7 passed, 0 failed, 0 skipped",), {"engine lint": 103})
