"""When a person is warned that hardly any virtual time passes: by what the machine's processes have used."""

from __future__ import annotations

import pytest

from lab.hosts.virtual.watchdog import AFTER_S, Watchdog


class Host:
    """CPU seconds of the machine's kernel and of all of the machine, and this host's clock."""

    def __init__(self) -> None:
        self.now_s = self.kernel_s = self.programs_s = 0.0
        self.dog = Watchdog(lambda: self.now_s)

    def barks(self, seconds: float, *, kernel: float, programs: float, step_s: float = 0.5) -> list[float]:
        """The times at which it did, with these shares of a processor used."""
        found, end = [], self.now_s + seconds
        while self.now_s < end:
            if self.dog.barks(self.kernel_s, self.kernel_s + self.programs_s):
                found.append(self.now_s)
            self.now_s += step_s
            self.kernel_s += kernel * step_s
            self.programs_s += programs * step_s
        return found


@pytest.mark.parametrize("kernel", [0.0, 0.05], ids=["not interrupted", "interrupted"])
def test_a_program_that_computes_is_reported_once(kernel: float) -> None:
    assert Host().barks(60, kernel=kernel, programs=1.0 - kernel) == [AFTER_S]


def test_on_a_busy_host_later() -> None:
    assert Host().barks(60, kernel=0.0, programs=0.1) == [20.0]


@pytest.mark.parametrize(("kernel", "programs"), [(0.5, 0.5), (0.15, 0.85), (0.0, 0.0)])
def test_a_transfer_and_a_machine_that_gets_no_processor_are_not(kernel: float, programs: float) -> None:
    assert Host().barks(60, kernel=kernel, programs=programs) == []


def test_the_count_starts_again_with_each_bit_of_work() -> None:
    host = Host()
    assert host.barks(8, kernel=0.0, programs=1.0) == []
    assert host.barks(1, kernel=1.0, programs=0.0) == []
    assert host.barks(60, kernel=0.0, programs=1.0) == [19.0]
