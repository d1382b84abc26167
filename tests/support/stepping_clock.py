"""The module `time` for a script under test: it stands still but for sleeps and for what a look costs."""

from __future__ import annotations


class SteppingClock:
    """A sleep takes `longer` times what is asked, a look at the clock `look_ns`. The wall clock is `offset_ns` ahead."""

    def __init__(self, now_ns: int = 5_000_000_000, *, longer: float = 1.0, look_ns: int = 0, offset_ns: int = 0) -> None:
        self.now = now_ns
        self.longer, self.look_ns, self.offset_ns = longer, look_ns, offset_ns
        self.sleeps: list[float] = []

    def monotonic_ns(self) -> int:
        self.now += self.look_ns
        return self.now

    def time_ns(self) -> int:
        return self.now + self.offset_ns

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += round(seconds * 1e9 * self.longer)
