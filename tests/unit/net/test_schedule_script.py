"""The commands of a schedule: given to tc when they are due, and again after the period."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.net import schedule_script
from lab.net.schedule_script import Ended
from tests.support.stepping_clock import SteppingClock

BASE_NS = 5_000_000_000
CHANGES = [(1_000_000, ["qdisc change a", "qdisc change b"]), (2_000_000, ["qdisc change c"])]


@pytest.mark.parametrize("longer", [1.0, 1.001])
@pytest.mark.parametrize("wait_ns", [9_000_000, 40_000_000, 2_000_000_000])
def test_a_sleep_ends_after_its_time_and_not_long_after(monkeypatch: pytest.MonkeyPatch, longer: float, wait_ns: int) -> None:
    clock = SteppingClock(BASE_NS, longer=longer, look_ns=5_000)
    monkeypatch.setattr(schedule_script, "time", clock)
    schedule_script.sleep_until(BASE_NS + wait_ns)
    assert BASE_NS + wait_ns <= clock.now <= BASE_NS + wait_ns + 25_000


class Written:
    """What was written to tc and to the lab, and when; after `most` changes the lab ends the schedule."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.tc: list[bytes] = []
        self.rows: list[tuple[int, int]] = []
        self.waits: list[object] = []
        self.most = most
        monkeypatch.setattr(schedule_script, "time", SteppingClock(BASE_NS, look_ns=5_000))
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(signal, "pthread_sigmask", lambda how, which: self.waits.append((how, which)))
        monkeypatch.setattr(signal, "sigwait", self.waits.append)

    def write(self, number: int, text: bytes) -> int:
        if number == 1:
            due, now = map(int, text.split())
            self.rows.append((due, now))
            if len(self.rows) == self.most:
                raise Ended
        else:
            assert number == 77
            self.tc.append(text)
        return len(text)


@pytest.mark.parametrize(("repeat", "rounds"), [(0, 1), (10_000_000, 3)])
def test_every_change_is_made_when_it_is_due(monkeypatch: pytest.MonkeyPatch, repeat: int, rounds: int) -> None:
    written = Written(monkeypatch, 6)
    with pytest.raises(Ended):
        schedule_script.run(CHANGES, BASE_NS, repeat, 77)
    assert written.tc == [b"qdisc change a\nqdisc change b\n", b"qdisc change c\n"] * rounds
    dues = [BASE_NS + number * repeat + after for number in range(rounds) for after, _ in CHANGES]
    assert [due for due, _ in written.rows] == dues
    assert all(0 <= now - due <= 10_000 for due, now in written.rows)
    # At the end it waits for a signal, which it holds back if it comes early.
    assert written.waits == ([] if repeat else [(signal.SIG_BLOCK, {signal.SIGTERM}), {signal.SIGTERM}])


_TC = """#!/bin/sh
echo "$*" >"$0.words"
cat >"$0.told"
exit 3
"""


def test_the_program_says_what_it_did_and_ends_as_tc_ends(tmp_path: Path) -> None:
    tc = tmp_path / "tc"
    tc.write_text(_TC)
    tc.chmod(0o755)
    changes = tmp_path / "changes"
    changes.write_text("0\tqdisc change a\tqdisc change b\n1000\tqdisc change c\n")
    words = [sys.executable, str(Path(schedule_script.__file__)), str(changes), "7000", "0", str(tc)]
    script = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert script.stdout
    rows = [script.stdout.readline().split() for _ in range(2)]
    script.send_signal(signal.SIGTERM)
    assert script.wait(30) == 3
    assert [int(due) for due, _ in rows] == [7000, 8000]
    assert tc.with_name("tc.words").read_text() == "-batch -\n"
    assert tc.with_name("tc.told").read_text() == "qdisc change a\nqdisc change b\nqdisc change c\n"
