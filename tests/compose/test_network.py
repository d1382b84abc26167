"""Hosts that are containers are hosts like any other, and their commands are not root."""

from __future__ import annotations

import json
import time

import pytest

from lab.hosts.compose.docker import ask
from lab.hosts.compose.network import ComposeNetwork, attach, open_network
from lab.hosts.compose.project import containers
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.calibrate import calibrate
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import change, differences, shape
from lab.servers.bundle import start_servers

DSL_20 = Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("30 ms"))


def test_a_command_costs_what_it_costs(shared: ComposeNetwork) -> None:
    before = time.monotonic_ns()
    done = shared.client.run(["/bin/sh", "-c", "cat; echo no >&2; exit 3"], stdin=b"yes", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"yes", b"no\n")
    assert before < done.started_ns < done.ended_ns < time.monotonic_ns()
    assert shared.client.run(["no-such-program"], check=False).returncode == 127
    busy = shared.client.run(["/usr/bin/python3", "-c", "for i in range(3000000): pass"])
    assert busy.user_s > 0.01


def test_who_hangs_up_ends_his_command(shared: ComposeNetwork) -> None:
    late = shared.client.run(["sleep", "60"], timeout_s=0.2, check=False)
    assert late.timed_out
    assert "sleep 60" not in shared.client.run(["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).text


def test_commands_are_not_root_and_only_the_labs_root_may_touch_the_network(shared: ComposeNetwork) -> None:
    for host in (shared.client, shared.server, shared.wire):
        every = host.run(["/bin/sh", "-c", "cat /proc/[0-9]*/status"], check=False).text
        uids = {line.split()[1] for line in every.splitlines() if line.startswith("Uid:")}
        assert uids == {"7700"}, host.name
        plain = host.run(["grep", "CapEff", "/proc/self/status"]).text.split()[1]
        assert int(plain, 16) == 0
        assert host.run(["ip", "link", "set", "lo", "mtu", "60000"], check=False).returncode != 0
        host.run(["ip", "link", "set", "lo", "mtu", "60000"], root=True)


def test_the_link_is_what_it_claims_and_changes_while_it_lives(shared: ComposeNetwork) -> None:
    pin(shared, "cubic")
    assert_no_bypass(shared)
    servers = start_servers(shared)
    shaped = shape(shared, DSL_20)
    look = calibrate(shared, DSL_20, "cubic")
    assert look.ok, look.problems
    changed = change(shared, DSL_20.model_copy(update={"rate": BitRate.parse("40 Mbit/s")}))
    assert differences(shared, changed) == []
    assert differences(shared, shaped) != []
    servers.stop()


def test_a_second_way_round_the_router_is_refused(network: ComposeNetwork) -> None:
    pin(network, "cubic")
    one = next(entry["ID"] for entry in containers(network.name) if "client" in entry["Names"])
    other = f"{network.project.compose_name}_server_net"
    ask("network", "connect", other, one)
    with pytest.raises(LabFault, match="bypass the router: client has another interface"):
        assert_no_bypass(network)


def test_only_the_lab_reaches_the_containers(shared: ComposeNetwork) -> None:
    """The bridges have no address on this machine, so neither it nor the hosts it routes for can reach the containers."""
    for name in ("client_net", "server_net"):
        found = json.loads(ask("network", "inspect", f"{shared.project.compose_name}_{name}"))[0]
        gateway = found["IPAM"]["Config"][0]["Gateway"]
        assert f"inet {gateway}/" not in _addresses()


def _addresses() -> str:
    import subprocess

    return subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout


def test_a_container_that_ends_is_the_labs_fault(network: ComposeNetwork) -> None:
    server = next(entry["ID"] for entry in containers(network.name) if "server" in entry["Names"])
    ask("kill", server)
    with pytest.raises(LabFault):
        network.server.run(["true"])


def test_a_name_that_is_taken(shared: ComposeNetwork) -> None:
    with pytest.raises(UsageProblem, match="already there"):
        open_network(name=shared.name)
    shared.client.run(["true"])


def test_another_process_finds_it_again(shared: ComposeNetwork) -> None:
    with pytest.raises(UsageProblem, match="belongs to a run"):
        attach(shared.name)
    shared.remember({"topology": {"name": "x"}})
    found, note = attach(shared.name)
    assert note["topology"] == {"name": "x"}
    assert found.client.run(["hostname"]).returncode == 0
    assert found.router.run(["ip", "-j", "address"]).returncode == 0


def test_results_can_say_what_they_were_made_with(shared: ComposeNetwork) -> None:
    assert set(shared.backend_facts) == {"engine", "compose", "image client", "image router", "image server"}
    used = {entry["ID"] for entry in containers(shared.name)}
    ids = {json.loads(ask("inspect", one))[0]["Image"] for one in used}
    assert ids == {value for key, value in shared.backend_facts.items() if key.startswith("image")}
