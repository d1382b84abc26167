"""No page and no summary shows a path of a machine: a home, a checkout, a cache, a folder for temporary files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from reports.build import run_page
from reports.junit import junit_xml
from reports.machine import without_places
from reports.markdown import markdown_summary
from reports.studies.places import studies, studies_folder

PRIVATE = re.compile(r"(?<![\w.:/-])/(?:home|root|work|tmp|var/tmp|Users|mnt|media|srv)/\S*")
PAGES = sorted(study.page for study in studies(studies_folder()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_study(page: Path) -> None:
    assert PRIVATE.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("home", ["/home/ann", "/root", "/var/lib/agent", "/work/main", "/tmp/pytest-1"])
def test_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_cell: Callable[..., CellResult], record: RunRecord, home: str
) -> None:
    """Whatever brings the path in: the command, the client, a reason, a setting, a file that cannot be read."""
    monkeypatch.setenv("HOME", home)
    run = RunDir.create("cells", results=tmp_path)
    plain = make_cell(problem=f"it said: {home}/deep/out is not there")
    client = plain.client.model_copy(
        update={"path": f"{home}/bin/curl", "command": [f"{home}/bin/curl", "-o", f"{home}/.cache/x"], "notes": [f"in {home}/a"]}
    )
    run.write_cell(plain.model_copy(update={"client": client}))
    words = [f"{home}/checkout/.venv/bin/lab", "run", "--client", f"mine={home}/clients/mine.yaml"]
    run.write_run(record.model_copy(update={"command": words, "skipped": {"a--b--c": f"no {home}/bin/a"}}))
    (run.cells / "broken.json").write_text("{", encoding="utf-8")
    found = read_run_folder(run.path)
    for text in (run_page(found), markdown_summary(found), junit_xml(found)):
        assert f"{home}/" not in text
        assert PRIVATE.findall(text) == []
    assert "mine.yaml" in run_page(found)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nagle=/work/a/b/app143 x", "nagle=FOLDER/app143 x"),
        ("'/home/me/my.yaml'", "'FOLDER/my.yaml'"),
        ("(runs in /work/main/results)", "(runs in FOLDER/results)"),
        ("/usr/bin/curl http://server/home/x a/tmp/b", "/usr/bin/curl http://server/home/x a/tmp/b"),
    ],
)
def test_what_stays(text: str, shown: str) -> None:
    assert without_places(text) == shown
