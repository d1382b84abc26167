"""The name that the project had until November 2026 belongs to others: only what reads something old knows it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from lab.model.paths import project_root

ROOT = project_root()
FORMER = "throughline"
# By path, the lines that may have it; no number: all of them.
KNOWN = {
    "CHANGELOG.md": 1,  # when the name changed
    "lab/assets/setup.sh": 2,  # launchers
    "lab/run/doctor.py": 1,  # caches
    "lab/store/bundle.py": 1,
    "reports/studies/archive.py": 1,
    # The tests of those readers, and this one.
    "tests/unit/ci/test_setup.py": None,
    "tests/unit/docs/test_former_name.py": None,
    "tests/unit/reports/test_studies.py": None,
    "tests/unit/run/test_doctor_checks.py": None,
    "tests/unit/store/test_bundle.py": None,
}


def tracked() -> dict[str, int]:
    """How many lines of each file have the name, by path; of files that git does not ignore, binary ones too."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git, or no repository of git here: nothing says which files are ours")
    words = [git, "grep", "--untracked", "--ignore-case", "--count", "--text", FORMER]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: int(count) for name, _, count in (line.rpartition(":") for line in done.stdout.splitlines())}


def test_the_former_name_is_only_where_something_old_is_read() -> None:
    unknown = {}
    for name, count in tracked().items():
        place = next((each for each in KNOWN if name == each or (each.endswith("/") and name.startswith(each))), None)
        most = 0 if place is None else KNOWN[place]
        if most is not None and count > most:
            unknown[name] = f"{count} lines, {most} may"
    assert not unknown


def test_every_exception_is_still_needed() -> None:
    found = tracked()
    assert [each for each in KNOWN if not each.endswith("/") and each not in found] == []
