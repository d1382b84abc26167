"""A link with a schedule while one sample runs: put on the router, started with the client, taken off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.host import Network, Process
from lab.hosts.scripts import script_command
from lab.link import trace as traces
from lab.link.schedule import Change, plan_changes, plan_state
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.link import DirectionName, Link
from lab.model.topology import Schedule, Topology
from lab.model.trace import Trace
from lab.net.shape import DIRECTIONS, router_port, shape, without_seed

_SCHEDULE = Path(__file__).with_name("schedule_script.py")
_TRACE = Path(__file__).with_name("trace_script.py")
# The script has read its file and started tc by then. A row of a file takes some 0.7 us to read in virtual time.
_LEAD_S = 0.1
_LEAD_S_PER_ROW = 1.2e-6
# In virtual time a change is some microseconds late, the price of the script's own system calls.
_LATEST_NS = 1_000_000


@dataclass(frozen=True)
class Script:
    """A program on the router that changes the link at its instants; `late_ns` reads from its output how late it was at worst."""

    name: str
    program: Path
    file: bytes
    repeat_ns: int
    late_ns: Callable[[str], int]
    words: tuple[str, ...] = ()


class RunningSchedule:
    """Starts at `start`, which returns at that instant."""

    def __init__(self, network: Network, scripts: Sequence[Script]) -> None:
        self._network = network
        self._scripts = scripts
        self._running: list[tuple[Script, Process]] = []
        self.base_ns = 0
        """CLOCK_MONOTONIC of the schedule's beginning."""

    def start(self) -> None:
        network, router = self._network, self._network.router
        for script in self._scripts:
            router.write(f"{router.workdir}/{script.name}", script.file)
        rows = sum(script.file.count(b"\n") for script in self._scripts)
        self.base_ns = network.clock.next_start_ns(max(_LEAD_S, rows * _LEAD_S_PER_ROW))
        for script in self._scripts:
            words = (f"{router.workdir}/{script.name}", f"{self.base_ns}", f"{script.repeat_ns}", *script.words)
            self._running.append((script, router.start(script_command(router, script.program, *words), root=True)))
        network.clock.sleep((self.base_ns - network.clock.monotonic_ns()) / 1e9)

    def stop(self) -> None:
        """Raises LabFault where a change was late or refused. Idempotent."""
        ended = [(script, process.stop()) for script, process in self._running]
        self._running = []
        for script, done in ended:
            if done.returncode:
                raise LabFault(f"the link's schedule stopped: {done.error_text}")
            late_ns = script.late_ns(done.text)
            if late_ns > _LATEST_NS:
                raise LabFault(f"the link changed {late_ns / 1e6:.3f} ms late (at most {_LATEST_NS / 1e6:g} ms)")


@contextmanager
def scheduled(network: Network, topology: Topology) -> Iterator[RunningSchedule | None]:
    """The topology's link, ready to change; afterwards it is the plain link again. None for a link that does not change.

    Raises NotSupported in real time.
    """
    schedule, link = topology.schedule, topology.link
    if schedule is None:
        yield None
        return
    if network.clock.kind == "real":
        raise NotSupported(f"{topology.name} has a schedule, which runs in virtual time only", remedy="--clock virtual")
    if not network.router_facts.supports_seed:
        link = without_seed(link)
    ports: dict[DirectionName, str] = {way: router_port(network, way) for way in DIRECTIONS}
    if schedule.trace:
        setups, scripts = _of_trace(network, topology.name, link, schedule, ports)
    else:
        setups, scripts = _of_steps(network, link, schedule, ports)
    for way, port in ports.items():
        network.router.run(["tc", "qdisc", "del", "dev", port, "root"], root=True, check=False)
        for command in setups[way]:
            network.router.run(command, root=True)
    running = RunningSchedule(network, scripts)
    try:
        yield running
    finally:
        running.stop()
        for port in ports.values():
            network.router.run(["tc", "qdisc", "del", "dev", port, "root"], root=True, check=False)
        shape(network, topology.link)


Setups = dict[DirectionName, list[tuple[str, ...]]]


def _of_steps(network: Network, link: Link, schedule: Schedule, ports: dict[DirectionName, str]) -> tuple[Setups, list[Script]]:
    first = schedule.states(link)[0]
    setups: Setups = {way: plan_state(first, way).setup(port) for way, port in ports.items()}
    repeat_ns = schedule.repeat.ns if schedule.repeat else 0
    return setups, [_changes(network, plan_changes(link, schedule, ports), repeat_ns)]


def _of_trace(
    network: Network, name: str, link: Link, schedule: Schedule, ports: dict[DirectionName, str]
) -> tuple[Setups, list[Script]]:
    """A script per direction, because each has a length of its own, and one for round trips that change."""
    trace = schedule.trace
    if not isinstance(trace, Trace) or not trace.read:
        raise UsageProblem(f"{name}: its trace has not been read", remedy="give the topology's file")
    states = schedule.states(link)
    setups: Setups = {way: traces.setup(trace, states[0], way, port) for way, port in ports.items()}
    scripts = [
        Script(f"trace-{way}", _TRACE, _openings(trace, link, way, port), traces.period_ns(trace, way), late_ns=_latest)
        for way, port in ports.items()
    ]
    if len(states) > 1:
        changes = [
            Change(state.at_ns, tuple(traces.delay_change(trace, state, way, index, port) for way, port in ports.items()))
            for index, state in enumerate(states)
        ]
        scripts.append(_changes(network, changes, traces.period_ns(trace, "down")))
    return setups, scripts


def _changes(network: Network, changes: list[Change], repeat_ns: int) -> Script:
    """tc reads its own name in a batch as a command, so it is left out."""
    rows = ("\t".join((f"{at_ns}", *(" ".join(command[1:]) for command in commands))) for at_ns, commands in changes)
    file = "".join(f"{row}\n" for row in rows).encode()
    return Script("schedule", _SCHEDULE, file, repeat_ns, late_ns=_latest_of, words=(network.router.program("tc"),))


def _openings(trace: Trace, link: Link, way: DirectionName, port: str) -> bytes:
    head = f"{port} {traces.GATE} {traces.gate_packets(trace, link, way)}\n\n"
    return (head + "".join(f"{at_ns} 0 {size}\n" for at_ns, size in traces.opening_bytes(trace, link, way))).encode()


def _latest(text: str) -> int:
    return int(text)


def _latest_of(text: str) -> int:
    return max((int(now) - int(due) for due, now in (line.split() for line in text.splitlines())), default=0)
