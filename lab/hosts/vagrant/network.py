"""A topology's three hosts as virtual machines: reached by SSH, each lab port alone in a network namespace of its machine.

linux (lab: eth0) ─── roughwater-client ─── router (lab: to-client, to-server) ─── roughwater-server ─── server (lab: eth0)
Vagrant's own ports stay outside `lab` and carry only commands and their output.

A Windows client has no namespaces: its lab port is next to Vagrant's, with a route to the
server's network. The machine `linux` is then the network's `prober`, which measures the link.
"""

from __future__ import annotations

import fcntl
import os
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from lab.hosts.agent.router import RouterChoice, iproute2_version, kernel_has_netem
from lab.hosts.clocks import InRealTime
from lab.hosts.host import Host, Ports, RouterFacts
from lab.hosts.ping import ping
from lab.hosts.ssh.config import Target
from lab.hosts.ssh.connection import Connection
from lab.hosts.ssh.linux import LinuxHost, open_host
from lab.hosts.ssh.machine_problems import architecture_problem, clock_problem
from lab.hosts.vagrant.machines import CLIENT_VARIABLE, bring_up, machine_id, patience
from lab.hosts.windows.answers import NOT_RUN
from lab.hosts.windows.host import WindowsHost, open_windows
from lab.hosts.wiring import ROUTER_MACS, Addresses
from lab.link.netem import supports_seed
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir, shipped_root
from lab.model.units import Duration

ROUTER, SERVER, CLIENT = "router", "server", "linux"
ADDRESSES = Addresses()
PORTS = Ports(client="to-client", server="to-server")
# The same table is in the Vagrantfile; a test compares the two.
MACS: dict[str, tuple[str, ...]] = {
    "router": (ROUTER_MACS["client"], ROUTER_MACS["server"]),
    "client": ("02:54:4c:01:00:02",),
    "server": ("02:54:4c:02:00:02",),
}
# Last number of its address, which is that of its MAC too.
WINDOWS: dict[str, int] = {"windows-2022": 3, "windows-11": 4}
_NAMESPACE = _USER = "lab"
# Commands are timed on the lab's clock to this at worst; the wire's series has slots of 10 ms.
_MOST_CLOCK_ERROR_NS = 20_000_000
_OWN_PINGS = 21
# One way, while the own round trip is timed: on an emulated processor what netem holds back goes on late.
_PROBE_DELAY_MS = 10.0
# These machines outlive a lab, and with them what the last one shaped. $@ ports.
_UNSHAPE = """\
for port; do case $(tc qdisc show dev "$port") in *netem*) tc qdisc del dev "$port" root ;; esac; done
"""
# $1 microseconds, then ports.
_PROBE = """\
delay=$1; shift
for port; do tc qdisc add dev "$port" root netem delay "${delay}us" limit 1000; done
"""
_FACTS = """\
. /etc/os-release; echo "$PRETTY_NAME"; uname -r
{ cat /sys/class/dmi/id/product_name || echo unknown; } 2>/dev/null
ethtool -i "$1" | sed -n 's/^driver: //p'
"""


@dataclass
class VagrantNetwork(InRealTime):
    """A `Network` (`lab.hosts.host`) of virtual machines. Closing it ends the commands on them; the machines stay up.

    `own_delay` is the path's one-way delay without netem, some milliseconds on emulated machines. netem adds the rest of a
    link's delay (`lab.net.shape`).
    """

    name: str
    client: LinuxHost | WindowsHost
    prober: LinuxHost
    router: LinuxHost
    server: LinuxHost
    wire: LinuxHost
    router_facts: RouterFacts
    backend_facts: Mapping[str, str]
    own_delay: Duration = Duration(0)
    router_ports: Ports = PORTS
    wire_ports: Ports = PORTS
    backend: str = "vagrant"
    first_processes: tuple[int, ...] = (0,)  # the provider's, whose CPU looks like any other process's
    held: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """End the commands on the machines. Idempotent."""
        self.held.close()


def open_network(*, router: RouterChoice = "auto", name: str = "") -> VagrantNetwork:
    """Bring the machines up and wire them.

    Raises UsageProblem for what is missing (Vagrant, a provider, a box, a machine), LabFault for a machine that is not fit.
    """
    if router == "uml":
        raise UsageProblem("the router of virtual machines is a kernel's", remedy="leave --router uml away")
    client = os.environ.get(CLIENT_VARIABLE, "") or CLIENT
    is_windows = client in WINDOWS
    if client.startswith("windows") and not is_windows:
        raise UsageProblem(
            f"{CLIENT_VARIABLE} names {client}, and the lab knows no such Windows machine", remedy="use " + " or ".join(WINDOWS)
        )
    prober = CLIENT if is_windows else client
    with ExitStack() as stack:
        stack.enter_context(_lock())
        targets, facts = bring_up(tuple(dict.fromkeys((ROUTER, SERVER, prober, client))))
        with ThreadPoolExecutor(4) as pool:
            roles = {"router": targets[ROUTER], "server": targets[SERVER], "client": targets[prober]}
            jobs = [pool.submit(_host, role, target, is_windows=is_windows) for role, target in roles.items()]
            window = pool.submit(_windows, targets[client]) if is_windows else None
        for job in jobs:
            if not job.exception():
                stack.callback(job.result().close)
        if window and not window.exception():
            stack.callback(window.result().close)
        middle, server, beside = (job.result() for job in jobs)
        router_facts = _router_facts(middle)
        facts |= {f"{host.name} machine": _machine_facts(host) for host in (middle, server, beside)}
        end: LinuxHost | WindowsHost = beside
        if window:
            end = window.result()
            facts |= {"client machine": _windows_facts(end), "windows": NOT_RUN}
        own_ms = own_round_trip_ms(beside, middle, server)
        facts |= {"path": f"own round trip {own_ms:.2f} ms, taken off the link's delay"}
        wire, own_delay = middle.renamed("wire", ""), Duration(round(own_ms * 1e6 / 2))
        hosts = (end, beside, middle, server, wire)
        return VagrantNetwork(name or "vagrant", *hosts, router_facts, facts, own_delay, held=stack.pop_all())


def own_round_trip_ms(prober: Host, router: Host, server: Host) -> float:
    """The path's round trip without netem's delay, timed as the calibration does: the median.

    Nothing is shaped before and after, whatever an earlier lab has left.
    """
    ports = (PORTS.client, PORTS.server)
    unshape = ["/bin/sh", "-ec", _UNSHAPE, "unshape", *ports]
    router.run(unshape, root=True)
    if _PROBE_DELAY_MS:
        router.run(["/bin/sh", "-ec", _PROBE, "probe", f"{_PROBE_DELAY_MS * 1000:.0f}", *ports], root=True)
    try:
        return max(0.0, statistics.median(ping(prober, server.address, _OWN_PINGS)) - 2 * _PROBE_DELAY_MS)
    finally:
        router.run(unshape, root=True)


def wire_script() -> str:
    """The script that wires a machine, run by Vagrant at every boot and by the lab at every start. Idempotent."""
    return (shipped_root() / "images" / "vagrant" / "linux" / "wire.sh").read_text(encoding="utf-8")


def route_script() -> str:
    """The script that sets a Windows machine's routes, run like `wire_script`. Idempotent."""
    return (shipped_root() / "images" / "vagrant" / "windows" / "route.ps1").read_text(encoding="utf-8")


def _windows(target: Target) -> WindowsHost:
    number = WINDOWS[target.name]
    mac = f"02:54:4c:01:00:{number:02x}"
    host, _ = open_windows(
        Connection(target, machine_id(target.name)),
        name="client",
        address=f"10.77.1.{number}",
        mac=mac,
        gateway=ADDRESSES.client_gateway,
        server_address=ADDRESSES.server,
    )
    try:
        _assert_clock("client", host.clock.error_ns)
        host.script(route_script(), arguments={"Mac": mac, "Network": "1", "Address": str(number)})
    except BaseException:
        host.close()
        raise
    return host


def _assert_clock(role: str, error_ns: float) -> None:
    if error_ns > _MOST_CLOCK_ERROR_NS:
        raise LabFault(
            f"{role}: the machine answers in {error_ns / 5e5:.0f} ms, too slowly to set its clock by",
            remedy="is this machine overloaded?",
        )


def _host(role: str, target: Target, *, is_windows: bool = False) -> LinuxHost:
    """`is_windows`: the client runs Windows, and the Linux machine on its side is the prober."""
    setup = ["/bin/sh", "-c", wire_script(), "wire.sh", role, *MACS[role]]
    address = {"client": ADDRESSES.client, "server": ADDRESSES.server, "router": ADDRESSES.client_gateway}[role]
    connection = Connection(target, machine_id(target.name))
    asked = time.time()
    name = "prober" if is_windows and role == "client" else role
    host = open_host(connection, name=name, address=address, user=_USER, namespace=_NAMESPACE, setup=setup, patience=patience())
    try:
        # Somewhere between the question and the answer: a boot's worth of either is not blamed on the clock.
        ours = min(max(host.identity.utc_s, asked), time.time())
        for problem in (clock_problem(name, host.identity.utc_s, ours), architecture_problem(name, host.identity.machine)):
            if problem:
                raise problem
        _assert_clock(name, host.clock.error_ns)
    except BaseException:
        host.close()
        raise
    return host


def _router_facts(router: LinuxHost) -> RouterFacts:
    if not kernel_has_netem(router):
        raise UsageProblem("the router's kernel has no sch_netem", remedy="vagrant provision router says what is missing")
    kernel, _, version = router.run(["/bin/sh", "-c", "uname -r; tc -V"]).text.strip().partition("\n")
    iproute2 = iproute2_version(version)
    note = f"clocks of the machines agree to {router.clock.error_ns / 1e6:.2f} ms"
    return RouterFacts("kernel", kernel, iproute2, supports_seed(kernel, iproute2), notes=(note,))


def _machine_facts(host: LinuxHost) -> str:
    port = PORTS.client if host.name == "router" else "eth0"
    words = host.run(["/bin/sh", "-c", _FACTS, "facts", port], root=True, check=False).text.split("\n")
    system, kernel, product, driver = [*words, "", "", "", ""][:4]
    return f"{system}, kernel {kernel}, {product}, port {driver}, clock {host.clock.error_ns / 1e6:.2f} ms"


def _windows_facts(host: WindowsHost) -> str:
    facts = host.machine_facts()
    words = [f"{facts.get('caption')}, build {facts.get('build')}", f"port {facts.get('nic')}"]
    return ", ".join([*words, f"clock {host.clock.error_ns / 1e6:.2f} ms"])


def _lock() -> IO[bytes]:
    """Only one lab may use these machines at a time; the lock ends with this process."""
    path: Path = cache_dir() / "vagrant" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise LabFault("another lab is using the virtual machines", remedy="wait until it has ended") from None
    return file
