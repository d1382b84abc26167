"""The lab's display of its progress: a live line on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol, TextIO

from lab.model.results import Sample, Verdict


class Progress(Protocol):
    def step(self, text: str) -> None:
        """The lab has begun something that takes a moment."""
        ...

    def sample(self, cell: str, sample: Sample, of: int) -> None: ...

    def set_aside(self, cell: str, sample: Sample, reason: str) -> None:
        """A sample that the host spoilt; it is taken again."""
        ...

    def verdict(self, cell: str, verdict: Verdict) -> None: ...

    def skipped(self, reason: str) -> None:
        """A cell that its client cannot do."""
        ...

    def note(self, text: str) -> None:
        """A remark on the run itself that a person should know."""
        ...

    def clear(self) -> None:
        """Take the live line away, for other output."""
        ...


class Silent:
    """For tests and for --json."""

    def step(self, text: str) -> None:
        pass

    def sample(self, cell: str, sample: Sample, of: int) -> None:
        pass

    def set_aside(self, cell: str, sample: Sample, reason: str) -> None:
        pass

    def verdict(self, cell: str, verdict: Verdict) -> None:
        pass

    def skipped(self, reason: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def clear(self) -> None:
        pass


class SharedProgress:
    """A progress that several threads report to."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        with self._lock:
            self._progress.step(text)

    def sample(self, cell: str, sample: Sample, of: int) -> None:
        with self._lock:
            self._progress.sample(cell, sample, of)

    def set_aside(self, cell: str, sample: Sample, reason: str) -> None:
        with self._lock:
            self._progress.set_aside(cell, sample, reason)

    def verdict(self, cell: str, verdict: Verdict) -> None:
        with self._lock:
            self._progress.verdict(cell, verdict)

    def skipped(self, reason: str) -> None:
        with self._lock:
            self._progress.skipped(reason)

    def note(self, text: str) -> None:
        with self._lock:
            self._progress.note(text)

    def clear(self) -> None:
        with self._lock:
            self._progress.clear()


class Lines:
    """Steps overwrite each other on a terminal; in a log they are left out and samples and verdicts are lines.

    In front of each is the time since the beginning, and what samples in virtual time have taken of theirs, all cells together.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        # Not sys.stderr at run time: Robot replaces it while keywords run.
        self._stream = stream or sys.__stderr__ or sys.stderr
        self._live = self._stream.isatty()
        self._started = time.monotonic()
        self._shown = 0
        self._virtual_s = 0.0

    def step(self, text: str) -> None:
        if self._live:
            line = f"{self._times()} {text}"[:119]
            self._stream.write("\r" + line.ljust(self._shown))
            self._shown = len(line)
            self._stream.flush()

    def sample(self, cell: str, sample: Sample, of: int) -> None:
        self.count(sample)
        if sample.ok and sample.body_byte_s is not None:
            deviation = "" if sample.deviation is None else f", {sample.deviation:+.2%} of the limit"
            self._line(f"{cell}  {sample.index + 1}/{of}  {sample.body_byte_s / 1e6:.3f} MB/s{deviation}")
        else:
            self._line(f"{cell}  {sample.index + 1}/{of}  failed: {sample.problem}")

    def set_aside(self, cell: str, sample: Sample, reason: str) -> None:
        self._line(f"{cell}  {sample.index + 1} set aside: {reason}")

    def verdict(self, cell: str, verdict: Verdict) -> None:
        self._line(f"{cell}  {verdict.name}: {verdict.reason}")

    def skipped(self, reason: str) -> None:
        self._line(f"skipped: {reason}")

    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        self.clear()
        self._stream.write(f"{self._times()} {text}\n")
        self._stream.flush()

    def count(self, sample: Sample) -> None:
        """Add the sample's virtual time; a sample in real time has no seed."""
        if sample.seed is not None:
            self._virtual_s += sample.wall_s

    def _times(self) -> str:
        virtual = f", {self._virtual_s:.1f} s virtual" if self._virtual_s else ""
        return f"[{time.monotonic() - self._started:5.1f} s{virtual}]"

    def clear(self) -> None:
        if self._live and self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._shown = 0
