"""Whose time a command runs in: what --clock, --backend, --router and --seed come to together, and this machine's lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self, cast

import typer

from lab.backend.agent.router import RouterChoice
from lab.backend.choose import Backend
from lab.cli.options import AskedBackend, AskedClock, host_limits
from lab.errors import UsageProblem
from lab.runner import machine
from lab.runner.clocks import ClockChoice
from lab.runner.session import Options
from lab.spec.clock import CHARGE_NS
from lab.spec.units import Duration

DEFAULT_SEED = Options().seed


@dataclass(frozen=True)
class Place:
    """Whose time a command asks for; `backend` and `router` are those of what runs in real time."""

    clock: ClockChoice
    backend: Backend = "namespaces"
    router: RouterChoice = "auto"
    seed: int = DEFAULT_SEED
    charge_ns: int = CHARGE_NS

    @property
    def shares_programs(self) -> bool:
        """Whether the hosts run this machine's own programs; containers and machines have theirs."""
        return self.backend == "namespaces"


@dataclass(frozen=True)
class Only:
    """An option that asks for one of the clocks, and why."""

    words: str
    why: str = ""


def place(
    clock: AskedClock,
    backend: AskedBackend,
    router: str,
    *,
    seed: int | None = None,
    price: Duration | None = None,
    real_only: Only | None = None,
) -> Place:
    """What the options come to together. Raises UsageProblem, one line, where they contradict each other.

    `real_only` is an option of the command's own that exists in real time alone.
    """
    virtual, real = _asked_for(clock, backend, router, real_only)
    if virtual and real:
        _contradiction(virtual, real)
    if real and seed is not None:
        _contradiction(Only(f"--seed {seed}"), Only(real.words, "nothing repeats this machine's own time"))
    if real and price is not None:
        _contradiction(Only(f"--price {price}"), Only(real.words, "there a system call takes what it takes"))
    hosts = "namespaces" if backend in _NO_REAL_HOSTS else backend.value
    return Place(
        "virtual" if virtual else "real" if real else "auto",
        cast(Backend, hosts),
        cast(RouterChoice, router),
        DEFAULT_SEED if seed is None else seed,
        CHARGE_NS if price is None else price.ns,
    )


def _asked_for(clock: AskedClock, backend: AskedBackend, router: str, real_only: Only | None) -> tuple[Only | None, Only | None]:
    """The option that asks for virtual time, and the one that asks for real time; the first of each."""
    virtual = Only("--clock virtual") if clock is AskedClock.VIRTUAL else None
    if backend is AskedBackend.VIRTUAL:
        virtual = virtual or Only("--backend virtual")
    if clock is AskedClock.REAL:
        return virtual, Only("--clock real")
    if backend not in _NO_REAL_HOSTS:
        return virtual, Only(f"--backend {backend.value}", "its hosts live by this machine's clock")
    if router != "auto":
        return virtual, Only(f"--router {router}", "in virtual time the router is the guest's own kernel")
    return virtual, real_only


def _contradiction(one: Only, other: Only) -> None:
    because = f": {other.why}" if other.why else ""
    raise UsageProblem(f"{one.words} and {other.words} contradict each other{because}", remedy="leave one of them out")


_NO_REAL_HOSTS = (AskedBackend.AUTO, AskedBackend.VIRTUAL)


class Turn:
    """This machine's, taken when a session first brings a network up in real time, and kept until the command ends.

    At once where it is known that real time is meant (`now`). Virtual time needs none: nothing that runs meanwhile changes what
    is measured there.
    """

    def __init__(self, wait: Duration, *, beside: bool, now: bool = False) -> None:
        self.beside = beside
        self._wait = wait
        self._now = now
        self._held = ExitStack()
        self._lock = Lock()
        self._taken = False

    def __enter__(self) -> Self:
        if self._now:
            self._take()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._held.close()

    @contextmanager
    def take(self) -> Iterator[None]:
        """Raises UsageProblem as `lab.runner.machine.measuring`."""
        self._take()
        yield

    def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._held.enter_context(machine.measuring(self._wait.s, _say, beside=self.beside))
                self._taken = True


def session_options(where: Place, turn: Turn, *, any_host: bool) -> Options:
    """What every command that runs cells gives its session; `replace` adds what is its own."""
    return Options(
        clock=where.clock,
        seed=where.seed,
        charge_ns=where.charge_ns,
        backend=where.backend,
        router=where.router,
        turn=turn.take,
        host_limits=host_limits(any_host),
        beside=turn.beside,
    )


def _say(text: str) -> None:
    typer.echo(f"lab: {text}", err=True)
