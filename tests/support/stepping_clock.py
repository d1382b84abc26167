"""The module `time` for a script under test: it stands still but for sleeps and for what a look costs."""

from __future__ import annotations


class SteppingClock:
    """A sleep takes `longer` times what is asked, a look at the clock `look_ns`."""

    def __init__(self, now_ns: int = 5_000_000_000, *, longer: float = 1.0, look_ns: int = 0) -> None:
        self.now = now_ns
        self.longer, self.look_ns = longer, look_ns
        self.sleeps: list[float] = []

    def monotonic_ns(self) -> int:
        self.now += self.look_ns
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += round(seconds * 1e9 * self.longer)
