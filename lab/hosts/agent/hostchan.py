"""Requests of PID 1 to /dev/hostchan of a machine in virtual time: exemption and forks. Standard library only: part of PID 1.

Whatever the lab does inside, as PID 1 or as root, is exempt from the price of system calls, and draws random numbers of its own:
its Python and its tools are the machine's own, and a client next to them would be later by what they take. Clients and servers
pay (kernel patches 0001, 0014, 0017).
"""

from __future__ import annotations

import fcntl

# HOSTCHAN_EXEMPT and HOSTCHAN_FORK, images/kernel/patches/0014 and 0015.
_EXEMPT, _FORK = 0x5201, 0x5202
_NOTHING, _SELF, _WITH_CHILDREN = 0, 1, 2


def exempt(channel: int, *, children: bool = False) -> None:
    """This process takes no time from now on; with `children`, nor do those that it starts, and theirs."""
    fcntl.ioctl(channel, _EXEMPT, _WITH_CHILDREN if children else _SELF)


def count(channel: int) -> None:
    """This process takes time, and draws from the machine's random numbers, until `exempt`."""
    fcntl.ioctl(channel, _EXEMPT, _NOTHING)


def serve_forks(channel: int) -> None:
    """Make machines, for as long as the lab asks for them. Returns in each of them, at the instant of the call."""
    fcntl.ioctl(channel, _FORK)
