from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.attempts import Attempt
from tests.support.engine_tests import Count, RustTest, by_cargo_test, deferred, ignored, noted, outcomes, settle, totals

PASS, FAIL, NOISE = Attempt(passed=True), Attempt(passed=False), Attempt(passed=False, disturbed="hogs")
TIMED = RustTest("ferry-engine::ssh_openssh", "a_server_that_dies_is_heard_of_once")
PURE = RustTest("ferry-h2::hpack", "integers")
JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="3">
  <testsuite name="ferry-engine::ssh_openssh" tests="2">
    <testcase name="a_server_that_dies_is_heard_of_once" classname="ferry-engine::ssh_openssh" time="2.5">
      <failure type="test failure with exit code 101">thread panicked</failure>
    </testcase>
    <testcase name="other" classname="ferry-engine::ssh_openssh" time="0.1"/>
  </testsuite>
  <testsuite name="ferry-h2::hpack" tests="2">
    <testcase name="integers" classname="ferry-h2::hpack" time="0.1"><failure type="test failure">no</failure></testcase>
    <testcase name="does_not_start" classname="ferry-h2::hpack" time="0.1"><error type="execution failure">no</error></testcase>
  </testsuite>
</testsuites>
"""


def test_what_ran_is_read_from_junit() -> None:
    assert outcomes(JUNIT) == {
        TIMED: False,
        RustTest("ferry-engine::ssh_openssh", "other"): True,
        PURE: False,
        RustTest("ferry-h2::hpack", "does_not_start"): False,
    }


@pytest.mark.parametrize(
    ("program", "name", "realtime"),
    [
        ("ferry-engine::ssh_openssh", "a_server_without_sftp_says_so", True),
        ("ferry-engine", "ssh::session::tests::a_wrong_password_is_permanent_and_not_in_the_message", True),
        ("ferry-engine", "platform::alarm::tests::nobody_is_woken_early_and_the_earliest_first", True),
        ("ferry-engine", "sftp::session::tests::several_channels_are_for_servers_that_were_tried", False),
        ("ferry-pacing::pacer", "it_keeps_the_limit", False),
    ],
)
def test_which_tests_judge_by_real_time(program: str, name: str, realtime: bool) -> None:
    assert RustTest(program, name).realtime is realtime


@pytest.mark.parametrize(
    ("script", "outcome"), [([PASS], "passed"), ([NOISE, PASS], "passed"), ([FAIL], "failed"), ([NOISE] * 3, "skipped")]
)
def test_a_real_time_test_runs_again_alone(script: list[Attempt], outcome: str) -> None:
    numbers: list[int] = []

    def attempt(test: RustTest, number: int) -> Attempt:
        numbers.append(number)
        return script[number - 2]

    finals = settle([TIMED], attempt)
    assert finals[TIMED].outcome == outcome
    assert numbers == list(range(2, 2 + len(script)))


def test_any_other_failure_is_final() -> None:
    def attempt(test: RustTest, number: int) -> Attempt:
        pytest.fail("it ran again")

    assert settle([PURE], attempt)[PURE].outcome == "failed"


def test_each_test_counts_once() -> None:
    ran = outcomes(JUNIT)
    finals = settle((test for test, passed in ran.items() if not passed), lambda *_: NOISE)
    assert totals(ran, finals) == Count(passed=1, failed=2, skipped=1)


def test_the_plain_counts_of_both_runners() -> None:
    assert ignored(["     Summary [  33.920s] 343 tests run: 343 passed, 3 skipped"]) == 3
    assert ignored(["     Summary [  33.920s] 343 tests run: 343 passed"]) == 0
    lines = [
        "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured",
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured",
    ]
    assert str(by_cargo_test(lines)) == "6 passed, 2 failed, 1 skipped"


def test_a_test_that_says_it_was_skipped_has_not_passed() -> None:
    full = "files::partial::faults::a_full_file_system: no mount: mount: permission denied."
    lines = [full, "the_corpus_is_read_as_openssh_reads_it: no ssh: it is not on PATH", full]
    assert str(Count(passed=5) + noted(lines)) == "3 passed, 0 failed, 2 skipped"


def test_a_deferred_test_counts_once_by_what_it_comes_to_alone(tmp_path: Path) -> None:
    file = tmp_path / "again.txt"
    file.write_text("ferry-engine::library\ta::b\nferry-engine\tnet::c\n")
    ends = {"a::b": Attempt(passed=True), "net::c": Attempt(passed=False)}
    assert deferred(file, lambda test, _: ends[test.name]) == Count(passed=1, failed=1)


def test_nothing_is_deferred_where_there_were_no_tests(tmp_path: Path) -> None:
    assert deferred(tmp_path / "none.txt", lambda *_: Attempt(passed=False)) == Count()
