"""Plans of `go test`, `cargo test`, `mvn test` and `npm test`; the tools are scripts that note how they are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.model.errors import UsageProblem
from lab.run.project import cargo, go
from lab.run.project.plan import PROGRAMS, BuildFailed, Outside, Plan
from lab.run.project.tools import plan_for

GO = """#!/bin/sh
echo "$@" >>calls
case "$1" in
list) printf 'x.org/a\\t/src/a\\t2\\t0\\nx.org/empty\\t/src/empty\\t0\\t0\\nx.org/b\\t/src/b\\t0\\t1\\n';;
esac
"""
BROKEN = "#!/bin/sh\necho does not compile >&2\nexit 101\n"
NOTES = '#!/bin/sh\necho "$@" >>calls\n'


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Outside(tmp_path, scratch, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")})


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str, str], str]:
    """Makes a program; its path."""

    def made(name: str, text: str) -> str:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    return made


def calls(outside: Outside) -> list[str]:
    return (outside.folder / "calls").read_text().splitlines()


def test_any_other_command_runs_as_it_is(outside: Outside) -> None:
    for words in (["/usr/bin/make", "test"], ["/x/go", "vet"], ["/x/mvn", "clean", "test"], ["/x/go"]):
        plan = plan_for(words, outside)
        assert [step.argv for step in plan.steps] == [tuple(words)]
        assert plan.steps[0].folder == outside.folder


def test_go_compiles_each_package_that_has_tests_and_runs_it_in_its_folder(outside: Outside, tool: Callable[..., str]) -> None:
    words = ["test", "-tags", "slow", "-race", "./...", "-run=One", "-v", "-args", "-mine", "1"]
    plan = plan_for([tool("go", GO), *words], outside)
    assert [line.partition(" -o ")[0] for line in calls(outside)[1:]] == ["test -c -tags=slow -race"] * 2
    assert calls(outside)[0].startswith("list -tags=slow -f ")
    assert calls(outside)[0].endswith(" ./...")
    flags = ("-test.paniconexit0=true", "-test.timeout=10m0s", "-test.run=One", "-test.v=true", "-mine", "1")
    assert [(step.argv, step.folder) for step in plan.steps] == [
        ((f"{PROGRAMS}/0-a.test", *flags), Path("/src/a")),
        ((f"{PROGRAMS}/1-b.test", *flags), Path("/src/b")),
    ]
    assert plan.notes == ("x.org/empty: no test files",)
    assert plan.programs == outside.scratch
    assert not plan.stops


def test_a_profile_of_go_lands_in_the_folder_of_the_command() -> None:
    found = go.split(["-coverprofile=c.out", "-timeout", "5s"])
    assert found.build == ["-cover"]
    flags = go.test_flags(found, Path("/here"))
    assert flags == ["-test.paniconexit0=true", "-test.timeout=5s", "-test.coverprofile=c.out", "-test.outputdir=/here"]


@pytest.mark.parametrize("words", [["-json"], ["-exec", "x"], ["-c"], ["-update"], ["-run"], ["-C", "x"]])
def test_a_flag_that_go_would_lose_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageProblem, match=words[0]):
        go.split(words)


def test_a_profile_of_several_packages_is_refused(outside: Outside, tool: Callable[..., str]) -> None:
    with pytest.raises(UsageProblem, match="coverprofile"):
        plan_for([tool("go", GO), "test", "-coverprofile=c.out", "./..."], outside)


def artifact(name: str, kind: str, folder: str, **changes: object) -> str:
    facts = {
        "reason": "compiler-artifact",
        "executable": f"{folder}/target/debug/deps/{name}-1",
        "manifest_path": f"{folder}/Cargo.toml",
        "profile": {"test": True},
        "target": {"name": name, "kind": [kind]},
    }
    return json.dumps({**facts, **changes})


def test_cargos_programs_run_in_their_packages_folders_in_an_order_of_their_own(
    outside: Outside, tool: Callable[..., str]
) -> None:
    lines = [
        artifact("late", "test", "/w/a"),
        artifact("b", "lib", "/w/b"),
        "   Compiling a",
        artifact("a", "lib", "/w/a"),
        artifact("dependency", "lib", "/w/a", profile={"test": False}),
        artifact("script", "custom-build", "/w/a", executable=None),
        '{"reason":"build-finished"}',
    ]
    printed = "\n".join(lines)
    program = tool("cargo", f"{NOTES}cat <<'END'\n{printed}\nEND\n")
    plan = plan_for([program, "test", "-p", "a", "-q", "filter", "--no-fail-fast", "--", "--nocapture"], outside)
    assert calls(outside) == ["test --no-run --message-format=json-render-diagnostics -p a -q"]
    assert [step.name for step in plan.steps] == ["a (lib)", "late (test)", "b (lib)"]
    words = ("--quiet", "filter", "--nocapture")
    assert plan.steps[0].argv == ("/w/a/target/debug/deps/a-1", *words)
    assert plan.steps[2].folder == Path("/w/b")
    assert plan.steps[2].environment["CARGO_MANIFEST_DIR"] == "/w/b"
    assert not plan.stops
    assert plan.notes


@pytest.mark.parametrize("words", [["--doc"], ["--no-run"], ["--message-format=json"], ["-p"], ["--nocapture"]])
def test_a_flag_that_cargo_would_lose_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageProblem, match=words[0]):
        cargo.split(words)


def test_cargo_stops_at_the_first_program_that_fails(outside: Outside, tool: Callable[..., str]) -> None:
    assert plan_for([tool("cargo", NOTES), "test"], outside).stops


def test_what_does_not_compile_has_the_compilers_exit_code(outside: Outside, tool: Callable[..., str]) -> None:
    with pytest.raises(BuildFailed) as caught:
        plan_for([tool("cargo", BROKEN), "test"], outside)
    assert caught.value.code == 101


def test_an_error_of_maven_is_shown(outside: Outside, tool: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    program = tool("mvn", "#!/bin/sh\necho '[ERROR] A.java:[3,7]'\nexit 1\n")
    with pytest.raises(BuildFailed):
        plan_for([program, "test"], outside)
    assert "A.java:[3,7]" in capfd.readouterr().err


def test_maven_compiles_outside_and_finds_its_repository_inside(outside: Outside, tool: Callable[..., str]) -> None:
    repository = outside.folder / "home" / ".m2" / "repository"
    repository.mkdir(parents=True)
    program = tool("mvn", NOTES)
    plan = plan_for([program, "test", "-Dtest=A"], outside)
    assert calls(outside) == ["-o -B -q test-compile -Dtest=A"]
    assert plan.steps[0].argv == (program, "-o", "-B", "test", "-Dtest=A", f"-Dmaven.repo.local={repository}")
    assert plan.writable == (repository,)


def npm(outside: Outside, scripts: dict[str, str], *words: str) -> Plan:
    (outside.folder / "package.json").write_text(json.dumps({"name": "p", "version": "1.2.3", "scripts": scripts}))
    (outside.folder / "node_modules" / ".bin").mkdir(parents=True, exist_ok=True)
    return plan_for(["/usr/bin/npm", "test", *words], outside)


def test_npms_scripts_run_without_npm(outside: Outside) -> None:
    plan = npm(outside, {"pretest": "lint", "test": "jest", "build": "tsc"}, "--", "--ci", "a b")
    assert [step.argv[-1] for step in plan.steps] == ["lint", "jest --ci 'a b'"]
    variables = plan.steps[1].environment
    assert variables["PATH"].startswith(f"{outside.folder}/node_modules/.bin:")
    assert (variables["npm_lifecycle_event"], variables["npm_package_version"]) == ("test", "1.2.3")
    assert plan.stops


def test_a_package_without_tests_or_a_flag_of_npms_is_one_line(outside: Outside) -> None:
    with pytest.raises(UsageProblem, match="no script called test"):
        npm(outside, {})
    with pytest.raises(UsageProblem, match="--workspaces"):
        npm(outside, {"test": "jest"}, "--workspaces")
