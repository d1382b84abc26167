"""The options by which the command line may change every cell of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from lab.assets.inferno import Inferno
from lab.hosts.agent.router import RouterChoice
from lab.hosts.choose import Backend
from lab.judge.decide import VIRTUAL_PLAN
from lab.judge.host import HostLimits
from lab.judge.tolerance import LookPlan
from lab.model.clock import CHARGE_NS, ClockChoice
from lab.model.userland import NO_USERLANDS, Userlands
from lab.net.calibrate import Tolerance
from lab.run.instruments import Instruments
from lab.servers.sshd import SshdOptions


@dataclass(frozen=True)
class Options:
    """The options by which the command line may change every cell of a session."""

    router: RouterChoice = "auto"
    backend: Backend = "namespaces"
    clock: ClockChoice = "real"
    """virtual: every cell in a machine of its own, which no other process disturbs; the backend is `virtual` then."""
    seed: int = 1
    """Another seed gives other samples in virtual time."""
    twins: Mapping[str, str] = field(default_factory=dict)
    """Names of clients whose samples get the seeds of another's: a baseline meets the losses that its candidate meets."""
    machine_seed: int | None = None
    """The seed of every machine, in place of the seed that follows from `seed` and the machine's cells."""
    turn: Callable[[], AbstractContextManager[None]] | None = None
    """Entered before the first network in real time comes up: this machine's lock. Virtual time needs none."""
    userlands: Userlands = NO_USERLANDS
    """Root folders whose programs the hosts run in virtual time."""
    charge_ns: int = CHARGE_NS
    """The virtual time that a system call takes."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every client and command, in both clocks; no other is passed on from the caller."""
    pcap: bool = False
    why: bool = False
    """Every sample in virtual time is watched at both ends, and says what held it back."""
    looks: LookPlan = field(default_factory=LookPlan)
    virtual_looks: LookPlan = VIRTUAL_PLAN
    """In virtual time, where samples are cheap."""
    tolerance: Tolerance = field(default_factory=Tolerance)
    sshd: SshdOptions = field(default_factory=SshdOptions)
    flamegraph: Inferno | None = None
    """With these tools, one run more per cell of a suite."""
    syscalls: bool = False
    """One run more per cell of a suite, with its system calls counted."""
    instruments: Instruments = field(default_factory=Instruments)
    """The functions that act on hosts and links."""
    name: str = ""
    """The network's name; left out, it is the run's."""
    host_limits: HostLimits | None = None
    """The machine is watched, and samples that it spoilt are set aside; not where left out. The `lab` command has it on."""
    beside: bool = False
    """Another lab runs at the same time, and its processes are not foreign ones; both have the machine's lock to say so."""
