"""The tests of ferry run its Windows build under Wine where `ROUGHWATER_TEST_FERRY=wine` says so, else nothing changes.

Paths, exit codes and most signals need no translation: Wine takes a path of this machine for one of the current drive, hands the
low byte of an exit code on, and runs a program in the process that was started. `SKIPPED` lists the tests that need more.

Wine is not Windows: what is shown here is ferry's own part, not Windows' TCP or NTFS.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from lab.assets import windows, wine
from lab.clients.ferry import Ferry
from lab.clients.windows import BUILD, FERRY
from lab.model.errors import LabFault
from tests.engine.sftp_servers import person
from tests.support.waiting import until

VARIABLE = "ROUGHWATER_TEST_FERRY"
WINE = "wine"
# Debian's loader takes half a second for its first program, a busy machine's ten times that.
_START_S = 60.0

_LINKS = "Windows programs follow a symbolic link of Linux, and do not see a dangling one"
_NAMES = "Windows has no such names; test_windows_wine.py tests how ferry.exe handles them"
SKIPPED: dict[str, str] = {
    "test_faults_files.py::test_a_device_that_is_full": "Windows has no device that is always full",
    "test_faults_files.py::test_a_killed_download_leaves_no_file_and_is_resumed[*-SIGINT]": "SIGINT is not Ctrl-C on Windows",
    "test_faults_files.py::test_a_target_that_cannot_be[dangling-link]": _LINKS,
    "test_faults_uploads.py::test_a_success_before_the_upload_has_arrived[*]": "Windows does not tell what was acknowledged",
    "test_sftp_interop.py::test_odd_names[*]": _NAMES,
    "test_sftp_sets.py::test_a_name_that_is_not_utf_8": _NAMES,
    "test_sftp_sets.py::test_five_thousand_names": "Wine reads the folder for the case of every new name: 80 s",
    "test_sftp_sets.py::test_special_files[put]": _LINKS,
}
"""Tests that make no sense under Wine: patterns of their names, and the reasons."""


def wanted() -> bool:
    """Whether the tests run ferry.exe under Wine."""
    return os.environ.get(VARIABLE, "") == WINE


def problem() -> str:
    """Why the tests cannot run under Wine; empty if they can or need not."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", WINE):
        return f"{VARIABLE} is {asked!r}: leave it unset or set {VARIABLE}={WINE}"
    if not asked:
        return ""
    if windows.find() is None:
        return f"{VARIABLE}={WINE}: there is no {FERRY}: {BUILD}"
    if wine.find_program() is None:
        return f"{VARIABLE}={WINE}: Wine is not installed: {wine.remedy()}"
    return ""


def require() -> None:
    """One line where it cannot be, before any test."""
    if why := problem():
        raise pytest.UsageError(why)


def header() -> list[str]:
    """What pytest says before the first test."""
    if not wanted():
        return []
    older = "" if windows.up_to_date() else f", which is older than engine/ ({BUILD})"
    return [f"ferry: {windows.program()} under Wine, not Windows{older}"]


def adapter() -> Ferry:
    """ferry on a host of the lab's. There a wineserver is started with the first, and ends with the host's namespace."""
    return Ferry("ferry", FERRY) if wanted() else Ferry()


def skip_senseless(item: pytest.Item) -> None:
    if wanted() and (why := senseless(item)):
        item.add_marker(pytest.mark.skip(reason=f"under Wine: {why}"))


def senseless(item: pytest.Item) -> str:
    name = f"{item.path.name}::{item.name}"
    return next((why for pattern, why in SKIPPED.items() if fnmatchcase(name, literal(pattern))), "")


def literal(pattern: str) -> str:
    """With brackets that are brackets, as they are around the names of parameters; `*` is any text."""
    return pattern.replace("[", "[[]")


@contextmanager
def program(folder: Path) -> Iterator[Path]:
    """ferry.exe as a program that the user `person` can run; `folder` must not exist.

    One wineserver serves all programs started in the block. It ends with the caller, even if the caller is killed.
    """
    built = windows.find()
    assert built is not None, problem()
    facts = wine.ensure(print)
    with wine.launcher(facts, built, folder) as stand_in, _serving(facts, folder):
        # The first program boots Wine's own services, which belong to its process group: no test's, which may be killed.
        with person().start([stand_in, "--version"], cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as first:
            told = first.communicate(timeout=_START_S)[0].decode(errors="replace").strip()
        if told != f"ferry {windows.version()}":
            raise LabFault(f"{FERRY} --version under {facts.label} says {told!r} ({first.returncode})")
        yield stand_in


@contextmanager
def _serving(facts: wine.WineFacts, folder: Path) -> Iterator[None]:
    """Run wineserver in the prefix that the replacement program in `folder` uses."""

    def started(*words: str | Path) -> subprocess.Popen[bytes]:
        script = wine.script(facts, folder, folder / "template", *words)
        nowhere: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        return person().start(["/bin/sh", "-c", script], cwd=folder, **nowhere)

    # In the foreground: a daemon has another parent, and would not hear of this one's end. At SIGINT
    # it ends all that it serves; at SIGTERM it would leave them.
    with started("setpriv", "--pdeathsig", "INT", facts.server, "--foreground", "--persistent") as server:

        def serves() -> bool:
            if server.poll() is not None:
                raise LabFault(f"wineserver ended ({server.returncode})", remedy=wine.remedy())
            with started(facts.server, "-k0") as asked:
                return asked.wait(_START_S) == 0

        try:
            until(serves, "wineserver is there", _START_S)
            yield
        finally:
            server.send_signal(signal.SIGINT)
