"""The steps of a bisection with made-up verdicts: its answer, and that an interruption leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.assets import curl_build, store
from lab.assets.curl_versions import VERSIONS
from lab.cli import bisect as command
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.cell import Cell
from lab.model.clock import Clock
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.results import CellResult, Verdict, VerdictName
from lab.robot.bugs import find_scenario
from lab.run import search
from lab.run.bisection import bisection_answer
from lab.run.search import Found, judge_by_running, step_answer, step_line, versions_between, walk
from lab.run.session import Options
from tests.support.own_cache import use_own_cache

MakeCell = Callable[..., CellResult]
CELL = "curl--dsl-50--http1-put-1999999B-at-1MBps"
V = [f"v{index}" for index in range(8)]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_own_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    return tmp_path


def pretend_built(*versions: str) -> None:
    for version in versions:
        directory = curl_build.place(version)
        directory.mkdir(parents=True)
        (directory / curl_build.PROGRAM).write_text("curl")
        store.write_manifest(directory, {}, store.digests(directory))


def judged(verdict: VerdictName, **more: Any) -> Answer:
    return step_answer("v", verdict, "+1 %", **more)


def said(first_bad: int, **odd: Answer) -> Callable[[str, LookPlan], Answer]:
    return lambda name, _: odd.get(name) or judged("FAIL" if int(name[1:]) >= first_bad else "PASS")


def silent(_: Answer) -> None:
    pass


# -- the walk -------------------------------------------------------------------------------------------------------


def test_every_step_is_printed_as_it_is_made() -> None:
    told: list[Answer] = []
    found = walk(V, said(5), told.append)
    assert tuple(told) == found.steps
    assert [step.id for step in told[:2]] == ["v0", "v7"]
    assert step_line(told[0]) == "1. v0 (the good end): PASS, +1 %"
    assert found.exit_code == 0
    assert found.headline == "first bad v5, last good v4"


@pytest.mark.parametrize(("of_the_steps", "of_the_answer"), [(["real"], ["real"]), ([], ["virtual"])])
def test_an_answer_has_the_clocks_of_its_steps(of_the_steps: list[Clock], of_the_answer: list[Clock]) -> None:
    found = walk(V, said(5), silent)
    timed = replace(found, steps=tuple(step.model_copy(update={"clocks": of_the_steps}) for step in found.steps))
    answer = bisection_answer(timed, find_scenario(CELL), "run", started_at=found.steps[0].started_at, facts={})
    assert answer.clocks == of_the_answer


def test_the_words_are_swapped_in_the_search_for_a_fix() -> None:
    found = walk(V, said(5), silent, fix=True)
    assert found.headline == "fixed: first good v4, last bad v5"


def test_what_cannot_be_tried_is_tried_once_and_reported() -> None:
    hopeless = step_answer("v3", "INVALID", "curl 8.9.0 cannot be built: no such header", cause="setup")
    found = walk(V, said(4, v3=hopeless), silent)
    assert [step.id for step in found.steps].count("v3") == 1
    assert found.skipped == {"v3": "curl 8.9.0 cannot be built: no such header"}
    assert (found.conclusion.kind, found.conclusion.suspects, found.exit_code) == ("range", ("v3", "v4"), 3)
    assert found.headline == "the first bad one is among v3, v4; v2 is good"


def test_what_is_skipped_is_never_tried_and_widens_the_answer() -> None:
    found = walk(V, said(4), silent, skip=["v3", "v1", "elsewhere"])
    assert not {"v1", "v3"} & {step.id for step in found.steps}
    assert found.skipped == dict.fromkeys(("v1", "v3"), search.SKIPPED)
    assert (found.conclusion.kind, found.conclusion.last_good, found.conclusion.suspects) == ("range", "v2", ("v3", "v4"))
    assert "v3 cannot be judged: skipped on request" in found.conclusion.reason


def test_what_is_skipped_far_from_the_bug_does_not_matter() -> None:
    assert walk(V, said(4), silent, skip=["v1", "v6"]).conclusion.suspects == ("v4",)


def test_a_lab_fault_is_tried_again() -> None:
    found = walk(V, said(4, v3=judged("INVALID")), silent)
    assert [step.id for step in found.steps].count("v3") == 3
    assert not found.skipped


def test_ends_that_are_not_what_was_said_refuse_the_search() -> None:
    found = walk(V, said(8), silent)
    assert (found.conclusion.kind, found.exit_code) == ("refused", 2)
    assert "v7 was given as bad" in found.headline
    assert walk(V, said(0), silent).exit_code == 2


def test_an_end_that_cannot_be_judged_ends_it() -> None:
    found = walk(V, said(4, v0=step_answer("v0", "INVALID", "not built", cause="setup")), silent)
    assert (found.conclusion.kind, found.exit_code, len(found.steps)) == ("unknown", 3, 1)
    assert found.headline.startswith("nothing can be said: ")


def test_a_candidate_that_breaks_does_not_count_as_missing_its_limit() -> None:
    """Otherwise the first candidate that lacks an option of the command line would be the first bad one."""
    found = walk(V, said(5, v3=judged("FAIL", cause="transfer")), silent)
    assert found.conclusion.suspects == ("v5",)
    (other,) = {step.judged.reason for step in found.steps if step.id == "v3"}
    assert other == "it FAILs in another way than v7: +1 %"


def test_where_the_bug_is_a_transfer_that_fails_a_missed_limit_is_the_other_one() -> None:
    broken = {name: judged("FAIL", cause="transfer") for name in V[5:]}
    found = walk(V, said(3, **broken), silent)
    assert found.conclusion.last_good == "v2"
    assert found.conclusion.suspects[-1] == "v5"
    assert found.conclusion.kind == "range"


@pytest.mark.parametrize("after", range(4))
def test_an_interrupted_walk_stops_at_once(after: int) -> None:
    told: list[Answer] = []

    def judge(name: str, plan: LookPlan) -> Answer:
        if len(told) == after:
            raise KeyboardInterrupt
        return said(5)(name, plan)

    with pytest.raises(KeyboardInterrupt):
        walk(V, judge, told.append)
    assert len(told) == after


# -- candidates -----------------------------------------------------------------------------------------------------


def test_versions_run_from_the_good_end_to_the_bad_one() -> None:
    names, fix = versions_between("curl@8.17.0", "curl@8.22.0")
    assert names == [f"curl@8.{minor}.0" for minor in range(17, 23)]
    assert not fix
    turned, fix = versions_between("curl@8.22.0", "curl@8.17.0")
    assert turned == names[::-1]
    assert fix
    everything, _ = versions_between("curl@7.60.0", "curl@8.22.0")
    assert everything == [f"curl@{version}" for version in VERSIONS]
    libraries, _ = versions_between("libcurl@8.15.0", "libcurl@8.17.0")
    assert libraries == ["libcurl@8.15.0", "libcurl@8.16.0", "libcurl@8.17.0"]


def test_only_those_that_are_built() -> None:
    pretend_built("8.19.0", "8.4.0")
    names, _ = versions_between("curl@8.17.0", "curl@8.22.0", "built")
    assert names == ["curl@8.17.0", "curl@8.19.0", "curl@8.22.0"], "the ends always"


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("curl@8.17.0", "curl@8.17.0", "cannot be both good and bad"),
        ("curl@8.7.1", "curl@8.17.0", "in no registry"),
        ("curl@8.16.0", "curl@8.17.0", "only as a library"),
        ("curl@8.15.0", "libcurl@8.17.0", "versions of two clients"),
        ("curl@debian", "curl@8.17.0", "is not one of the known versions"),
        ("8.4.0", "curl@8.17.0", "names no version"),
    ],
)
def test_an_end_without_a_place_is_one_line(good: str, bad: str, problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem):
        versions_between(good, bad)


# -- a try ----------------------------------------------------------------------------------------------------------


class Runs:
    """Instead of Session: what a cell comes to, by the client's name; `events` has what was opened and closed."""

    def __init__(self, make_cell: MakeCell, verdicts: dict[str, Any]) -> None:
        self.make_cell, self.verdicts = make_cell, verdicts
        self.events: list[str] = []
        self.looks: list[LookPlan] = []

    def __call__(self, run: Any, options: Options, **_: object) -> Any:
        self.looks.append(options.looks)
        results: list[CellResult] = []

        def run_cell(cell: Cell) -> CellResult:
            came = self.verdicts[cell.client.name]
            if isinstance(came, BaseException):
                raise came
            made = self.make_cell()
            results.append(made.model_copy(update={"verdict": made.verdict.model_copy(update={"name": came}), "run": run.name}))
            run.write_cell(results[-1])
            return results[-1]

        made = ExitStack()
        made.callback(self.events.append, "closed")
        self.events.append("open")
        made.results, made.run_cell = results, run_cell  # type: ignore[attr-defined]
        return made


@pytest.fixture
def run_by(make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Runs, Callable[..., Answer]]]:
    def make(ready: Callable[[str], str] = str, **verdicts: Any) -> tuple[Runs, Callable[..., Answer]]:
        runs = Runs(make_cell, verdicts)
        monkeypatch.setattr(search, "Session", runs)
        return runs, judge_by_running(find_scenario(CELL), ready, Options())

    return make


def left(places: Path) -> list[Path]:
    return [path for path in places.glob("results/*") if not path.is_symlink()]


def test_a_try_is_a_run_of_its_own_by_the_plan_that_is_due(run_by: Callable[..., Any], places: Path) -> None:
    runs, judge = run_by(ferry="FAIL")
    twice = [judge("ferry", LookPlan(looks=(5, 10))), judge("ferry", LookPlan(looks=(20,)))]
    assert [each.judged.name for each in twice] == ["FAIL", "FAIL"]
    assert twice[0].judged.cause != "transfer"
    assert twice[0].judged.reason.endswith(" %")
    assert {each.run for each in twice} == {path.name for path in left(places)}
    assert runs.looks == [LookPlan(looks=(5, 10)), LookPlan(looks=(20,))]


@pytest.mark.parametrize(
    ("problem", "hopeless"),
    [
        (LabFault("no network"), False),
        (UsageProblem("there is no curl"), True),
        (NotSupported("without sftp"), True),
    ],
)
def test_what_does_not_run_cannot_be_judged_and_leaves_nothing(
    run_by: Callable[..., Any], places: Path, problem: Exception, hopeless: bool
) -> None:
    runs, judge = run_by(ferry=problem)
    came = judge("ferry", LookPlan())
    assert (came.judged.name, came.judged.reason, came.judged.cause == "setup") == ("INVALID", str(problem), hopeless)
    assert runs.events == ["open", "closed"]
    assert left(places) == []


def test_what_cannot_be_made_ready_is_never_run(run_by: Callable[..., Any]) -> None:
    def broken(_: str) -> str:
        raise LabFault("curl 8.9.0 cannot be built: no header")

    runs, judge = run_by(broken, ferry="PASS")
    came = judge("ferry", LookPlan())
    assert (came.judged.name, came.judged.cause) == ("INVALID", "setup")
    assert runs.events == []


def test_an_interrupted_try_closes_its_network_and_leaves_no_run(run_by: Callable[..., Any], places: Path) -> None:
    runs, judge = run_by(ferry=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        walk(["ferry", "curl"], judge, silent)
    assert runs.events == ["open", "closed"]
    assert left(places) == []


def test_a_failed_transfer_is_distinguished(
    make_cell: MakeCell, run_by: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, judge = run_by(ferry="FAIL")
    failed = make_cell().model_copy(update={"verdict": Verdict(name="FAIL", reason="transfer 1 of 1 failed: exit code 2")})
    runs.make_cell = lambda: failed
    came = judge("ferry", LookPlan())
    assert came.judged.cause == "transfer"
    assert "exit code 2" in came.judged.reason


# -- the command ----------------------------------------------------------------------------------------------------


def lab_bisect(*words: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def curl_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every version runs; those from 8.19.0 on are bad."""

    def run(trial: search.Trial) -> Answer:
        name: VerdictName = "FAIL" if trial.cell.client.name > "curl@8.18.0" else "PASS"
        return step_answer(trial.cell.client.name, name, "+99.41 %").model_copy(update={"run": "run-1"})

    monkeypatch.setattr(search.Trial, "run", run)
    pretend_built(*(f"8.{minor}.0" for minor in (17, 18, 19, 20, 21, 22)))


@pytest.mark.usefixtures("curl_at")
def test_a_bare_cell_is_searched_without_any_expectation_written_for_it() -> None:
    done = lab_bisect(CELL, "--good", "curl@8.17.0", "--bad", "curl@8.22.0", "--no-build")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "6 versions, curl@8.17.0 (good) to curl@8.22.0 (bad)"
    assert lines[1] == "1. curl@8.17.0 (the good end): PASS, +99.41 % [run-1]"
    assert lines[2] == "2. curl@8.22.0 (the bad end): FAIL, +99.41 % [run-1]"
    assert lines[-2].startswith("first bad curl@8.19.0, last good curl@8.18.0 (")


@pytest.mark.usefixtures("curl_at")
def test_json_is_all_there_is_on_stdout() -> None:
    done = lab_bisect(CELL, "--good", "curl@8.17.0", "--bad", "curl@8.22.0", "--json")
    found = json.loads(done.stdout)
    assert (found["kind"], found["last_good"], found["suspects"]) == ("found", "curl@8.18.0", ["curl@8.19.0"])
    assert found["exit_code"] == done.exit_code == 0
    assert [step["facts"]["number"] for step in found["steps"]] == [str(n + 1) for n in range(len(found["steps"]))]
    assert "1. curl@8.17.0" in done.stderr


@pytest.mark.usefixtures("curl_at")
def test_ends_the_wrong_way_round_are_refused() -> None:
    done = lab_bisect(CELL, "--good", "curl@8.22.0", "--bad", "curl@8.17.0", "--no-build")
    assert done.exit_code == 2
    assert "curl@8.22.0 was given as good, but it is FAIL" in done.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--good", "curl@8.17.0", "--bad", "curl@8.22.0", "--no-build"], "lab client build curl@8.17.0"),
        (["--good", "curl@8.17.0", "--bad", "curl@8.22.0", "--program", "src/curl"], "belong together"),
        (["--good", "a", "--bad", "b", "--build-command", "make"], "belong together"),
        (["--good", "ferry", "--bad", "curl@8.22.0"], "names no version"),
    ],
)
def test_bad_input_is_one_line_and_nothing_runs(words: list[str], problem: str, places: Path) -> None:
    done = lab_bisect(CELL, *words)
    assert isinstance(done.exception, UsageProblem)
    assert problem in str(done.exception)
    assert left(places) == []


def test_a_found_answer_names_its_end(places: Path) -> None:
    assert isinstance(walk(V, said(1), silent), Found)
    assert walk(V, said(1), silent).headline == "first bad v1, last good v0"
    assert left(places) == []
