"""Parts of a machine for a user's own suite that need no machine: new files, places it cannot show."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.agent.project import new_files
from lab.hosts.virtual.project import hidden


def test_new_files_are_regular_and_no_link_is_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "new", tmp_path / "elsewhere"
    (folder / "b").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("x")
    for name in ("z", "b/a", ".hidden"):
        (folder / name).write_text("x")
    (folder / "link").symlink_to(elsewhere / "secret")
    (folder / "folder").symlink_to(elsewhere)
    assert new_files(str(folder)) == [".hidden", "b/a", "z"]


@pytest.mark.parametrize("path", ["/", "/run/user/1000/project", "/dev/shm/x", "/proc", "/sys/x"])
def test_a_place_of_the_machines_own_cannot_be_a_project(path: str) -> None:
    assert hidden(Path(path))


@pytest.mark.parametrize("path", ["/home/me", "/runs", "/tmp", "/var/run-x"])
def test_any_other_folder_can_be_one(path: str) -> None:
    assert not hidden(Path(path))
