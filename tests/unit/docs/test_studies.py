"""docs/studies: every page is what its shipped data make, and a change of the data is noticed."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lab.model.errors import UsageProblem
from reports.studies import index
from reports.studies.archive import MANIFEST, MOST_BYTES, Manifest, unpacked
from reports.studies.index import make_all, out_of_date
from reports.studies.page import make_page
from reports.studies.places import INDEX, INDEX_TEMPLATE, Study, studies, studies_folder

ROOT = studies_folder()
STUDIES = studies(ROOT)
WITH_DATA = [study for study in STUDIES if study.data.is_file()]
each_study = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
made_once = cache(make_page)


@each_study
def test_a_page_and_its_pictures_are_what_the_data_make(study: Study) -> None:
    made = made_once(study)
    found = {path: path.read_text(encoding="utf-8") if path.is_file() else "" for path in made.files}
    assert found == made.files, "run `make studies`"
    assert {path.name for path in study.folder.glob("*.svg")} == made.pictures.keys(), "remove the picture that no page shows"


def test_the_list_of_studies_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "make_page", made_once)
    assert (ROOT / INDEX).read_text(encoding="utf-8") == make_all(ROOT)[ROOT / INDEX], "run `make studies`"


def test_every_page_is_made_from_a_template() -> None:
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.md") if path != ROOT / INDEX}
    assert pages == {study.name for study in STUDIES}


@pytest.mark.parametrize("study", WITH_DATA, ids=lambda study: study.name)
def test_a_study_ships_at_most_one_megabyte(study: Study) -> None:
    assert study.data.stat().st_size <= MOST_BYTES


@pytest.fixture
def copied(tmp_path: Path) -> Study:
    """The smallest study of those with runs, alone in a folder."""
    study = min((each for each in WITH_DATA if "runs/" in _names(each.data)), key=lambda each: each.data.stat().st_size)
    shutil.copytree(study.folder, tmp_path / study.name)
    page = tmp_path / f"{study.name}.md"
    shutil.copy(study.page, page)
    (tmp_path / INDEX_TEMPLATE).write_text("{{ clients }}\n{{ lab }}", encoding="utf-8")
    (tmp_path / INDEX).write_text(make_all(tmp_path)[tmp_path / INDEX], encoding="utf-8")
    return Study(tmp_path, study.name)


def test_an_unchanged_copy_is_up_to_date(copied: Study) -> None:
    assert out_of_date(copied.root) == []


def test_a_data_file_edited_by_hand_is_refused(copied: Study) -> None:
    _edit(copied.data, _later)
    with pytest.raises(UsageProblem, match=r"was changed, its SHA-256"):
        make_page(copied)


def test_an_edit_that_corrects_the_digest_too_changes_the_page(copied: Study) -> None:
    _edit(copied.data, lambda members: _with_digests(_later(members)))
    assert any(str(copied.page) in line for line in out_of_date(copied.root))


def test_a_damaged_archive_is_refused(copied: Study) -> None:
    packed = copied.data.read_bytes()
    copied.data.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UsageProblem, match="damaged"), unpacked(copied.data):
        pass


def test_a_page_edited_by_hand_is_out_of_date(copied: Study) -> None:
    copied.page.write_text(copied.page.read_text(encoding="utf-8") + "\nAnd more.\n", encoding="utf-8")
    assert [line.split(":")[0] for line in out_of_date(copied.root)] == [str(copied.page)]


# ---------------------------------------------------------------------------------------------------------------------


Members = dict[str, bytes]


def _names(path: Path) -> str:
    with tarfile.open(path) as archive:
        return " ".join(archive.getnames())


def _later(members: Members) -> Members:
    """A run that ended a year later than it did."""
    name = next(name for name in members if name.endswith("/run.json"))
    record = json.loads(members[name])
    record["ended_at"] = f"2027{record['ended_at'][4:]}"
    return {**members, name: json.dumps(record).encode()}


def _with_digests(members: Members) -> Members:
    manifest = Manifest.model_validate_json(members[MANIFEST])
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in members.items() if name != MANIFEST}
    return {**members, MANIFEST: manifest.model_copy(update={"sha256": digests}).model_dump_json().encode()}


def _edit(path: Path, change: Callable[[Members], Members]) -> None:
    with tarfile.open(path) as archive:
        members = {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        for name, content in change(members).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(lzma.compress(into.getvalue()))
