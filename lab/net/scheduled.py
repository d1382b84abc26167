"""A link with a schedule while one sample runs: put on the router, started with the client, taken off again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.hosts.host import Network, Process
from lab.hosts.scripts import script_command
from lab.link.schedule import Change, plan_changes, plan_state
from lab.model.errors import LabFault, NotSupported
from lab.model.topology import DirectionName, Schedule, Topology
from lab.net.shape import DIRECTIONS, router_port, shape, without_seed

_SCRIPT = Path(__file__).with_name("schedule_script.py")
# The script has read its file and started tc by then.
_LEAD_S = 0.1
# In virtual time a change is some microseconds late, the price of the script's own system calls.
_LATEST_NS = 1_000_000


class RunningSchedule:
    """Starts at `start`, which returns at that instant."""

    def __init__(self, network: Network, schedule: Schedule, changes: list[Change]) -> None:
        self._network = network
        self._repeat_ns = schedule.repeat.ns if schedule.repeat else 0
        self._changes = changes
        self._process: Process | None = None
        self.base_ns = 0
        """CLOCK_MONOTONIC of the schedule's beginning."""

    def start(self) -> None:
        network = self._network
        path = f"{network.router.workdir}/schedule"
        network.router.write(path, _lines(self._changes))
        self.base_ns = network.clock.monotonic_ns() + round(_LEAD_S * 1e9)
        words = (path, f"{self.base_ns}", f"{self._repeat_ns}", network.router.program("tc"))
        self._process = network.router.start(script_command(network.router, _SCRIPT, *words), root=True)
        network.clock.sleep((self.base_ns - network.clock.monotonic_ns()) / 1e9)

    def stop(self) -> None:
        """Raises LabFault where a change was late or refused. Idempotent."""
        if self._process is None:
            return
        done = self._process.stop()
        self._process = None
        if done.returncode:
            raise LabFault(f"the link's schedule stopped: {done.error_text}")
        late_ns = max((int(now) - int(due) for due, now in (line.split() for line in done.text.splitlines())), default=0)
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
    first = schedule.states(link)[0]
    for way, port in ports.items():
        network.router.run(["tc", "qdisc", "del", "dev", port, "root"], root=True, check=False)
        for command in plan_state(first, way).setup(port):
            network.router.run(command, root=True)
    running = RunningSchedule(network, schedule, plan_changes(link, schedule, ports))
    try:
        yield running
    finally:
        running.stop()
        shape(network, topology.link)


def _lines(changes: list[Change]) -> bytes:
    """The script's file. tc reads its own name in a batch as a command, so it is left out."""
    rows = ("\t".join((f"{at_ns}", *(" ".join(command[1:]) for command in commands))) for at_ns, commands in changes)
    return "".join(f"{row}\n" for row in rows).encode()
