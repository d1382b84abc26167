"""Old runs of one name are removed, the newest stay, and no other run is touched."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.model.errors import LabFault
from lab.store.retention import keep_newest
from lab.store.run_dir import RunDir


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """Three runs called a.b, a day apart, and four whose names only look like it."""
    made = [RunDir.create("a.b", results=tmp_path, now=datetime(2026, 1, day, tzinfo=UTC)).name for day in (1, 2, 3)]
    for other in ("20250101T000000-a-b-c-0000", "20250101T000000-axb-0000", "mine-20250101T000000-a-b-0000"):
        (tmp_path / other / "cells").mkdir(parents=True)
    (tmp_path / "20250101T000000-a-b-00000" / "cells").mkdir(parents=True)
    return made


@pytest.mark.parametrize(("most", "gone"), [(1, 2), (2, 1), (3, 0), (4, 0)])
def test_the_newest_are_kept(tmp_path: Path, names: list[str], most: int, gone: int) -> None:
    before = {each.name for each in tmp_path.iterdir()}
    assert keep_newest("a-b", most, tmp_path) == names[:gone]
    assert {each.name for each in tmp_path.iterdir()} == before - set(names[:gone])


def test_a_word_is_taken_literally(tmp_path: Path, names: list[str]) -> None:
    assert keep_newest("a.b", 1, tmp_path) == []


@pytest.mark.parametrize(
    ("error", "said"), [(OSError(errno.EBUSY, "Device or resource busy"), "Device or resource busy"), (OSError("wind"), "wind")]
)
def test_a_run_that_cannot_be_removed_is_a_fault(
    tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    def refuse(_: Path) -> None:
        raise error

    monkeypatch.setattr("lab.store.retention.shutil.rmtree", refuse)
    with pytest.raises(LabFault) as caught:
        keep_newest("a-b", 2, tmp_path)
    words = f"an old run cannot be removed, {said} (remove it, or give the right to)"
    assert str(caught.value) == f"{tmp_path / names[0]}: {words}"
