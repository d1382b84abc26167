"""The walk of a bisection with made-up verdicts: what it says in the end, and that nothing is left when it breaks off."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.assets import curl_build, store
from lab.assets.curl_versions import VERSIONS
from lab.cli import bisect as command
from lab.errors import LabFault, NotSupported, UsageProblem
from lab.judge.tolerance import LookPlan
from lab.result.models import CellResult, Verdict, VerdictName
from lab.runner import search
from lab.runner.search import Found, Judged, Step, judge_by_running, versions_between, walk
from lab.runner.session import Options
from lab.spec.models import Cell
from lab.spec.scenario import find_scenario

MakeCell = Callable[..., CellResult]
CELL = "curl--dsl-50--http1-put-1999999B-at-1MBps"
V = [f"v{index}" for index in range(8)]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THROUGHLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("THROUGHLINE_RESULTS", str(tmp_path / "results"))
    return tmp_path


def pretend_built(*versions: str) -> None:
    for version in versions:
        directory = curl_build.place(version)
        directory.mkdir(parents=True)
        (directory / curl_build.PROGRAM).write_text("curl")
        store.write_manifest(directory, {}, store.digests(directory))


def judged(verdict: VerdictName, **more: Any) -> Judged:
    return Judged(verdict, "+1 %", **more)


def said(first_bad: int, **odd: Judged) -> Callable[[str, LookPlan], Judged]:
    return lambda name, _: odd.get(name) or judged("FAIL" if int(name[1:]) >= first_bad else "PASS")


def silent(_: Step) -> None:
    pass


# -- the walk -------------------------------------------------------------------------------------------------------


def test_every_step_is_told_as_it_is_made() -> None:
    told: list[Step] = []
    found = walk(V, said(5), told.append)
    assert tuple(told) == found.steps
    assert [step.candidate for step in told[:2]] == ["v0", "v7"]
    assert str(told[0]) == "1. v0 (the good end): PASS, +1 %"
    assert found.exit_code == 0
    assert found.headline == "first bad v5, last good v4"


def test_of_a_fix_the_words_turn_round() -> None:
    found = walk(V, said(5), silent, fix=True)
    assert found.headline == "fixed: first good v4, last bad v5"


def test_what_cannot_be_tried_is_tried_once_and_told() -> None:
    hopeless = Judged("INVALID", "curl 8.9.0 cannot be built: no such header", hopeless=True)
    found = walk(V, said(4, v3=hopeless), silent)
    assert [step.candidate for step in found.steps].count("v3") == 1
    assert found.unjudged == ["v3: curl 8.9.0 cannot be built: no such header"]
    assert (found.answer.kind, found.answer.suspects, found.exit_code) == ("range", ("v3", "v4"), 3)
    assert found.headline == "the first bad one is among v3, v4; v2 is good"


def test_a_lab_fault_is_tried_again() -> None:
    found = walk(V, said(4, v3=judged("INVALID")), silent)
    assert [step.candidate for step in found.steps].count("v3") == 3
    assert found.unjudged == []


def test_ends_that_are_not_what_was_said_refuse_the_search() -> None:
    found = walk(V, said(8), silent)
    assert (found.answer.kind, found.exit_code) == ("refused", 2)
    assert "v7 was said to be bad" in found.headline
    assert walk(V, said(0), silent).exit_code == 2


def test_an_end_that_cannot_be_judged_ends_it() -> None:
    found = walk(V, said(4, v0=Judged("INVALID", "not built", hopeless=True)), silent)
    assert (found.answer.kind, found.exit_code, len(found.steps)) == ("unknown", 3, 1)
    assert found.headline.startswith("nothing can be said: ")


def test_a_candidate_that_breaks_is_not_one_that_misses_its_limit() -> None:
    """Without this, the first one without an option of the command line would be the first bad one."""
    found = walk(V, said(5, v3=judged("FAIL", failed=True)), silent)
    assert found.answer.suspects == ("v5",)
    (other,) = {step.judged.figure for step in found.steps if step.candidate == "v3"}
    assert other == "it FAILs in another way than v7: +1 %"


def test_where_the_bug_is_a_transfer_that_fails_a_missed_limit_is_the_other_one() -> None:
    broken = {name: judged("FAIL", failed=True) for name in V[5:]}
    found = walk(V, said(3, **broken), silent)
    assert found.answer.last_good == "v2"
    assert found.answer.suspects[-1] == "v5"
    assert found.answer.kind == "range"


@pytest.mark.parametrize("after", range(4))
def test_an_interrupted_walk_stops_at_once(after: int) -> None:
    told: list[Step] = []

    def judge(name: str, plan: LookPlan) -> Judged:
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
    everything, _ = versions_between("curl@7.68.0", "curl@8.23.0")
    assert everything == [f"curl@{version}" for version in VERSIONS]


def test_only_those_that_are_built() -> None:
    pretend_built("8.19.0", "8.4.0")
    names, _ = versions_between("curl@8.17.0", "curl@8.22.0", "built")
    assert names == ["curl@8.17.0", "curl@8.19.0", "curl@8.22.0"], "the ends always"


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("curl@8.17.0", "curl@8.17.0", "cannot be both good and bad"),
        ("curl@8.7.1", "curl@8.17.0", "in no registry"),
        ("curl@debian", "curl@8.17.0", "has no place among the versions"),
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
def run_by(make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Runs, Callable[..., Judged]]]:
    def make(ready: Callable[[str], str] = str, **verdicts: Any) -> tuple[Runs, Callable[..., Judged]]:
        runs = Runs(make_cell, verdicts)
        monkeypatch.setattr(search, "Session", runs)
        return runs, judge_by_running(find_scenario(CELL), ready, Options())

    return make


def left(places: Path) -> list[Path]:
    return [path for path in places.glob("results/*") if not path.is_symlink()]


def test_a_try_is_a_run_of_its_own_by_the_plan_that_is_due(run_by: Callable[..., Any], places: Path) -> None:
    runs, judge = run_by(ferry="FAIL")
    twice = [judge("ferry", LookPlan(looks=(5, 10))), judge("ferry", LookPlan(looks=(20,)))]
    assert [each.verdict for each in twice] == ["FAIL", "FAIL"]
    assert not twice[0].failed
    assert twice[0].figure.endswith(" %")
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
    assert (came.verdict, came.figure, came.hopeless) == ("INVALID", str(problem), hopeless)
    assert runs.events == ["open", "closed"]
    assert left(places) == []


def test_what_cannot_be_made_ready_is_never_run(run_by: Callable[..., Any]) -> None:
    def broken(_: str) -> str:
        raise LabFault("curl 8.9.0 cannot be built: no header")

    runs, judge = run_by(broken, ferry="PASS")
    came = judge("ferry", LookPlan())
    assert (came.verdict, came.hopeless) == ("INVALID", True)
    assert runs.events == []


def test_an_interrupted_try_closes_its_network_and_leaves_no_run(run_by: Callable[..., Any], places: Path) -> None:
    runs, judge = run_by(ferry=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        walk(["ferry", "curl"], judge, silent)
    assert runs.events == ["open", "closed"]
    assert left(places) == []


def test_a_failed_transfer_is_told_apart(
    make_cell: MakeCell, run_by: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, judge = run_by(ferry="FAIL")
    failed = make_cell().model_copy(update={"verdict": Verdict(name="FAIL", reason="transfer 1 of 1 failed: exit code 2")})
    runs.make_cell = lambda: failed
    came = judge("ferry", LookPlan())
    assert came.failed
    assert "exit code 2" in came.figure


# -- the command ----------------------------------------------------------------------------------------------------


def lab_bisect(*words: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def curl_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every version runs; those from 8.19.0 on are bad."""

    def run(trial: search.Trial) -> Judged:
        return Judged("FAIL" if trial.cell.client.name > "curl@8.18.0" else "PASS", "+99.41 %", run="run-1")

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
    assert [step["number"] for step in found["steps"]] == [*range(1, len(found["steps"]) + 1)]
    assert "1. curl@8.17.0" in done.stderr


@pytest.mark.usefixtures("curl_at")
def test_ends_the_wrong_way_round_are_refused() -> None:
    done = lab_bisect(CELL, "--good", "curl@8.22.0", "--bad", "curl@8.17.0", "--no-build")
    assert done.exit_code == 2
    assert "curl@8.22.0 was said to be good, and here it is FAIL" in done.stdout


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
