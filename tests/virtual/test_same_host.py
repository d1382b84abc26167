"""Client and server on one host, in virtual time: names, settings, what is refused, and cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hosts import loopback
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.errors import LabFault, NotSupported
from lab.model.link import Link
from lab.model.load import load_topology
from lab.model.units import BitRate
from lab.model.wiring import Wiring
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.bundle import SAME_HOST, start_servers
from lab.store.run_dir import RunDir, read_cell
from tests.support.command import lab

_ASK = "import socket; print(*[found[4][0] for found in socket.getaddrinfo('localhost', 80, type=socket.SOCK_STREAM)])"
_LONGEST_S = 300


@pytest.fixture(scope="module")
def one() -> Iterator[VirtualNetwork]:
    made = open_network(seed=3, wiring=Wiring(same_host=True))
    pin(made, "cubic")
    yield made
    made.close()


def test_localhost_is_ipv6_first(one: VirtualNetwork) -> None:
    found = one.client.run([one.client.program("python3"), "-c", _ASK]).text.split()
    assert found == ["::1", "127.0.0.1"]


def test_both_ends_are_one_host_without_a_router(one: VirtualNetwork) -> None:
    assert_no_bypass(one)
    assert one.router_facts.kind == "none"
    assert (one.wire_ports, one.router_ports) == (loopback.PORTS, loopback.PORTS)
    assert one.client.address == one.server.address == "127.0.0.1"
    assert one.client.workdir != one.server.workdir


def test_the_servers_answer_at_both_addresses_with_one_certificate(one: VirtualNetwork) -> None:
    servers = start_servers(
        one, payload_sizes=(1000,), places=SAME_HOST, clock=one.clock, random_bytes=one.random_bytes, wanted=("nginx",)
    )
    code = ["curl", "-sS", "--cacert", servers.endpoints.ca_path, "-o", "/dev/null", "-w", "%{http_code} %{remote_ip}"]
    said = [one.client.run([*code, f"https://{place}/ready"], check=False).text for place in ("localhost", "127.0.0.1", "[::1]")]
    servers.stop()
    assert said[0].startswith("204 "), "which address comes first is the client's choice"
    assert said[1:] == ["204 127.0.0.1", "204 ::1"]


def test_changed_settings_are_noticed(one: VirtualNetwork) -> None:
    assert one.client.unpinned("cubic") == []
    one.client.run(["/bin/sh", "-c", "echo 0 >/proc/sys/net/ipv4/tcp_sack"], root=True)
    assert one.client.unpinned("reno") == [
        "net.ipv4.tcp_sack is '0', not '1'",
        "congestion control of the route to 127.0.0.1 is cubic, not reno",
        "congestion control of the route to ::1 is cubic, not reno",
    ]
    pin(one, "cubic")
    assert one.server.unpinned("cubic") == []


def test_another_interface_is_refused() -> None:
    made = open_network(seed=4, wiring=Wiring(same_host=True))
    try:
        made.wire.run(["ip", "link", "add", "more", "type", "veth", "peer", "name", "end"], root=True)
        assert_no_bypass(made)
        made.wire.run(["ip", "link", "set", "more", "up"], root=True)
        with pytest.raises(LabFault, match="client has an interface besides its loopback, more"):
            assert_no_bypass(made)
    finally:
        made.close()


def test_nothing_can_be_shaped(one: VirtualNetwork) -> None:
    with pytest.raises(NotSupported, match="no link between them"):
        shape(one, Link(rate=BitRate.parse("1 Mbit/s")))
    assert shape(one, load_topology("same-host").link).commands == ()


def test_cells_over_the_loopback(tmp_path: Path) -> None:
    names = ["ferry--same-host--h2-get-500kB-at-1MBps", "ferry--same-host--sftp-put-500kB-at-1MBps"]
    done = lab("run", *names, "--json", env={"ROUGHWATER_RESULTS": str(tmp_path)}, timeout=_LONGEST_S)
    assert done.returncode == 0, done.stderr
    run = RunDir(tmp_path / json.loads(done.stdout)["run"])
    for name in names:
        cell = read_cell(run.cell_path(name))
        assert (cell.clock, cell.router["kind"]) == ("virtual", "none")
        wire = cell.samples[0].wire
        assert wire is not None
        assert wire.wire_bytes_down == wire.wire_bytes_up > 500_000, "the loopback counts both directions in one"
        assert wire.payload_bytes > 500_000


def test_what_needs_a_link_is_skipped_with_the_reason(tmp_path: Path) -> None:
    words = ("run", "windows-quirks", "--test", "The Link Flaps*", "--client", "ferry", "-v", "TOPOLOGY:same-host")
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(tmp_path)}, timeout=_LONGEST_S)
    assert "there is no link between them" in done.stdout + done.stderr
    assert "INVALID" not in done.stdout.replace("0 INVALID", "")


def test_a_command_of_a_persons_on_one_host() -> None:
    """Public reports say "on localhost"; a person who follows them has the lab's localhost in a shell, too."""
    words = ("shell", "--topology", "same-host", "--clock", "virtual", "--")
    done = lab(*words, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{remote_ip}", "http://localhost/files/1MiB")
    assert (done.returncode, done.stdout[:4]) == (0, "200 "), done.stderr
    assert "lab: not known: one host has no link to watch" in done.stderr
