"""Every setting, keyword and argument of a suite's file is obeyed, or refused in one line with its place, by every front end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from robot.parsing.lexer import settings

from lab.cli import qualify, repro, run
from lab.model.errors import UsageProblem
from lab.model.paths import shipped_suites_dir
from lab.robot.bugs import list_scenarios
from lab.robot.checked import RUN_ONLY, check_suite
from lab.robot.suite import read_suites
from lab.robot.tables import good_rows, questions_of

SETTINGS = "*** Settings ***\nLibrary    lab.robot.library.LabLibrary\n"
CELL = "    Judge Cell    curl--dsl-50--http1-get-1MB-at-1MBps\n"
BUG = "    Reproduce Bug    it    dsl-50    http1-get-1MB-at-1MBps    limit    curl    none    none\n"
RELEASE = "    Judge Release Row    dsl-50--http1-get-1MB-at-1MBps    client=curl    why=it is a test\n"
FRONT_ENDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "run": (CELL, lambda suite: run.run([suite], list_only=True)),
    "repro": (BUG, lambda suite: repro.repro([suite])),
    "qualify": (RELEASE, lambda suite: qualify.qualify("curl", suite=suite, list_set=True)),
}
READERS = {"repro": "lab repro", "qualify": "lab qualify"}
MISTAKES = {
    "setting": (SETTINGS + "Test Templat    X\n\n*** Test Cases ***\nRow\n{row}", 3, "Non-existing setting 'Test Templat'"),
    "section": (SETTINGS + "\n*** Variabels ***\n${{A}}    1\n\n*** Test Cases ***\nRow\n{row}", 4, "Variabels"),
    "setting of a row": (SETTINGS + "\n*** Test Cases ***\nRow\n    [Tgs]    a\n{row}", 6, "Non-existing setting 'Tgs'"),
    "keyword": (SETTINGS + "\n*** Test Cases ***\nRow\n{row}Other\n    Judge Cel    a\n", 7, "No keyword with name 'Judge Cel'"),
    "argument": (SETTINGS + "\n*** Test Cases ***\nRow\n{row}Other\n    Judge Cell\n", 7, "expected 1 non-named argument"),
    "name of an argument": (
        SETTINGS + "\n*** Test Cases ***\nRow\n{row}Other\n    Judge Bound    topologie=dsl-50\n",
        7,
        "expected 0 non-named arguments, got 1",
    ),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lab.run.settings.provide", lambda _: None)


def written(folder: Path, text: str) -> str:
    path = folder / "mine.robot"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("front_end", FRONT_ENDS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(mistake: str, front_end: str, tmp_path: Path) -> None:
    (row, act), (text, line, words) = FRONT_ENDS[front_end], MISTAKES[mistake]
    suite = written(tmp_path, text.format(row=row))
    with pytest.raises(UsageProblem) as caught:
        act(suite)
    message = str(caught.value)
    assert message.startswith(f"{suite}:{line}: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("row", ["    Judge Cell    a--b--c\n", "    Judge Bound    size=lots    topology=dsl-50    kind=fill\n"])
def test_a_value_that_makes_no_question_is_one_line_with_its_place(row: str, tmp_path: Path) -> None:
    """Other rows of the suite would have passed without it."""
    suite = written(tmp_path, f"{SETTINGS}\n*** Test Cases ***\nRow\n{CELL}Other\n{row}")
    with pytest.raises(UsageProblem) as caught:
        run.run([suite], list_only=True)
    assert str(caught.value).startswith(f"{suite}:7: Other: ")
    assert "\n" not in str(caught.value)


def run_only(place: str) -> str:
    name = place.strip("[]")
    value = "Log    x"
    if place.startswith("["):
        return f"{SETTINGS}\n*** Test Cases ***\nRow\n    {place}    {value}\n"
    return f"{SETTINGS}{name}    {value}\n\n*** Test Cases ***\nRow\n"


@pytest.mark.parametrize("place", RUN_ONLY.values())
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_what_only_a_run_does_is_refused_where_rows_are_read(front_end: str, place: str, tmp_path: Path) -> None:
    row, act = FRONT_ENDS[front_end]
    suite = written(tmp_path, run_only(place) + row)
    if front_end == "run":
        act(suite)
        return
    with pytest.raises(UsageProblem, match=rf"{place.strip('[]')}\]? has no effect in {READERS[front_end]}"):
        act(suite)


def test_every_setting_of_robot_is_decided() -> None:
    """A version of Robot with another setting makes this red until its front ends are decided."""
    words = {"Documentation", "Metadata", "Name", "Suite Name", "Library", "Resource", "Variables", "Keyword Tags"}
    rows = {"Test Template", "Test Tags", "Force Tags", "Default Tags", "Template", "Tags"}
    limits = {"Test Timeout", "Timeout"}
    run_needed = {name.strip("[]") for name in RUN_ONLY.values()}
    known = {*settings.SuiteFileSettings.names, *settings.TestCaseSettings.names}
    assert known <= words | rows | limits | run_needed | {"Documentation"}


def test_a_change_of_the_file_is_seen(tmp_path: Path) -> None:
    suite = Path(written(tmp_path, f"{SETTINGS}\n*** Test Cases ***\nRow\n{CELL}"))
    check_suite(suite)
    written(tmp_path, f"{SETTINGS}\n*** Test Cases ***\nRow\n    Judge Cel\n")
    with pytest.raises(UsageProblem):
        check_suite(suite)


def test_the_labs_own_suites_have_no_mistake() -> None:
    for path in sorted(shipped_suites_dir().glob("*.robot")):
        good_rows(read_suites([path]))
    assert questions_of(read_suites([shipped_suites_dir() / "throttle.robot"]))
    assert list_scenarios()
