"""`lab traces` lists published traces and downloads them by digest; here from a folder of this test's."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from lab.assets import traces
from lab.assets.traces import MIRROR, PUBLISHED, download
from lab.model.errors import LabFault
from lab.model.trace_file import find_trace
from tests.support.command import lab, one_line

DATA = b"1\n2\n3\n"


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> traces.Published:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR, (tmp_path / "mirror").as_uri())
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/line.down").write_bytes(DATA)
    return traces.Published("line.down", "https://example.org", hashlib.sha256(DATA).hexdigest(), "three packets")


def test_a_download_is_found_by_its_name(published: traces.Published, tmp_path: Path) -> None:
    assert not published.here
    download(published)
    assert published.here
    assert find_trace("line.down", tmp_path).read_bytes() == DATA


def test_another_file_than_the_known_one_is_not_kept(published: traces.Published) -> None:
    with pytest.raises(LabFault, match="has changed"):
        download(replace(published, sha256="0" * 64))
    assert not published.path.exists()


def test_a_file_that_is_not_there_is_one_line(published: traces.Published) -> None:
    with pytest.raises(LabFault, match="cannot be downloaded"):
        download(replace(published, name="gone.down"))


def test_the_command_lists_and_refuses(tmp_path: Path) -> None:
    done = lab("traces", env={"ROUGHWATER_CACHE": str(tmp_path)}, timeout=60)
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [[trace.name, "-"] for trace in PUBLISHED]
    refused = lab("traces", "TMobile-LTE-short.donw", timeout=60)
    assert refused.returncode == 2
    assert "did you mean 'TMobile-LTE-short.down'?" in one_line(refused)
