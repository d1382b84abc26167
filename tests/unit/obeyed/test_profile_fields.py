"""Every field of a profile has an effect on what `lab run @PROFILE` does, here and on workers."""

from __future__ import annotations

import copy
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer

from lab.cli import run as command
from lab.model.errors import UsageProblem
from lab.robot.profiles import Profile
from tests.unit.obeyed.fields import Leaf, leaves

WORDS = ("description",)
BASE: dict[str, Any] = {"name": "mine", "description": "A test.", "parts": [{"suites": ["throttle"], "include": ["demo"]}]}
OTHER: dict[str, Any] = {
    "name": "other",
    "keep": 3,
    "clock": "virtual",
    "junit_no_verdict": "error",
    "clients": ["wget"],
    "parts.suites": ["faults"],
    "parts.clients": ["wget"],
    "parts.include": ["mail"],
    "parts.exclude": ["demo"],
    "parts.tests": ["*H1 Get*"],
    "parts.variables": {"CLIENT": "wget"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suites" / "profiles").mkdir(parents=True)
    monkeypatch.setattr("lab.run.settings.provide", lambda _: None)
    return tmp_path


def ran(folder: Path, document: dict[str, Any], patch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    """What the command hands on: the questions, the clock, the reports, the run's name, how many runs are kept."""
    (folder / "suites" / "profiles" / f"{document['name']}.yaml").write_text(json.dumps(document))
    found: dict[str, Any] = {}

    def suites(_: object, questions: Any, chosen: Any, *__: object, name: str, reports: Any, **more: Any) -> Any:
        found.update(
            ids=[each.id for each in questions], clock=chosen.clock, name=name, reports=reports.keywords, crew=more["crew"]
        )
        return MagicMock(results=[], answers=[], skipped={}, recorded=MagicMock(exit_code=0))

    patch.setattr("lab.robot.suite.run_suites", suites)
    patch.setattr("reports.text.render_run", lambda *_, **__: None)
    patch.setattr("lab.store.retention.keep_newest", lambda _, keep, __: found.update(keep=keep) or ())
    patch.setattr("lab.run.workers.crew.crew_at", lambda address, *_, **__: nullcontext(address))
    with pytest.raises(typer.Exit):
        command.run([f"@{document['name']}"], **options)
    return found


@pytest.mark.parametrize("workers", [None, "tcp://there"], ids=["here", "workers"])
@pytest.mark.parametrize("leaf", [*leaves(Profile)], ids=lambda leaf: leaf.path)
def test_a_field_has_an_effect(leaf: Leaf, workers: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if leaf.path in WORDS:
        return
    given = copy.deepcopy(BASE)
    *above, name = leaf.path.split(".")
    place = given["parts"][0] if above else given
    if leaf.path in ("parts.suites", "parts.exclude", "parts.tests"):
        place.pop("include")
    without = copy.deepcopy(given)
    place[name] = OTHER[leaf.path]
    one, other = (ran(folder, document, monkeypatch, workers=workers) for document in (without, given))
    assert one["crew"] == other["crew"] == workers
    assert one != other, f"nothing obeys {leaf.path}"


def test_a_variable_that_no_suite_has_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = copy.deepcopy(BASE)
    given["parts"][0]["variables"] = {"CLIENTT": "wget"}
    words = r"throttle uses no variable \$\{CLIENTT\}; did you mean 'CLIENT'"
    with pytest.raises(UsageProblem, match=words):
        ran(folder, given, monkeypatch)
    with pytest.raises(UsageProblem, match=words):
        command.run(["throttle"], variable=["CLIENTT:wget"], list_only=True)
    with pytest.raises(UsageProblem, match="uses no variable"):
        ran(folder, BASE, monkeypatch, variable=["SEED_S:1"])
    assert ran(folder, BASE, monkeypatch, variable=["client:wget"])["name"] == "profile-mine"


@pytest.mark.parametrize("option", ["include", "exclude", "test", "variable"])
def test_a_cell_has_no_rows_to_choose_from(option: str) -> None:
    with pytest.raises(UsageProblem, match="is for suites, and a cell has no rows"):
        command.run(["curl--dsl-20--http1-get-1MB"], **{option: ["a:b"]}, list_only=True)
