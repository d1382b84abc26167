"""The plugin in sessions of its own. A conftest says which attempts are disturbed; the real watch runs, its loads are ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
CONFTEST = """
import pytest
pytest_plugins = ["tests.support.noise"]

@pytest.hookimpl(tryfirst=True)
def pytest_why_disturbed(item, load):
    assert load.span_s > 0
    return "hogs" if item.config.option.attempt in {disturbed} else ""
"""
FAILS_ON = """
import pathlib, pytest
RUNS = pathlib.Path({runs!r})

@pytest.mark.realtime
def test_it():
    RUNS.write_text(RUNS.read_text() + "x" if RUNS.exists() else "x")
    print("what it printed")
    assert len(RUNS.read_text()) not in {failing}, "too slow"
"""
EVERY = range(1, 9)


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("ROUGHWATER_REAPER", raising=False)


def session(pytester: pytest.Pytester, *, failing: object, disturbed: object, words: tuple[str, ...] = ()) -> pytest.RunResult:
    pytester.makeconftest(CONFTEST.format(disturbed=disturbed))
    pytester.makepyfile(test_one=FAILS_ON.format(runs=str(pytester.path / "runs"), failing=failing))
    return run(pytester, *words)


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-ra", "-p", "no:cacheprovider", "--await-quiet", "0", *words)


def runs(pytester: pytest.Pytester) -> int:
    return len((pytester.path / "runs").read_text())


def test_a_test_that_always_fails_on_a_quiet_machine_fails(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=EVERY, disturbed=())
    done.assert_outcomes(failed=1)
    assert (done.ret, runs(pytester)) == (pytest.ExitCode.TESTS_FAILED, 1)


def test_a_test_that_fails_on_a_quiet_machine_and_would_then_pass_fails(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=[1], disturbed=())
    done.assert_outcomes(failed=1)
    assert runs(pytester) == 1


def test_a_test_whose_every_attempt_was_disturbed_is_skipped_with_the_reason(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=EVERY, disturbed=EVERY)
    done.assert_outcomes(skipped=1)
    assert (done.ret, runs(pytester)) == (pytest.ExitCode.OK, 4)
    done.stdout.fnmatch_lines(
        ["SKIPPED [[]1[]] test_one.py:*: no verdict: all 4 attempts failed and were disturbed, the last one: hogs"]
    )


@pytest.mark.parametrize("line", ["[].nothing", "unknown", "len(1)", "import lab.nowhere", "raise PermissionError(13)"])
def test_what_only_a_defect_explains_fails_at_once_on_any_machine(pytester: pytest.Pytester, line: str) -> None:
    pytester.makeconftest(CONFTEST.format(disturbed=EVERY))
    pytester.makepyfile(test_one=f"import pytest\n@pytest.mark.realtime\ndef test_it():\n    {line}\n")
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.no_fnmatch_line("*run again*")


def test_an_answer_that_is_missing_may_be_noise(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(disturbed=[1, 2, 3, 4]))
    pytester.makepyfile(test_one="import pytest\n@pytest.mark.realtime\ndef test_it():\n    None.answer\n")
    run(pytester).assert_outcomes(skipped=1)


def test_a_test_that_passes_when_the_machine_is_quiet_passes_with_a_note(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=[1, 2], disturbed=[1, 2])
    done.assert_outcomes(passed=1)
    assert (done.ret, runs(pytester)) == (pytest.ExitCode.OK, 3)
    done.stdout.fnmatch_lines(
        [
            "test_one.py::test_it: passed on attempt 3, attempt 1 was disturbed: hogs; attempt 2 was disturbed: hogs",
            "  attempt 1 failed with: AssertionError: too slow",
        ]
    )


def test_a_test_that_fails_again_when_the_machine_is_quiet_fails(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=EVERY, disturbed=[1])
    done.assert_outcomes(failed=1)
    assert (done.ret, runs(pytester)) == (pytest.ExitCode.TESTS_FAILED, 2)
    done.stdout.fnmatch_lines(
        [
            "*AssertionError: too slow*",
            "*what it printed*",
            "failed on attempt 2, which nothing disturbed, attempt 1 was disturbed: hogs",
        ]
    )


def test_a_test_without_time_for_another_attempt_fails(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=[1], disturbed=EVERY, words=("--again-for", "-1"))
    done.assert_outcomes(failed=1)
    assert runs(pytester) == 1
    done.stdout.fnmatch_lines(["*AssertionError: too slow*"])


def test_in_parallel_every_failure_is_run_again_alone(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=[1], disturbed=(), words=("-n", "2"))
    done.assert_outcomes(passed=1)
    assert runs(pytester) == 2
    done.stdout.fnmatch_lines(
        ["test_one.py::test_it: passed on attempt 2, attempt 1 was disturbed: it ran beside other tests on 2 workers"]
    )


def test_a_defect_fails_in_parallel_and_then_alone(pytester: pytest.Pytester) -> None:
    done = session(pytester, failing=EVERY, disturbed=(), words=("-n", "2"))
    done.assert_outcomes(failed=1)
    assert (done.ret, runs(pytester)) == (pytest.ExitCode.TESTS_FAILED, 2)


def test_a_test_without_the_marker_is_not_run_again(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(disturbed=EVERY))
    pytester.makepyfile("def test_it(): assert False")
    run(pytester).assert_outcomes(failed=1)


def test_what_disturbed_a_shared_fixture_disturbed_every_test_that_uses_it(pytester: pytest.Pytester) -> None:
    """The second test fails at once, in a quiet moment, with the failure that pytest has kept."""
    pytester.makeconftest(
        """
        import pytest
        pytest_plugins = ["tests.support.noise"]
        of_the_first = []

        @pytest.hookimpl(tryfirst=True)
        def pytest_why_disturbed(item, load):
            if item.name == "test_first":
                of_the_first.append(load)
            return "hogs" if item.name == "test_second" and load in of_the_first else ""
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def network(request):
            assert request.config.option.attempt > 1, "no link came up"

        @pytest.mark.realtime
        def test_first(network): pass

        @pytest.mark.realtime
        def test_second(network): pass
        """
    )
    done = run(pytester)
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(
        ["*::test_second: passed on attempt 2, attempt 1 was disturbed: while its fixture 'network' was set up hogs"]
    )


def test_fixtures_are_torn_down_before_a_test_runs_again(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(disturbed=[1]))
    pytester.makepyfile(
        """
        import pathlib, pytest
        HELD = pathlib.Path("held")

        @pytest.fixture(scope="session")
        def lock():
            HELD.touch(exist_ok=False)
            yield
            HELD.unlink()

        @pytest.mark.realtime
        def test_it(lock, request):
            assert request.config.option.attempt == 2

        def test_other(lock): pass
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_a_failure_of_the_teardown_counts_once(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(disturbed=[1]))
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def server(request):
            yield
            assert request.config.option.attempt == 2

        @pytest.mark.realtime
        def test_it(server): pass
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_an_attempt_that_does_not_get_as_far_as_the_test_is_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(disturbed=EVERY))
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.realtime
        def test_it(request):
            if request.config.option.attempt > 1:
                os._exit(3)
            assert False
        """
    )
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["attempt 2 did not run the test to its end*"])
