"""Files that appear complete or not at all."""

import errno
import os
from pathlib import Path

import pytest

from lab.model.errors import LabFault, RoughwaterError, UsageProblem
from lab.model.files import replacing, write_faults, write_text


def test_the_new_file_replaces_the_old_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def write_half(path: Path, problem: BaseException) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise problem


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_block_that_raises_leaves_the_old_file(tmp_path: Path, problem: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(problem)):
        write_half(path, problem)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fault", [LabFault, UsageProblem])
@pytest.mark.parametrize(
    ("code", "named", "message"),
    [
        (errno.ENOSPC, None, "/f/file: the page cannot be written, the disk is full (free space)"),
        (errno.EDQUOT, None, "/f/file: the page cannot be written, the disk is full (free space)"),
        (errno.EACCES, "/f/.file.12", "/f/file: the page cannot be written, Permission denied (free space)"),
        (errno.EIO, "/g/source", "/g/source: the page cannot be written, Input/output error (free space)"),
    ],
)
def test_a_fault_is_one_line(code: int, named: str | None, message: str, fault: type[RoughwaterError]) -> None:
    with pytest.raises(fault) as caught, write_faults(Path("/f/file"), "the page", remedy="free space", fault=fault):
        raise OSError(code, os.strerror(code), named)
    assert str(caught.value) == message


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(LabFault):
        write_text(tmp_path / "missing" / "file", "text")
