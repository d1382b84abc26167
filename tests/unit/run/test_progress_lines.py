"""What a person reads while a run goes on, on a terminal and in a log."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace

import pytest

from lab.model.results import Verdict
from lab.run import progress as module
from lab.run.progress import Lines, SharedProgress, Silent
from tests.support.samples import sample

GOOD = sample(index=2, body_byte_s=1_234_500.0, deviation=-0.0125)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=50.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_in_a_log_every_result_is_a_line_with_its_time_and_steps_are_left_out(clock: SimpleNamespace) -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    clock.now = 62.34
    lines.step("booting")
    lines.sample("cell", GOOD, 5)
    lines.sample("cell", GOOD.model_copy(update={"deviation": None}), 5)
    lines.sample("cell", GOOD.model_copy(update={"ok": False, "problem": "cut off"}), 5)
    lines.sample("cell", GOOD.model_copy(update={"body_byte_s": None, "problem": ""}), 5)
    lines.set_aside("cell", GOOD, "busy")
    lines.verdict("cell", Verdict(name="PASS", reason="fine"))
    lines.skipped("it cannot")
    lines.note("a note")
    lines.clear()
    assert stream.getvalue().splitlines() == [
        "[ 12.3 s] cell  3/5  1.234 MB/s, -1.25% of the limit",
        "[ 12.3 s] cell  3/5  1.234 MB/s",
        "[ 12.3 s] cell  3/5  failed: cut off",
        "[ 12.3 s] cell  3/5  failed: ",
        "[ 12.3 s] cell  3 set aside: busy",
        "[ 12.3 s] cell  PASS: fine",
        "[ 12.3 s] skipped: it cannot",
        "[ 12.3 s] a note",
    ]


def test_on_a_terminal_steps_overwrite_each_other_and_give_way_to_results(clock: SimpleNamespace) -> None:
    del clock
    stream = Terminal()
    lines = Lines(stream)
    lines.clear()
    assert stream.getvalue() == "", "nothing is shown yet"
    lines.step("a long step")
    lines.step("short")
    lines.note("a note")
    first, second = "[  0.0 s] a long step", "[  0.0 s] short"
    assert stream.getvalue() == (f"\r{first}\r{second.ljust(len(first))}\r{' ' * len(second)}\r[  0.0 s] a note\n")
    lines.step("x" * 300)
    assert len(stream.getvalue().rpartition("\r")[2]) == 119, "less than a line of most terminals"


def test_virtual_time_adds_up_over_all_samples(clock: SimpleNamespace) -> None:
    del clock
    stream = io.StringIO()
    lines = Lines(stream)
    for seed, wall_s in ((None, 9.0), (1, 1.5), (2, 2.25)):
        lines.count(GOOD.model_copy(update={"seed": seed, "wall_s": wall_s}))
    lines.note("now")
    assert stream.getvalue() == "[  0.0 s, 3.8 s virtual] now\n"


def test_threads_share_one_line_at_a_time() -> None:
    inside, met = threading.Event(), list[str]()

    class Slow(Silent):
        """Notices another thread in it."""

        def note(self, text: str) -> None:
            met.append(f"{text} with another" if inside.is_set() else text)
            inside.set()
            other.start() if text == "first" else None
            inside.clear()

    shared = SharedProgress(Slow())
    other = threading.Thread(target=shared.note, args=("second",))
    shared.note("first")
    other.join(10)
    assert met == ["first", "second"]


def test_everything_passes_through_to_the_progress_that_is_shared() -> None:
    stream = io.StringIO()
    shared = SharedProgress(Lines(stream))
    shared.step("a step")
    shared.sample("c", GOOD, 5)
    shared.set_aside("c", GOOD, "busy")
    shared.verdict("c", Verdict(name="PASS", reason="fine"))
    shared.skipped("cannot")
    shared.note("noted")
    shared.clear()
    assert [line.partition("] ")[2] for line in stream.getvalue().splitlines()] == [
        "c  3/5  1.234 MB/s, -1.25% of the limit",
        "c  3 set aside: busy",
        "c  PASS: fine",
        "skipped: cannot",
        "noted",
    ]
