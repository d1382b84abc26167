"""What a test takes for its own processes, and what it would miss."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import birth, command, descendants
from tests.support.waiting import until

_ORPHAN = "sleep 31536001 </dev/null >/dev/null 2>&1 & echo $!"
_SCRIPT = f"""
import os, signal, subprocess
from tests.support.processes import adopting, birth, descendants
def orphan():
    return int(subprocess.run(["sh", "-c", {_ORPHAN!r}], stdout=subprocess.PIPE, text=True).stdout)
with adopting():
    before = descendants(os.getpid())
    ours = orphan()
    found = descendants(os.getpid())
    print(sorted(found.keys() - before.keys()) == [ours], os.getppid() in found)
    os.kill(ours, signal.SIGKILL)
    os.waitpid(ours, 0)
    print(descendants(os.getpid()) == before, birth(ours) == "")
lost = orphan()
print(lost in descendants(os.getpid()))
os.kill(lost, signal.SIGKILL)
"""


def test_an_orphan_is_found_while_orphans_are_adopted_and_then_no_more() -> None:
    """In a program of its own, whose children are only those that it starts."""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.splitlines() == ["True False", "True True", "False"]


def test_a_zombie_has_ended() -> None:
    with subprocess.Popen(["true"]) as child:
        until(lambda: not birth(child.pid), "it has ended")
        assert child.pid not in descendants(os.getpid())
        assert command(child.pid) == ""


def test_a_wait_that_fails_says_for_what() -> None:
    with pytest.raises(TimeoutError, match=r"not within 0.05 s: the sun rises"):
        until(lambda: False, "the sun rises", 0.05)
