"""What containers do by themselves, as far as it can be seen without one."""

from __future__ import annotations

import fcntl
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from lab.hosts.agent import router as middle
from lab.hosts.agent.protocol import UnixChannel
from lab.hosts.compose.inside import links
from lab.hosts.compose.inside.entry import ContainerAgent
from lab.hosts.host import Completed, Ports
from lab.hosts.local import LocalHost
from lab.link.plan import QdiscPlan, plan
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import Link
from lab.model.load import list_topologies, load_topology
from lab.model.obeyed import refusal
from lab.model.paths import project_root
from lab.model.topology import Topology
from lab.run import container as hand
from lab.run import container_health as health
from lab.run.container import ContainerSetup
from lab.servers.process import ServerProcess

PORTS = Ports("to-client", "to-server")
# Everything a table can hold, different both ways.
RICH = Topology(
    name="rich",
    description="a link with everything",
    congestion_control="reno",
    link=Link.model_validate(
        {
            "rate": "40 Mbit/s",
            "rtt": "31 ms",
            "jitter": "333 us",
            "loss": "0.1 %",
            "reorder": "1 %",
            "corrupt": "0.01 %",
            "duplicate": "0.3 %",
            "seed": 7,
            "mtu": 1400,
            "up": {"rate": "3 Mbit/s", "queue": "50 packets"},
        }
    ),
)
# Modules that run inside images that contain only Python.
STDLIB_ONLY = (
    "lab.hosts.agent.uml_launch",
    "lab.hosts.compose.inside.entry",
    "lab.run.container",
    "lab.run.container_health",
    "lab.hosts.compose.inside.links",
    "lab.net.pins",
    "lab.servers.nginx",
    "lab.servers.payload",
    "lab.model.units",
)


class Stub(LocalHost):
    """A host that answers from a table instead of running anything: the longest matching beginning of the command wins."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__("stub", Path("/nowhere"))
        self.answers = answers
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        line = " ".join(argv)
        self.ran.append(line)
        found = max((key for key in self.answers if line.startswith(key)), key=len, default=None)
        text = self.answers[found] if found else ""
        return Completed(tuple(argv), 0, text.encode(), b"", 0, 0, 0.0, 0.0)


def tables(folder: Path, *topologies: Topology) -> Path:
    for topology in topologies:
        (folder / f"{topology.name}.json").write_text(json.dumps(links.table(topology)))
    return folder


def printed(found: QdiscPlan | None) -> str:
    """As tc 6.15 prints that netem."""
    if found is None:
        return json.dumps([{"kind": "noqueue", "root": True, "options": {}}])
    options: dict[str, Any] = {"limit": found.limit_packets, "delay": {"delay": found.delay.s, "jitter": found.jitter.s}}
    for group, name in (("loss-random", "loss"), ("reorder", "reorder"), ("corrupt", "corrupt"), ("duplicate", "duplicate")):
        options[group] = {name: getattr(found, name).value}
    if found.rate:
        options["rate"] = {"rate": found.rate.bit_s // 8}
    options |= {"seed": found.seed, "gap": 1 if found.reorder.value else 0}
    return json.dumps([{"kind": "netem", "root": True, "options": options}])


def router_with(profile: links.Profile) -> Stub:
    plans = {PORTS.server: profile.plans["up"], PORTS.client: profile.plans["down"]}
    return Stub({f"tc -j qdisc show dev {port}": printed(found) for port, found in plans.items()})


# agent -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def claimed(tmp_path: Path) -> Iterator[tuple[ContainerAgent, IO[bytes]]]:
    """A container's agent, and the lock of the lab that is making the container."""
    waking, wake = os.pipe()
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there, (tmp_path / "claim").open("wb") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        yield ContainerAgent(here, waking, os.getuid(), str(tmp_path / "claim")), claim
    os.close(waking)
    os.close(wake)


def test_a_container_without_a_hold_ends_with_the_lock_of_its_lab(claimed: tuple[ContainerAgent, IO[bytes]]) -> None:
    agent, claim = claimed
    agent.after_waiting()
    assert not agent.stopping
    assert agent.timeout_s() is not None, "it looks again without being asked anything"
    claim.close()
    agent.after_waiting()
    assert agent.stopping


def test_a_container_with_a_hold_ends_with_that_connection(claimed: tuple[ContainerAgent, IO[bytes]]) -> None:
    agent, claim = claimed
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        channel = UnixChannel(here)
        agent.request(channel, {"op": "hold"}, [])
        claim.close()
        agent.after_waiting()
        assert not agent.stopping
        agent.hang_up(channel)
        assert agent.stopping


# links -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*list_topologies(), RICH.name])
def test_a_table_reads_back_as_the_plan_it_was_made_from(name: str, tmp_path: Path) -> None:
    topology = RICH if name == RICH.name else load_topology(name)
    if problem := refusal("compose", topology, "real"):
        with pytest.raises(UsageProblem, match=rf"^LINK={name}: {re.escape(str(problem))}$"):
            links.load(name, tables(tmp_path, topology))
        return
    found = links.load(topology.name, tables(tmp_path, topology))
    assert (found.name, found.mtu, found.congestion_control) == (topology.name, topology.link.mtu, topology.congestion_control)
    for direction in links.DIRECTIONS:
        assert found.plans[direction] == plan(topology.link.direction(direction), topology.link.rtt, supports_seed=True)
    assert found.rtt == topology.link.rtt


def test_an_unknown_link_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"LINK=dsl-21: .*there are: dsl-20, rich\)"):
        links.load("dsl-21", tables(tmp_path, RICH, load_topology("dsl-20"), load_topology("train")))


@pytest.mark.parametrize("name", ["", "../rich", "rich.json"])
def test_a_link_is_a_name_and_no_path(name: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    tables(tmp_path, RICH)
    with pytest.raises(UsageProblem, match="no such link"):
        links.load(name, tmp_path / "inner")


@pytest.mark.parametrize("damage", ["", "{}", '{"up": {"limit_packets": 1}}', "[]"])
def test_a_damaged_table_is_the_labs_fault(damage: str, tmp_path: Path) -> None:
    (tables(tmp_path, RICH) / "rich.json").write_text(damage)
    with pytest.raises(LabFault, match="rich is damaged"):
        links.load("rich", tmp_path)


def test_a_link_is_put_where_it_belongs_and_read_back(tmp_path: Path) -> None:
    profile = links.load("rich", tables(tmp_path, RICH))
    router = router_with(profile)
    links.put(router, PORTS, profile)
    added = {line.split()[4]: line for line in router.ran if line.startswith("tc qdisc add")}
    assert "rate 3000000bit" in added["to-server"]
    assert "rate 40000000bit" in added["to-client"]
    assert "seed 7" in added["to-client"]


def test_a_link_that_is_not_held_is_refused(tmp_path: Path) -> None:
    profile = links.load("rich", tables(tmp_path, RICH))
    router = router_with(profile)
    # As if both ports held the link of the way down.
    router.answers[f"tc -j qdisc show dev {PORTS.server}"] = printed(profile.plans["down"])
    with pytest.raises(LabFault, match=r"up: .*rate is 40000000 bit/s, not 3000000 bit/s"):
        links.put(router, PORTS, profile)


def test_a_tc_that_does_not_speak_json_is_named(tmp_path: Path) -> None:
    profile = links.load("rich", tables(tmp_path, RICH))
    with pytest.raises(LabFault, match="something else than JSON"):
        links.differences(Stub({"tc": "Segmentation fault"}), PORTS, profile)


# hand ------------------------------------------------------------------------------------------------------------------


def ip_address(**devices: str) -> str:
    return json.dumps([{"ifname": name, "addr_info": [{"local": address}]} for name, address in devices.items()])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (ip_address(lo="127.0.0.1", eth0="10.77.1.254", eth1="10.77.2.254"), Ports("eth0", "eth1")),
        (ip_address(eth0="10.77.2.254", eth1="10.77.1.254", lo="127.0.0.1"), Ports("eth1", "eth0")),
    ],
)
def test_ports_are_identified_by_their_networks(said: str, expected: Ports) -> None:
    assert middle.ports_of(Stub({"ip -j -4 address": said}), ContainerSetup().addresses) == expected


def test_a_missing_network_is_named() -> None:
    with pytest.raises(LabFault, match=r"10\.77\.2\.0/24"):
        middle.ports_of(Stub({"ip -j -4 address": ip_address(eth0="10.77.1.254")}), ContainerSetup().addresses)


def test_credentials_that_never_come_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    with pytest.raises(LabFault, match=r"known_hosts within 0\.1 s"):
        hand.await_credentials(tmp_path, 0.1)


def test_credentials_may_come_late(tmp_path: Path) -> None:
    def come() -> None:
        (tmp_path / ".ssh").mkdir()
        for name in ("ca.pem", ".ssh/known_hosts", ".ssh/id_ed25519"):
            (tmp_path / name).touch()

    timer = threading.Timer(0.2, come)
    timer.start()
    hand.await_credentials(tmp_path, 10)
    timer.join()
    assert (tmp_path / ".ssh/id_ed25519").exists()


def test_a_server_that_ends_is_reported_in_its_own_words(tmp_path: Path) -> None:
    host = LocalHost("server", tmp_path)
    lasting = ServerProcess("nginx", host, (host.start(["sleep", "60"]),), ())
    ending = ServerProcess("sshd", host, (host.start(["sh", "-c", "sleep 0.1; echo no host keys >&2; exit 3"]),), ())
    try:
        with pytest.raises(LabFault, match=r"sshd ended \(3\): no host keys"):
            hand.watch([lasting, ending], pause_s=0.02)
    finally:
        host.close()


def run_inside(module: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a container would: no site-packages, this checkout on the path."""
    start = f"import sys, runpy; sys.path.insert(0, {str(project_root())!r}); runpy.run_module({module!r}, run_name='__main__')"
    argv = [sys.executable, "-I", "-S", "-c", start, *args]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=60)


def test_an_unknown_link_ends_the_container_with_one_line() -> None:
    done = run_inside("lab.run.container", "router", LINK="nonsense")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["router: LINK=nonsense: there is no such link (there are: none in this image)"]


def test_an_unknown_role_is_a_usage_problem() -> None:
    assert run_inside("lab.run.container", "nobody").returncode == 2


@pytest.mark.parametrize("module", STDLIB_ONLY)
def test_modules_inside_a_container_need_only_python(module: str) -> None:
    start = f"import sys; sys.path.insert(0, {str(project_root())!r}); import {module}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", start], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


# health ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def setup(tmp_path: Path) -> ContainerSetup:
    for role in hand.ROLES:
        (tmp_path / "run" / role).mkdir(parents=True)
    (tmp_path / "links").mkdir()
    return ContainerSetup(link="rich", run_dir=tmp_path / "run", tables=tables(tmp_path / "links", RICH))


@pytest.mark.parametrize("role", health.CHECKS)
def test_no_role_is_healthy_before_it_is_set_up(role: str, setup: ContainerSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "START_S", 0.1)
    with pytest.raises(LabFault, match="not set up yet"):
        health.CHECKS[role](setup)


def test_the_router_is_healthy_only_while_it_holds_the_link(setup: ContainerSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    router = router_with(setup.profile())
    asked: list[str] = []

    def find(_site: object, kind: str) -> Stub:
        asked.append(kind)
        return router

    monkeypatch.setattr(health.middle, "find", find)
    setup.note("router", {"kind": "uml", "ports": ["to-client", "to-server"], "wire": ["eth1", "eth0"]})
    health.router(setup)
    assert asked == ["uml"]
    router.answers[f"tc -j qdisc show dev {PORTS.client}"] = printed(None)
    with pytest.raises(LabFault, match="the link is not rich: down: netem is not there"):
        health.router(setup)


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(204 if self.path == "/ready" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Web) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield web.server_port
        web.shutdown()


def test_the_server_is_healthy_while_each_check_is_answered(setup: ContainerSetup, port: int) -> None:
    good, bad = f"http,127.0.0.1,{port},/ready", f"http,127.0.0.1,{port},/other"
    setup.note("server", {"checks": [good, f"listen,127.0.0.1,{port}"]})
    health.server(setup)
    setup.note("server", {"checks": [good, bad]})
    with pytest.raises(LabFault, match=f"not answered: {bad}$"):
        health.server(setup)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("From 10.77.1.1 icmp_seq=1 Time to live exceeded\n1 packets transmitted, 0 received, +1 errors", ""),
        ("64 bytes from 10.77.2.2: icmp_seq=1 ttl=64 time=0.1 ms\n1 packets transmitted, 1 received", "bypasses the router"),
        ("1 packets transmitted, 0 received, 100% packet loss", "no router answers"),
    ],
)
def test_one_hop_must_end_at_a_router(said: str, problem: str) -> None:
    if not problem:
        health.check_hop(Stub({"ping": said}), "10.77.2.2", 1.0)
        return
    with pytest.raises(LabFault, match=problem):
        health.check_hop(Stub({"ping": said}), "10.77.2.2", 1.0)


def test_driven_needs_a_socket_that_is_one(tmp_path: Path) -> None:
    with pytest.raises(LabFault, match="does not listen"):
        health.driven("client", str(tmp_path))
    (tmp_path / "client.socket").touch()
    with pytest.raises(LabFault, match="does not listen"):
        health.driven("client", str(tmp_path))


def test_a_check_waits_for_the_start(setup: ContainerSetup, port: int) -> None:
    begun = threading.Event()

    def begin() -> None:
        begun.set()
        setup.note("server", {"checks": [f"http,127.0.0.1,{port},/ready"]})

    timer = threading.Timer(0.2, begin)
    timer.start()
    health.server(setup)
    assert begun.is_set(), "it waited"
    timer.join()


def test_a_check_ends_before_compose_gives_it_up() -> None:
    text = (project_root() / "docker-compose.yml").read_text()
    (timeout,) = re.findall(r"timeout: (\d+)s", text)
    assert int(timeout) > health.START_S


def test_unhealthy_is_one_line() -> None:
    done = run_inside("lab.run.container_health", ROUGHWATER_ROLE="client", ROUGHWATER_DRIVER="lab")
    assert (done.returncode, done.stdout, done.stderr) == (1, "client: its agent does not listen yet\n", "")
