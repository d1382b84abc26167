"""A command's output is asked for by virtual time, and ended at its limits; its machine is a counter."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lab.hosts.host import Completed
from lab.hosts.virtual.machine import Machine
from lab.hosts.virtual.project import ProjectProcess
from lab.run.project.watch import LastLine, Limits, slice_s, watched


class Counting:
    """A machine whose clock goes on as it is asked to, and a command that lasts `lasts_s` and prints each of these lines."""

    def __init__(self, lasts_s: float, prints: dict[float, bytes], cpu_per_s: float = 0.0) -> None:
        self.now_ns, self.endings = 5 * 10**9, list[str]()
        self._began_ns, self._lasts_s, self._prints, self._rate = self.now_ns, lasts_s, prints, cpu_per_s
        self.asked: list[float] = []
        self.killed = False

    @property
    def ran_s(self) -> float:
        return (self.now_ns - self._began_ns) / 1e9

    def cpu_s(self) -> float:
        return self._rate * self.ran_s

    def ended(self, timeout_s: float) -> bool:
        self.asked.append(timeout_s)
        left = self._lasts_s - self.ran_s
        self.now_ns += round(min(left, timeout_s) * 1e9)
        return left <= timeout_s

    def news(self) -> tuple[bytes, bytes]:
        due = [at for at in self._prints if at <= self.ran_s]
        return b"".join(self._prints.pop(at) for at in due), b""

    def wait(self, timeout_s: float) -> Completed:
        assert timeout_s == 0
        self.killed = self.ran_s < self._lasts_s
        return Completed(("x",), -9 if self.killed else 0, b"rest\n", b"", self._began_ns, self.now_ns, 0.0, 0.0)

    def rest(self, done: Completed) -> tuple[bytes, bytes]:
        return done.stdout, b""


def run(made: Counting, virtual_s: float = 600, cpu_s: float = 600) -> tuple[Any, list[bytes], Limits]:
    shown: list[bytes] = []
    limits = Limits(cast(Machine, made), virtual_s, cpu_s)
    found = watched(cast(ProjectProcess, made), limits, lambda text, _: shown.append(text))
    return found, [text for text in shown if text], limits


def test_a_command_that_ends_has_shown_all_it_printed() -> None:
    (done, limit), shown, limits = run(Counting(3.0, {0.5: b"one\n", 2.0: b"two\n"}))
    assert (done.returncode, limit) == (0, None)
    assert shown == [b"one\n", b"two\n", b"rest\n"]
    assert limits.used_s == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("made", "limits", "limit"),
    [
        (Counting(1e6, {}), {"virtual_s": 2.5}, "virtual time"),
        (Counting(1e6, {}, cpu_per_s=100.0), {"cpu_s": 5.0}, "CPU time"),
    ],
)
def test_a_limit_ends_it_and_is_named(made: Counting, limits: dict[str, float], limit: str) -> None:
    (_, found), _, _ = run(made, **limits)
    assert found == limit
    assert made.killed
    assert made.ran_s <= 2.5


def test_what_earlier_commands_took_counts() -> None:
    made = Counting(1e6, {})
    limits = Limits(cast(Machine, made), 10.0, 600.0, used_s=9.0)
    watched(cast(ProjectProcess, made), limits, lambda *_: None)
    assert made.ran_s == pytest.approx(1.0)


def test_a_command_that_the_machine_ended_was_over_its_cpu_time() -> None:
    made = Counting(1.0, {})
    made.ended = lambda _: made.endings.append("used 9 s of CPU time") is None  # type: ignore[method-assign]
    assert run(made)[0][1] == "CPU time"


def test_silence_makes_the_slices_longer_and_output_short_again() -> None:
    made = Counting(20.0, {10.0: b"x"})
    run(made)
    assert made.asked[:3] == [0.01, 0.02, 0.04]
    assert max(made.asked) == 1.0
    assert made.asked.count(0.01) == 2
    assert slice_s(0.64, printed=False) == 1.0


def test_the_last_line_is_of_both_streams_and_has_words() -> None:
    last = LastLine()
    last.feed(b"out\n", b"")
    last.feed(b"", b"error\n\n   \n")
    assert last.text == "error"
    assert LastLine().text == ""
