"""A machine in virtual time that does not come up says why in one line; closed standard descriptors do not stop it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.hosts.virtual.ending import why
from lab.hosts.virtual.machine import Boot, Machine
from lab.model.errors import LabFault
from lab.model.paths import project_root

MEMORY = 256 << 20
BOOT = """
import resource, sys
from lab.hosts.virtual.machine import Boot, Machine
from lab.model.errors import LabFault
{limit}
try:
    Machine.start(Boot(seed=1, memory_bytes=256 << 20)).close()
    said = "ok"
except LabFault as fault:
    said = str(fault)
open(sys.argv[1], "w").write(said)
"""


def boot(folder: Path, *, limit: str = "", shell: str = "") -> str:
    answer = folder / "answer"
    command = [sys.executable, "-c", BOOT.format(limit=limit), str(answer)]
    subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {shell}', *command], cwd=project_root(), capture_output=True, timeout=60, check=False
    )
    return answer.read_text()


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_do_not_matter(tmp_path: Path, closed: str) -> None:
    assert boot(tmp_path, shell=closed) == "ok"


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))", "it got no 256 MB of memory"),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))", "ulimit -n"),
        ("resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))", "ulimit -f"),
    ],
)
def test_a_limit_of_the_user_is_named(tmp_path: Path, limit: str, said: str) -> None:
    assert said in boot(tmp_path, limit=limit)


def test_what_the_kernel_said_and_the_signal_that_ended_it() -> None:
    assert why("", 1, MEMORY) == "it printed nothing"
    assert why("first\nKernel panic - not syncing: VFS\nlast\n", 1, MEMORY) == "Kernel panic - not syncing: VFS"
    assert why("last", -9, MEMORY) == "last; SIGKILL: killed, perhaps for its memory"
    assert why("", -31, MEMORY).startswith("SIGSYS: a system call is forbidden")
    assert why("", -11, MEMORY) == "SIGSEGV"


def test_a_container_that_forbids_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(LabFault, match=r"memfd_create\(2\): Operation not permitted") as caught:
        Machine.start(Boot(seed=1))
    assert "seccomp" in caught.value.remedy
