"""The scripts that set a machine up, build images and run CI are sound, and `make demo` says what an exit code means."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.model.paths import project_root

ROOT = project_root()
FOLDERS = (".ci", "lab/assets", "images")


def scripts() -> list[str]:
    """Every file with the first line of a shell's script."""
    found = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()):
        with path.open("rb") as file:
            first = file.readline(40)
        if first.startswith(b"#!") and first.split(b"/")[-1].split()[-1] in (b"sh", b"bash"):
            found.append(str(path.relative_to(ROOT)))
    return found


def test_there_are_scripts() -> None:
    assert {".ci/run", "lab/assets/setup.sh", "images/base/make"} <= set(scripts())


@pytest.mark.parametrize("name", scripts())
def test_a_script_is_sound(name: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck (apt-get install shellcheck)")
    # SC2187: busybox's shell is checked as dash. Below warnings are matters of taste.
    words = ["shellcheck", "--severity", "warning", "--exclude", "SC2187", ROOT / name]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("code", "ends", "said"),
    [(0, 0, "every cell passed"), (1, 0, "that client's"), (3, 0, "INCONCLUSIVE"), (2, 2, "no verdict"), (4, 2, "no verdict")],
)
def test_the_demo_works_where_there_is_a_verdict(tmp_path: Path, code: int, ends: int, said: str) -> None:
    """make itself ends with 2 for every command that fails."""
    lab = tmp_path / "lab"
    lab.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\nexit {code}\n')
    lab.chmod(0o755)
    make = ["make", "--no-print-directory", "--old-file", "setup", "demo", f"BIN={tmp_path}"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == ends, done.stderr
    assert said in done.stdout + done.stderr
    assert (tmp_path / "words").read_text() == "run throttle --client ferry --client curl --include demo\n"
