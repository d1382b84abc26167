"""A user's own test suite in the machine of virtual time, and its outcome."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lab.assets.tools import provide
from lab.hosts.agent.project import TESTER
from lab.hosts.host import Completed, shell_code
from lab.hosts.virtual.host import environment as machines_environment
from lab.hosts.virtual.machine import Patience
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.hosts.virtual.project import Caller, ProjectHost
from lab.model.errors import LabFault
from lab.model.topology import Topology
from lab.model.wiring import Wiring
from lab.net.scheduled import scheduled
from lab.run.project.plan import PROGRAMS, Plan, Step, search_path
from lab.run.project.reports import chosen, write_into
from lab.run.project.watch import LastLine, Limit, Limits, Show, watched
from lab.run.virtual_machines import VirtualMachines
from lab.run.virtual_network import open_shaped
from lab.servers.bundle import Servers, places, start_servers

LIMIT_CODE = 124
_LONGEST_S = 1e9
"""On the host's clock: a suite is not to blame for a busy host."""
_ONE_PROCESSOR = {"GOMAXPROCS": "1"}
# A program that is ended would keep its last lines.
_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """A suite and its conditions. `project` is writable inside; `patterns` name reports besides the usual ones."""

    project: Path
    plan: Plan
    variables: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    memory_bytes: int = 1 << 30
    limit_s: float = 600.0
    cpu_limit_s: float = 600.0
    seed: int = 1
    topology: Topology | None = None
    servers: bool = False


@dataclass
class SuiteOutcome:
    """The outcome of a suite. CPU and real seconds are the host's, from the boot of the machine on."""

    exit_code: int = 0
    ended: Literal["program", "lab"] = "program"
    limit: Limit | None = None
    virtual_s: float = 0.0
    real_s: float = 0.0
    cpu_s: float = 0.0
    interruptions: int = 0
    """The number of times that the kernel took the processor back from a program that computed for long."""
    reports: dict[str, str] = field(default_factory=dict)
    """Files that were copied out, by their paths in the project, with their SHA-256."""
    last_line: str = ""
    digest: str = ""
    """SHA-256 of exit codes, virtual times, output and reports: runs with the same digest went the same way."""

    def recorded(self) -> dict[str, Any]:
        """The outcome as plain values for JSON."""
        return {
            **asdict(self),
            "virtual_s": round(self.virtual_s, 9),
            "real_s": round(self.real_s, 3),
            "cpu_s": round(self.cpu_s, 2),
        }


class _Digest:
    """SHA-256 of parts, and of the two streams of output, which come in pieces."""

    def __init__(self) -> None:
        self._found, self._streams = hashlib.sha256(), (hashlib.sha256(), hashlib.sha256())

    def add(self, *parts: bytes) -> None:
        for part in parts:
            self._found.update(len(part).to_bytes(8, "big"))
            self._found.update(part)

    def stream(self, text: bytes, errors: bytes) -> None:
        for stream, part in zip(self._streams, (text, errors), strict=True):
            stream.update(part)

    @property
    def text(self) -> str:
        self.add(*(stream.digest() for stream in self._streams))
        return self._found.hexdigest()


def run_suite(asked: Asked, show: Show, say: Say, prepare: Callable[[Servers, list[str]], None]) -> SuiteOutcome:
    """Run the commands one after the other, and copy new reports into the project. `say` takes lines of the lab's own.

    `prepare` gets the servers, if there are any, and the commands' words.
    Raises LabFault where the machine cannot be had or the link is not what it claims to be.
    """
    began, outcome, digest = time.monotonic(), SuiteOutcome(), _Digest()
    if not asked.plan.steps:
        say("there are no tests to run")
        return outcome
    with ExitStack() as stack:
        network, given = stack.enter_context(_opened(asked, say, prepare))
        host, shown = _furnished(network, asked)
        last, limits = LastLine(), Limits(network.machine, asked.limit_s, asked.cpu_limit_s)

        def seen(text: bytes, errors: bytes) -> None:
            last.feed(text, errors)
            digest.stream(text, errors)
            show(text, errors)

        for number, step in enumerate(asked.plan.steps):
            if len(asked.plan.steps) > 1:
                say(f"{number + 1} of {len(asked.plan.steps)}: {step.name}")
            with scheduled(network, asked.topology) if asked.topology else nullcontext() as changing:
                if changing:
                    changing.start()
                program = step.argv[0].replace(PROGRAMS, shown) if shown else step.argv[0]
                environment = variables(step, program, given, asked.variables)
                process = host.begin([program, *step.argv[1:]], environment, step.folder)
                done, outcome.limit = watched(process, limits, seen)
            _note(outcome, done, digest)
            if outcome.limit or (done.returncode and asked.plan.stops):
                break
        if outcome.limit:
            outcome.exit_code, outcome.ended = LIMIT_CODE, "lab"
        outcome.last_line, outcome.cpu_s = last.text, network.machine.cpu_s()
        _copy_out(host, asked, outcome, digest, say)
    outcome.real_s, outcome.digest = time.monotonic() - began, digest.text
    return outcome


def variables(step: Step, program: str, servers: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """A command's environment but for what every command inside has. Programs next to it come first on its PATH."""
    own = [step.environment.get("PATH", ""), os.path.dirname(program)]  # noqa: PTH120 - a command's first word may be a name
    path = search_path(word for word in (*own, machines_environment({})["PATH"]) if word.startswith("/"))
    user = TESTER if os.geteuid() else "root"
    return {**_ONE_PROCESSOR, **_UNBUFFERED, "USER": user, "LOGNAME": user, **servers, **step.environment, "PATH": path, **given}


@contextmanager
def _opened(
    asked: Asked, say: Say, prepare: Callable[[Servers, list[str]], None]
) -> Iterator[tuple[VirtualNetwork, Mapping[str, str]]]:
    """The network, and the variables by which its servers are found."""
    topology, patience = asked.topology, Patience(cpu_s=asked.cpu_limit_s, real_s=_LONGEST_S)
    started: Servers | None = None
    if topology:
        found = VirtualMachines().certified(topology)
        if not found.ok:
            raise LabFault(f"the link of {topology.name} is not what it claims to be: {found.problems[0]}")
        network, started = open_shaped(
            topology, seed=asked.seed, patience=patience, name="test", say=say, memory_bytes=asked.memory_bytes
        )
    else:
        provide(say)
        network = open_network(
            seed=asked.seed, memory_bytes=asked.memory_bytes, patience=patience, name="test", wiring=Wiring(same_host=True)
        )
    # It would advise a clock that this command does not have; the CPU limit ends such a program.
    network.machine.warn = lambda _: None
    try:
        if asked.servers:
            started = start_servers(
                network, places=places(Wiring(same_host=True)), clock=network.clock, random_bytes=network.random_bytes
            )
        if started:
            prepare(started, [word for step in asked.plan.steps for word in step.argv])
        yield network, started.environment if started else {}
    finally:
        network.close()


def _furnished(network: VirtualNetwork, asked: Asked) -> tuple[ProjectHost, str]:
    """The host, and the path inside of the plan's programs."""
    plan = asked.plan
    shown = network.client.show(str(plan.programs)) if plan.programs else ""
    words = [word for step in plan.steps for word in (*step.argv, str(step.folder)) if word.startswith("/")]
    return ProjectHost(network, asked.project, Caller.own(), words, plan.writable), shown


def _note(outcome: SuiteOutcome, done: Completed, digest: _Digest) -> None:
    code = shell_code(done.returncode)
    outcome.exit_code = outcome.exit_code or code
    outcome.virtual_s += done.wall_s
    outcome.interruptions += done.interruptions
    digest.add(str(code).encode(), str(done.ended_ns - done.started_ns).encode())


def _copy_out(host: ProjectHost, asked: Asked, outcome: SuiteOutcome, digest: _Digest, say: Say) -> None:
    found = host.reports()
    for name in chosen(found, asked.patterns):
        data = host.read(found[name])
        digest.add(name.encode(), data)
        try:
            write_into(asked.project, name, data)
        except LabFault as fault:
            say(str(fault))
        else:
            outcome.reports[name] = hashlib.sha256(data).hexdigest()


def as_json(command: list[str], asked: Asked, outcome: SuiteOutcome) -> str:
    """The outcome with what was asked for."""
    facts = {
        "command": command,
        "project": str(asked.project),
        "topology": asked.topology.name if asked.topology else None,
        "seed": asked.seed,
        "memory_bytes": asked.memory_bytes,
    }
    return json.dumps({**facts, **outcome.recorded()}, indent=2) + "\n"
