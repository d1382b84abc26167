"""Temporary folders that end with this process, however it ends."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The shell that makes the folder removes it: at the end of its input, which the kernel closes when this process is killed.
_KEEPER = 'folder=$(mktemp -d -p "$1" "$2XXXXXXXX") || exit; echo "$folder"; cat >/dev/null; rm -rf -- "$folder"'


@contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder below `parent`, else where the system keeps temporary files. kill -9 leaves no such folder behind.

    Raises OSError where it cannot be made.
    """
    words = ["/bin/sh", "-c", _KEEPER, "scratch", str(parent or tempfile.gettempdir()), prefix]
    # A session of its own: an interrupt from the terminal is for the lab, which may still need the folder.
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as keeper:
        assert keeper.stdin
        assert keeper.stdout
        made = keeper.stdout.readline().strip()
        if not made:
            keeper.wait()
            raise OSError(f"no folder {prefix}... can be made in {words[-2]}")
        try:
            yield Path(made)
        finally:
            keeper.stdin.close()
            keeper.wait()
            # The shell may have been killed.
            shutil.rmtree(made, ignore_errors=True)
