"""The lab's two clocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Clock = Literal["virtual", "real"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)
NOT_IN_VIRTUAL_TIME = "not in virtual time"
"""Printed in place of a figure that only the real machine has: CPU time, requests per second, rates of an unshaped link."""


def clock_words(clock: Clock) -> str:
    """`virtual time`, `real time`."""
    return f"{clock} time"


def clocks_words(clocks: Iterable[Clock]) -> str:
    """`virtual time`, `virtual time and real time`."""
    return " and ".join(map(clock_words, dict.fromkeys(clocks)))


MIXED_CLOCKS = "these cells were measured on different clocks: virtual and real"

EPOCH_S = 1_798_761_600
"""1 January 2027, the wall clock of each machine in virtual time at its start, in Unix time. It is later than every file of the
release: servers tell a file's time, and programs compare it. A release whose commit is later is refused."""
CHARGE_NS = 200
"""The virtual time of a system call or a page fault, nanoseconds, unless --price gives another."""
ClockChoice = Literal["auto", "virtual", "real"]
"""auto: each cell by the clock that its question is about."""
