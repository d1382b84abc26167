"""The combined effect of --clock, --backend, --router and their relatives, for the `lab` command and for plain `robot` alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.assets.tools import provide
from lab.hosts.agent.router import RouterChoice
from lab.hosts.choose import Backend, BackendChoice
from lab.judge.host import HostLimits
from lab.model.clock import CHARGE_NS, ClockChoice
from lab.model.errors import UsageProblem
from lab.model.units import Duration
from lab.model.userland import NO_USERLANDS, Userlands
from lab.run.lock import MachineLock
from lab.run.options import Options

DEFAULT_SEED = Options().seed
WAIT = Duration.parse("10 min")
"""A person sees at once which command measures; a CI job that comes second waits its turn."""
_NOT_REAL = ("auto", "virtual")


@dataclass(frozen=True)
class Only:
    """An option that exists by one of the clocks alone, and why."""

    words: str
    why: str = ""


@dataclass(frozen=True)
class RunSettings:
    """The settings of a command for its cells; `backend` and `router` are those of cells in real time."""

    clock: ClockChoice = "auto"
    backend: Backend = "namespaces"
    router: RouterChoice = "auto"
    seed: int = DEFAULT_SEED
    charge_ns: int = CHARGE_NS
    wait: Duration = WAIT
    beside: bool = False
    watch_host: bool = True
    userlands: Userlands = NO_USERLANDS

    @property
    def shares_programs(self) -> bool:
        """True if the hosts run this machine's own programs; containers and machines have theirs."""
        return self.backend == "namespaces"

    @contextmanager
    def options(self, *, real_now: bool | None = None) -> Iterator[Options]:
        """Options for the sessions of a command, which hold the machine's lock from their first network in real time on.

        The lock is taken at once with `real_now`, by default where everything runs in real time. It is kept until the block ends.
        Programs that this machine lacks are fetched first. Raises UsageProblem as `lab.run.lock.measuring`, LabFault where a
        program cannot be had.
        """
        at_once = self.clock == "real" if real_now is None else real_now
        if self.shares_programs:
            provide(_say)
        with MachineLock(self.wait.s, beside=self.beside, at_once=at_once) as lock:
            yield Options(
                clock=self.clock,
                seed=self.seed,
                charge_ns=self.charge_ns,
                userlands=self.userlands,
                backend=self.backend,
                router=self.router,
                turn=lock.take,
                host_limits=HostLimits() if self.watch_host else None,
                beside=self.beside,
            )


def _say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def choose(
    clock: ClockChoice,
    backend: BackendChoice,
    router: RouterChoice,
    *,
    seed: int | None = None,
    price: Duration | None = None,
    real_only: Only | None = None,
    wait: Duration = WAIT,
    beside: bool = False,
    any_host: bool = False,
    userlands: Sequence[str] = (),
) -> RunSettings:
    """The settings that options come to. Raises UsageProblem, one line, where they contradict each other.

    `real_only` is an option of the command's own that exists in real time alone.
    """
    virtual, real = _asked_for(clock, backend, router, real_only)
    if virtual and real:
        _contradiction(virtual, real)
    if real and seed is not None:
        _contradiction(Only(f"--seed {seed}"), Only(real.words, "nothing repeats this machine's own time"))
    if real and price is not None:
        _contradiction(Only(f"--price {price}"), Only(real.words, "there a system call takes what it takes"))
    if real and userlands:
        _contradiction(Only(f"--userland {userlands[0]}"), Only(real.words, "userlands exist in virtual time only"))
    return RunSettings(
        clock="virtual" if virtual else "real" if real else "auto",
        backend="namespaces" if backend == "auto" or backend == "virtual" else backend,  # noqa: PLR1714 - narrows the type
        router=router,
        seed=DEFAULT_SEED if seed is None else seed,
        charge_ns=CHARGE_NS if price is None else price.ns,
        wait=wait,
        beside=beside,
        watch_host=not any_host,
        userlands=Userlands.parse(userlands),
    )


def _asked_for(
    clock: ClockChoice, backend: BackendChoice, router: RouterChoice, real_only: Only | None
) -> tuple[Only | None, Only | None]:
    """The option that asks for virtual time, and that for real time; the first of each."""
    virtual = Only("--clock virtual") if clock == "virtual" else None
    if backend == "virtual":
        virtual = virtual or Only("--backend virtual")
    if clock == "real":
        return virtual, Only("--clock real")
    if backend not in _NOT_REAL:
        return virtual, Only(f"--backend {backend}", "its hosts live by this machine's clock")
    if router != "auto":
        return virtual, Only(f"--router {router}", "in virtual time the router is the guest's own kernel")
    return virtual, real_only


def _contradiction(one: Only, other: Only) -> None:
    because = f": {other.why}" if other.why else ""
    raise UsageProblem(f"{one.words} and {other.words} contradict each other{because}", remedy="leave one of them out")
