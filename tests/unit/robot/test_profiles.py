"""Profiles: several suites as one run, from YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.clients import versions
from lab.clients.registry import list_clients
from lab.model.errors import UsageProblem
from lab.robot.profiles import list_profiles, load_profile, read_profile
from lab.robot.suite import Choice, read_suites, suite_file
from lab.robot.tables import questions_of
from lab.store.retention import keep_newest
from lab.store.run_dir import RunDir


def write(folder: Path, text: str) -> None:
    (folder / "suites" / "profiles").mkdir(parents=True, exist_ok=True)
    (folder / "suites" / "profiles" / "mine.yaml").write_text(text)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["quick", "nightly", "release"])
def test_a_shipped_profile_asks_something(name: str) -> None:
    assert name in list_profiles()
    assert questions_of(read_profile(load_profile(name)))


def test_a_part_has_its_own_rows_clients_and_variables(here: Path) -> None:
    write(
        here,
        "name: mine\ndescription: Two parts.\nparts:\n"
        "  - {suites: [throttle], include: [demo], clients: [curl, wget]}\n"
        '  - {suites: [faults], tests: ["Connection Reset, HTTP Down"], variables: {CLIENT: wget}}\n',
    )
    suite = read_profile(load_profile("mine"))
    names = [question.id for question in questions_of(suite)]
    assert {name.partition("--")[0] for name in names if not name.endswith("--no-wrong-file-rst")} == {"curl", "wget"}
    assert [name.partition("--")[0] for name in names if name.endswith("--no-wrong-file-rst")] == ["wget"]


def test_a_part_that_names_no_clients_has_the_profiles(here: Path) -> None:
    write(
        here,
        "name: mine\ndescription: Two parts.\nclients: [wget, curl]\nparts:\n"
        "  - {suites: [throttle], include: [demo]}\n  - {suites: [throttle], include: [demo], clients: [lftp]}\n",
    )
    assert {question.id.partition("--")[0] for question in questions_of(read_profile(load_profile("mine")))} == {
        "wget",
        "curl",
        "lftp",
    }


def test_the_atlas_names_clients_that_are_known_and_versions_that_can_be_built() -> None:
    atlas = load_profile("atlas")
    assert len(atlas.versions) > 20
    assert all(versions.split(spec) for spec in atlas.versions)
    assert {client for client in atlas.clients if "@" not in client} <= set(list_clients())
    assert all(suite_file(name).is_file() for part in atlas.parts for name in part.suites)


def test_given_clients_replace_those_of_every_part(here: Path) -> None:
    write(
        here,
        "name: mine\ndescription: One part.\nparts: [{suites: [throttle, file-sets], include: [demo, ci], clients: [curl]}]\n",
    )
    names = {question.id.partition("--")[0] for question in questions_of(read_profile(load_profile("mine"), ["ferry"]))}
    assert names == {"ferry"}


def test_a_choice_leaves_some_rows_and_says_where_it_leaves_none(here: Path) -> None:
    write(here, "name: mine\ndescription: Two parts.\nparts: [{suites: [throttle]}, {suites: [faults]}]\n")
    chosen = read_profile(load_profile("mine"), choice=Choice(include=["demo"]))
    assert chosen.test_count == read_suites([_shipped("throttle")], choice=Choice(include=["demo"])).test_count
    with pytest.raises(UsageProblem, match="no test of profile mine matches 'no-such-tag'"):
        read_profile(load_profile("mine"), choice=Choice(include=["no-such-tag"]))


def _shipped(name: str) -> Path:
    from lab.robot.suite import suite_file

    return suite_file(name)


def test_suites_of_two_clients_are_grouped_by_suite() -> None:
    suite = read_suites([_shipped("throttle"), _shipped("file-sets")], ["curl", "ferry"])
    assert [[each.name for each in group.suites] for group in suite.suites] == [
        ["Throttle, curl", "Throttle, ferry"],
        ["File-Sets, curl", "File-Sets, ferry"],
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: mine\ndescription: x\nparts: []\n", "parts"),
        ("name: other\ndescription: x\nparts: [{suites: [throttle]}]\n", "is not the name of the file"),
        (
            "name: mine\ndescription: x\nkept: 3\nparts: [{suites: [throttle]}]\n",
            "mine.yaml:3: kept: unknown field; did you mean 'keep'",
        ),
        ("name: mine\ndescription: x\nkeep: 0\nparts: [{suites: [throttle]}]\n", "mine.yaml:3: keep"),
    ],
)
def test_a_wrong_profile_is_one_line(here: Path, text: str, said: str) -> None:
    write(here, text)
    with pytest.raises(UsageProblem) as caught:
        load_profile("mine")
    assert said in str(caught.value)


def test_an_unknown_profile_has_a_suggestion() -> None:
    with pytest.raises(UsageProblem, match="did you mean 'nightly'"):
        load_profile("nigthly")


def test_only_older_runs_of_the_same_name_are_removed(here: Path) -> None:
    names = ["20261101T000000-profile-mine-0001", "20261102T000000-profile-mine-0002", "20261103T000000-profile-mine-0003"]
    others = ["20261001T000000-profile-mine-too-0001", "20261001T000000-mine-0001", "20261001T000000-throttle-0001", "notes"]
    for name in (*names, *others):
        (here / name / "cells").mkdir(parents=True)
    (here / "latest").symlink_to(names[-1])
    assert keep_newest("profile-mine", 2, here) == names[:1]
    assert sorted(path.name for path in here.iterdir()) == sorted([*names[1:], *others, "latest"])
    assert RunDir.open(here / "latest").name == names[-1]
    assert keep_newest("profile-mine", 2, here) == []
