"""Temporary folders: there while they are needed, and gone after any end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.model.scratch import scratch_folder
from tests.support.waiting import until

_USE = """\
import signal, sys
from pathlib import Path
from lab.model.scratch import scratch_folder
with scratch_folder("scratch-", Path(sys.argv[1])) as folder:
    (folder / "deep").mkdir()
    (folder / "deep/file").write_text("content")
    print("ready", flush=True)
    signal.pause()
"""


def test_it_is_there_during_the_block_only(tmp_path: Path) -> None:
    with scratch_folder("scratch-", tmp_path) as folder:
        (folder / "file").write_text("content")
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.name.startswith("scratch-")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_block_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), scratch_folder("scratch-", tmp_path):
        raise ValueError("mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_none(tmp_path: Path, number: signal.Signals) -> None:
    user = subprocess.Popen([sys.executable, "-c", _USE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert user.stdout
    assert user.stdout.readline() == "ready\n"
    assert [path.name for path in tmp_path.glob("*/deep/*")] == ["file"]
    user.send_signal(number)
    user.communicate()
    until(lambda: not list(tmp_path.iterdir()), "the folder is removed")


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no folder scratch-"), scratch_folder("scratch-", tmp_path / "nowhere"):
        pass
