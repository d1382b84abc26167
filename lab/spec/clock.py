"""The lab's two clocks, and which figures mean nothing on the virtual one."""

from __future__ import annotations

from typing import Literal, get_args

Clock = Literal["virtual", "real"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)
NOT_IN_VIRTUAL_TIME = "not in virtual time"
"""Printed in place of a figure that only the real machine has: CPU time, requests per second, rates of an unshaped link."""


def clock_words(clock: Clock) -> str:
    """`virtual time`, `real time`."""
    return f"{clock} time"


CHARGE_NS = 200
"""What a system call or a page fault takes in virtual time, nanoseconds, unless --price says otherwise."""
